package main

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-imap"
	"github.com/emersion/go-imap/client"
	"github.com/emersion/go-sasl"
)

// The ways to an IMAP server.
const (
	inTheClear = iota
	afterSTARTTLS
	overTLS
)

// transcript is what was said on a connection, to be shown if nothing more is said.
type transcript struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (t *transcript) Write(bytes []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.text.Write(bytes)
}

var (
	allTranscripts      []*transcript
	allTranscriptsMutex sync.Mutex
)

// transcripts shows those of all connections that have not been closed by LOGOUT.
func transcripts() string {
	allTranscriptsMutex.Lock()
	defer allTranscriptsMutex.Unlock()
	var shown strings.Builder
	for _, one := range allTranscripts {
		one.mutex.Lock()
		if text := one.text.String(); !strings.Contains(text, " LOGOUT") {
			fmt.Fprintf(&shown, "----\n%s\n", text)
		}
		one.mutex.Unlock()
	}
	return shown.String()
}

func (s *site) imap(way int) *client.Client {
	connected := s.connectIMAP(way)
	said := new(transcript)
	allTranscriptsMutex.Lock()
	allTranscripts = append(allTranscripts, said)
	allTranscriptsMutex.Unlock()
	connected.SetDebug(said)
	return connected
}

func (s *site) connectIMAP(way int) *client.Client {
	if way == overTLS {
		connected, err := client.DialTLS(s.address("imaps"), s.tls)
		check(err)
		return connected
	}
	connected, err := client.Dial(s.address("imap"))
	check(err)
	if way == afterSTARTTLS {
		has, err := connected.SupportStartTLS()
		check(err)
		if !has {
			fail("no STARTTLS")
		}
		check(connected.StartTLS(s.tls))
	}
	return connected
}

// found is what the mailbox holds: subject and text of all letters.
func found(connected *client.Client) map[string]string {
	box, err := connected.Select("INBOX", true)
	check(err)
	texts := map[string]string{}
	if box.Messages == 0 {
		return texts
	}
	numbers := new(imap.SeqSet)
	numbers.AddRange(1, box.Messages)
	text := &imap.BodySectionName{BodyPartName: imap.BodyPartName{Specifier: imap.TextSpecifier}, Peek: true}
	// Who reads by POP3 marks letters as seen meanwhile, so there may be more messages than letters:
	// they are taken while they come.
	messages := make(chan *imap.Message)
	fetched := make(chan error, 1)
	go func() {
		fetched <- connected.Fetch(numbers, []imap.FetchItem{imap.FetchEnvelope, text.FetchItem()}, messages)
	}()
	for message := range messages {
		if message.Envelope == nil {
			continue
		}
		content, err := io.ReadAll(message.GetBody(text))
		check(err)
		texts[message.Envelope.Subject] = string(content)
	}
	check(<-fetched)
	return texts
}

func (s *site) readByIMAP() {
	// What was sent last may be delivered last.
	for {
		connected := s.imap(overTLS)
		check(connected.Login(user, password))
		texts := found(connected)
		check(connected.Logout())
		if len(texts) == len(subjects) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	logins := map[string]func(*client.Client, string) error{
		"LOGIN": func(connected *client.Client, password string) error {
			return connected.Login(user, password)
		},
		"AUTHENTICATE PLAIN": func(connected *client.Client, password string) error {
			return connected.Authenticate(sasl.NewPlainClient("", user, password))
		},
		"AUTHENTICATE LOGIN": func(connected *client.Client, password string) error {
			return connected.Authenticate(sasl.NewLoginClient(user, password))
		},
	}
	var all []func()
	for name, login := range logins {
		name, login := name, login
		all = append(all, func() { s.readAfter(name, login) })
	}
	together(all...)
}

// readAfter logs in, at first with a wrong password, in all ways to the server.
func (s *site) readAfter(name string, login func(*client.Client, string) error) {
	for way := inTheClear; way <= overTLS; way++ {
		// It does not know what to answer "Username:", so it needs SASL-IR (RFC 4959).
		if name == "AUTHENTICATE LOGIN" && way != overTLS {
			continue
		}
		connected := s.imap(way)
		if way == inTheClear || name == "AUTHENTICATE LOGIN" {
			err := login(connected, "wrong")
			if err == nil || !strings.Contains(err.Error(), "Invalid login or password") {
				fail("%s with a wrong password: %v", name, err)
			}
		}
		// On the same connection.
		if err := login(connected, password); err != nil {
			fail("%s %d: %v", name, way, err)
		}
		isEverything(found(connected))
		check(connected.Logout())
	}
}

func isEverything(texts map[string]string) {
	var names []string
	for name, text := range texts {
		names = append(names, name)
		if strings.ReplaceAll(text, "\r\n", "\n") != "hello\n.\n..two dots\n" {
			fail("%s: %q", name, text)
		}
	}
	expected := append([]string{}, subjects...)
	sort.Strings(names)
	sort.Strings(expected)
	if fmt.Sprint(names) != fmt.Sprint(expected) {
		fail("%q instead of %q", names, expected)
	}
}
