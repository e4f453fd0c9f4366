package main

import (
	"crypto/md5"
	"crypto/tls"
	"fmt"
	"net"
	"net/textproto"
	"strings"
)

// pop3 is a connection to a POP3 server, and what its greeting was.
type pop3 struct {
	*textproto.Conn
	socket   net.Conn
	greeting string
}

func (s *site) pop3(way int) *pop3 {
	name := "pop"
	if way == overTLS {
		name = "pops"
	}
	socket := s.dial(name, way == overTLS)
	connection := &pop3{Conn: textproto.NewConn(socket), socket: socket}
	connection.greeting = connection.response()
	if way == afterSTARTTLS {
		connection.command("STLS")
		encrypted := tls.Client(socket, s.tls)
		check(encrypted.Handshake())
		connection.Conn = textproto.NewConn(encrypted)
	}
	return connection
}

// say gives a response as it is.
func (c *pop3) say(format string, arguments ...any) string {
	check(c.PrintfLine(format, arguments...))
	line, err := c.ReadLine()
	check(err)
	return line
}

func (c *pop3) response() string {
	line, err := c.ReadLine()
	check(err)
	if !strings.HasPrefix(line, "+OK") {
		fail("%q", line)
	}
	return line
}

// command fails unless the response is a good one.
func (c *pop3) command(format string, arguments ...any) string {
	check(c.PrintfLine(format, arguments...))
	return c.response()
}

func (s *site) readByPOP3() {
	together(
		func() { s.readByPOP3In(inTheClear) },
		func() { s.readByPOP3In(afterSTARTTLS) },
		func() { s.readByPOP3In(overTLS) },
	)
}

func (s *site) readByPOP3In(way int) {
	wrong := s.pop3(way)
	wrong.command("USER %s", user)
	if line := wrong.say("PASS wrong"); line != "-ERR Invalid login or password" {
		fail("%q", line)
	}
	// On the same connection.
	wrong.command("USER %s", user)
	wrong.command("PASS %s", password)
	wrong.command("QUIT")

	connection := s.pop3(way)
	if from := strings.IndexByte(connection.greeting, '<'); from >= 0 && way == inTheClear {
		// APOP (RFC 1939, section 7).
		digest := md5.Sum([]byte(connection.greeting[from:] + password))
		connection.command("APOP %s %x", user, digest)
	} else if way == inTheClear {
		fail("no APOP in %q", connection.greeting)
	} else {
		connection.command("USER %s", user)
		connection.command("PASS %s", password)
	}
	var count, size int
	_, err := fmt.Sscanf(connection.command("STAT"), "+OK %d %d", &count, &size)
	check(err)
	if count != len(subjects) || size == 0 {
		fail("%d letters with %d bytes", count, size)
	}
	texts := map[string]string{}
	// All commands before the first response.
	for number := 1; number <= count; number++ {
		check(connection.PrintfLine("RETR %d", number))
	}
	for number := 1; number <= count; number++ {
		connection.response()
		header, err := connection.ReadMIMEHeader()
		check(err)
		text, err := connection.ReadDotBytes()
		check(err)
		texts[header.Get("Subject")] = string(text)
	}
	isEverything(texts)
	connection.command("QUIT")
}
