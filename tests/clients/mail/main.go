// The mail client of the end-to-end tests: what Go's standard library and the module go-imap make
// of IMAP, POP3 and SMTP.
//
//	client letters -ca FILE -ports NAME=PORT,...
//	client tokens  -ca FILE -ports NAME=PORT,... -token TOKEN
//
// letters sends letters with net/smtp and reads all of them with go-imap and net/textproto.
// tokens logs in with XOAUTH2 and OAUTHBEARER, with the right token and with wrong ones. Both print
// "all is well" if everything was as it should be.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/textproto"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const (
	limit    = 100 * time.Second
	user     = "jo"
	password = "secret"
)

// Everything that a test tells about its servers.
type site struct {
	tls   *tls.Config
	ports map[string]string
	token string
}

func main() {
	if len(os.Args) < 2 {
		fail("usage: client letters|tokens ...")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	authority := flags.String("ca", "", "PEM file with the authority to trust")
	ports := flags.String("ports", "", "NAME=PORT,...")
	token := flags.String("token", "", "the token that is right")
	_ = flags.Parse(os.Args[2:])
	// smtp.SendMail has no other way to learn of it.
	check(os.Setenv("SSL_CERT_FILE", *authority))
	all := site{
		tls:   &tls.Config{ServerName: "localhost"},
		ports: map[string]string{},
		token: *token,
	}
	for _, pair := range strings.Split(*ports, ",") {
		name, port, _ := strings.Cut(pair, "=")
		all.ports[name] = port
	}
	// Who waits, and for what.
	debug.SetTraceback("all")
	time.AfterFunc(limit, func() { fail("this takes too long: %s", transcripts()) })
	switch os.Args[1] {
	case "letters":
		all.letters()
	case "tokens":
		all.tokens()
	default:
		fail("unknown command %q", os.Args[1])
	}
	fmt.Println("all is well")
}

// address is that of a server; its host is the name in the certificate.
func (s *site) address(name string) string {
	port, known := s.ports[name]
	if !known {
		fail("no port %q", name)
	}
	return net.JoinHostPort("localhost", port)
}

// dial connects to a server, with TLS from the beginning or without.
func (s *site) dial(name string, withTLS bool) net.Conn {
	socket, err := net.Dial("tcp", s.address(name))
	check(err)
	if withTLS {
		encrypted := tls.Client(socket, s.tls)
		check(encrypted.Handshake())
		return encrypted
	}
	return socket
}

func (s *site) letters() {
	s.send()
	together(s.readByIMAP, s.readByPOP3)
}

// together runs all of them at once: most of the time they wait, as who failed to log in has to.
func together(all ...func()) {
	var running sync.WaitGroup
	for _, run := range all {
		run := run
		running.Add(1)
		go func() {
			defer running.Done()
			run()
		}()
	}
	running.Wait()
}

// isRefusal fails unless the error is an SMTP response with this code.
func isRefusal(err error, code int) {
	var said *textproto.Error
	if !errors.As(err, &said) || said.Code != code {
		fail("%v instead of %d", err, code)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func fail(format string, arguments ...any) {
	panic(fmt.Sprintf(format, arguments...))
}
