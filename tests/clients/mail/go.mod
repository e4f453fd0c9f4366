module sealane.test/mail

go 1.19

require (
	github.com/emersion/go-imap v1.2.1
	github.com/emersion/go-sasl v0.0.0-20241020182733-b788ff22d5a6
)

require golang.org/x/text v0.3.7 // indirect
