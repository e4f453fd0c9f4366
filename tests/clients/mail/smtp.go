package main

import (
	"fmt"
	"net/smtp"
)

// subjects are those of all letters.
var subjects = []string{
	"PLAIN after STARTTLS",
	"CRAM-MD5 in the clear",
	"CRAM-MD5 after STARTTLS",
	"PLAIN over TLS",
	"PLAIN for the server",
	"SendMail",
}

const letterText = "From: jo@example.org\r\nTo: jo@example.org\r\nSubject: %s\r\n\r\nhello\r\n.\r\n..two dots\r\n"

// connect greets a server, and begins TLS where that is asked for.
func (s *site) connect(name string, withTLS, startTLS bool) *smtp.Client {
	client, err := smtp.NewClient(s.dial(name, withTLS), "localhost")
	check(err)
	if startTLS {
		has, _ := client.Extension("STARTTLS")
		if !has {
			fail("%s has no STARTTLS", name)
		}
		check(client.StartTLS(s.tls))
		if _, is := client.TLSConnectionState(); !is {
			fail("no TLS at %s", name)
		}
	}
	return client
}

func (s *site) send() {
	plain := smtp.PlainAuth("", user, password, "localhost")
	digest := smtp.CRAMMD5Auth(user, password)

	isRefused := func(auth smtp.Auth) {
		client := s.connect("smtp", false, true)
		isRefusal(client.Auth(auth), 535)
		// It has said QUIT by itself.
		_ = client.Close()
	}
	together(
		func() { isRefused(smtp.PlainAuth("", user, "wrong", "localhost")) },
		func() { isRefused(smtp.CRAMMD5Auth(user, "wrong")) },
	)
	// Not without a login.
	client := s.connect("smtp", false, false)
	isRefusal(client.Mail("jo@example.org"), 530)
	check(client.Auth(digest))
	check(client.Close())

	letter := func(client *smtp.Client, auth smtp.Auth, subject string) {
		check(client.Auth(auth))
		check(client.Noop())
		check(client.Mail("jo@example.org"))
		check(client.Rcpt("jo@example.org"))
		data, err := client.Data()
		check(err)
		_, err = fmt.Fprintf(data, letterText, subject)
		check(err)
		check(data.Close())
		check(client.Quit())
	}
	letter(s.connect("smtp", false, true), plain, subjects[0])
	letter(s.connect("smtp", false, false), digest, subjects[1])
	letter(s.connect("smtp", false, true), digest, subjects[2])
	letter(s.connect("smtps", true, false), plain, subjects[3])
	letter(s.connect("smtp_auth", false, true), plain, subjects[4])
	// The whole of it in one function, which begins TLS by itself.
	text := fmt.Sprintf(letterText, subjects[5])
	check(smtp.SendMail(s.address("smtp"), plain, "jo@example.org", []string{"jo@example.org"}, []byte(text)))
}
