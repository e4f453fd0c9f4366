module sealane.test/client

go 1.19
