package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/smtp"
	"strings"

	"github.com/emersion/go-sasl"
)

// xoauth2 is Google's and Microsoft's way with a token. It answers an error with nothing, and waits
// for the refusal.
type xoauth2 struct {
	token string
	err   string
}

func (x *xoauth2) response() []byte {
	return []byte(fmt.Sprintf("user=%s\x01auth=Bearer %s\x01\x01", user, x.token))
}

// Start is of sasl.Client.
func (x *xoauth2) Start() (string, []byte, error) {
	return "XOAUTH2", x.response(), nil
}

// Next is of sasl.Client.
func (x *xoauth2) Next(challenge []byte) ([]byte, error) {
	x.err = string(challenge)
	return []byte{}, nil
}

// overSMTP makes a mechanism one for net/smtp.
type overSMTP struct {
	sasl.Client
}

func (o overSMTP) Start(*smtp.ServerInfo) (string, []byte, error) {
	return o.Client.Start()
}

func (o overSMTP) Next(challenge []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	return o.Client.Next(challenge)
}

func bearer(token string) sasl.Client {
	return sasl.NewOAuthBearerClient(&sasl.OAuthBearerOptions{Username: user, Token: token, Host: "localhost", Port: 993})
}

func (s *site) tokens() {
	together(
		func() { s.imapTokens(afterSTARTTLS) },
		func() { s.imapTokens(overTLS) },
		s.unknownToken,
		func() { s.pop3Tokens(afterSTARTTLS) },
		func() { s.pop3Tokens(overTLS) },
		func() { s.smtpTokens("smtp") },
		func() { s.smtpTokens("smtps") },
	)
}

func isTold(text, expected string) {
	if !strings.Contains(text, expected) {
		fail("%q without %q", text, expected)
	}
}

func (s *site) imapTokens(way int) {
	connected := s.imap(way)
	for _, name := range []string{"XOAUTH2", "OAUTHBEARER"} {
		if has, err := connected.SupportAuth(name); err != nil || !has {
			fail("no %s: %v", name, err)
		}
	}
	old := &xoauth2{token: "expired"}
	isTold(fmt.Sprint(connected.Authenticate(old)), "The token is no good")
	isTold(old.err, `"status":"invalid_token"`)
	// This client of go-sasl gives up by itself, and is not told more.
	var refused *sasl.OAuthBearerError
	if err := connected.Authenticate(bearer("expired")); !errors.As(err, &refused) || refused.Status != "invalid_token" {
		fail("%v", err)
	}
	_ = connected.Terminate()

	for _, mechanism := range []sasl.Client{&xoauth2{token: s.token}, bearer(s.token)} {
		connected := s.imap(way)
		check(connected.Authenticate(mechanism))
		_, err := connected.Select("INBOX", true)
		check(err)
		check(connected.Logout())
	}
}

// unknownToken is one that the auth service lets pass, and Dovecot does not.
func (s *site) unknownToken() {
	connected := s.imap(overTLS)
	if err := connected.Authenticate(&xoauth2{token: "unknown"}); err == nil {
		fail("Dovecot takes any token")
	}
	_ = connected.Terminate()
}

func (s *site) pop3Tokens(way int) {
	connection := s.pop3(way)
	encoded := func(token string) string {
		return base64.StdEncoding.EncodeToString((&xoauth2{token: token}).response())
	}
	isTold(connection.say("AUTH XOAUTH2 %s", encoded("expired")), "+ ")
	isTold(connection.say(""), "-ERR The token is no good")
	isTold(connection.say("AUTH XOAUTH2"), "+ ")
	connection.command("%s", encoded(s.token))
	connection.command("STAT")
	connection.command("QUIT")
}

func (s *site) smtpTokens(name string) {
	connect := func() *smtp.Client { return s.connect(name, name == "smtps", name == "smtp") }
	connected := connect()
	old := &xoauth2{token: "expired"}
	isRefusal(connected.Auth(overSMTP{old}), 535)
	isTold(old.err, `"status":"invalid_token"`)
	_ = connected.Close()
	for _, mechanism := range []sasl.Client{&xoauth2{token: s.token}, bearer(s.token)} {
		connected := connect()
		check(connected.Auth(overSMTP{mechanism}))
		check(connected.Mail("jo@example.org"))
		check(connected.Quit())
	}
}
