// An HTTP/3 client on quic-go, which runs one script (tests/src/quic.rs).
//
// The script is JSON on standard input; what happened is JSON on standard output. The exit status is
// 0 whatever the server did.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlogwriter"
)

const (
	// How long one step may take. A test has three minutes in all.
	stepLimit = 150 * time.Second
	// The same for a handshake, and for a server that is to close the connection.
	handshakeLimit = 20 * time.Second
	closeLimit     = 30 * time.Second
)

type script struct {
	Address       string  `json:"address"`
	Authority     string  `json:"authority"`
	ServerName    string  `json:"server_name"`
	Version       int     `json:"version"`
	ALPN          string  `json:"alpn"`
	ReceiveWindow uint64  `json:"receive_window"`
	Unknown       bool    `json:"unknown_version_first"`
	Both          bool    `json:"also_version_2"`
	Connections   []*plan `json:"connections"`
}

type plan struct {
	Resume string `json:"resume"`
	Steps  []step `json:"steps"`
}

type step struct {
	Do           string    `json:"do"`
	Requests     []request `json:"requests"`
	Address      string    `json:"address"`
	Milliseconds int       `json:"ms"`
}

type request struct {
	Method    string      `json:"method"`
	Path      string      `json:"path"`
	Headers   [][2]string `json:"headers"`
	BodyBytes int64       `json:"body_bytes"`
}

type result struct {
	Version            uint32        `json:"version"`
	Retry              bool          `json:"retry"`
	VersionNegotiation bool          `json:"version_negotiation"`
	Resumed            bool          `json:"resumed"`
	EarlyData          string        `json:"early_data"`
	KeyUpdates         int           `json:"key_updates"`
	Tickets            int           `json:"tickets"`
	Tokens             int           `json:"tokens"`
	Migrations         int           `json:"migrations"`
	Responses          []*response   `json:"responses"`
	WebSockets         []struct{}    `json:"websockets"`
	Close              *closeMessage `json:"close"`
	Milliseconds       int64         `json:"milliseconds"`
}

type closeMessage struct {
	ByServer    bool    `json:"by_server"`
	Application bool    `json:"application"`
	Code        *uint64 `json:"code"`
	Reason      string  `json:"reason"`
}

// client runs the connections of a script, one after the other.
type client struct {
	script  *script
	server  *net.UDPAddr
	roots   *x509.CertPool
	tickets *ticketStore
	tokens  *tokenStore
}

func main() {
	var read script
	if err := json.NewDecoder(os.Stdin).Decode(&read); err != nil {
		fatal("the script: %v", err)
	}
	if read.Unknown || read.Both {
		fatal("quic-go cannot begin with another version")
	}
	server, err := net.ResolveUDPAddr("udp", read.Address)
	if err != nil {
		fatal("the address: %v", err)
	}
	certificates, err := os.ReadFile(read.Authority)
	if err != nil {
		fatal("%v", err)
	}
	c := client{script: &read, server: server, roots: x509.NewCertPool(), tickets: &ticketStore{}, tokens: &tokenStore{}}
	c.roots.AppendCertsFromPEM(certificates)
	results := []*result{}
	for _, planned := range read.Connections {
		results = append(results, c.connection(planned))
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"connections": results})
}

func fatal(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(3)
}

// connection runs one part of the script.
func (c *client) connection(planned *plan) *result {
	out := &result{EarlyData: "none", Responses: []*response{}, WebSockets: []struct{}{}}
	observed := &observer{}
	if planned.Resume == "none" {
		c.tickets.forget()
		c.tokens.forget()
	}
	early := planned.Resume == "early" && c.tickets.last != nil
	tickets, tokens := c.tickets.count(), c.tokens.count()
	started := time.Now()
	transport := &quic.Transport{Conn: listen("")}
	defer transport.Close()
	connection, err := c.dial(transport, early, observed)
	if err == nil {
		err = c.steps(connection, planned, early, out)
		state := connection.ConnectionState()
		out.Version = uint32(state.Version)
		out.Resumed = state.TLS.DidResume
		if early && state.Used0RTT {
			out.EarlyData = "accepted"
		} else if early {
			out.EarlyData = "rejected"
		}
	}
	out.Milliseconds = time.Since(started).Milliseconds()
	out.Close = describe(err)
	out.Tickets = c.tickets.count() - tickets
	out.Tokens = c.tokens.count() - tokens
	out.Retry, out.VersionNegotiation, out.KeyUpdates = observed.seen()
	if connection != nil {
		connection.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	}
	return out
}

func (c *client) dial(transport *quic.Transport, early bool, observed *observer) (*quic.Conn, error) {
	version := quic.Version1
	if c.script.Version == 2 {
		version = quic.Version2
	}
	protocol := c.script.ALPN
	if protocol == "" {
		protocol = http3.NextProtoH3
	}
	settings := &tls.Config{
		RootCAs: c.roots, ServerName: c.script.ServerName, NextProtos: []string{protocol}, ClientSessionCache: c.tickets,
	}
	window := c.script.ReceiveWindow
	config := &quic.Config{
		Versions: []quic.Version{version}, TokenStore: c.tokens, MaxIncomingStreams: -1, HandshakeIdleTimeout: handshakeLimit,
		InitialStreamReceiveWindow: window, MaxStreamReceiveWindow: window,
		InitialConnectionReceiveWindow: window, MaxConnectionReceiveWindow: window,
		Tracer: func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return observed },
	}
	limit, cancel := context.WithTimeout(context.Background(), handshakeLimit)
	defer cancel()
	if early {
		return transport.DialEarly(limit, c.server, settings, config)
	}
	return transport.Dial(limit, c.server, settings, config)
}

// steps gives the reason for which the connection ended, if it did.
func (c *client) steps(connection *quic.Conn, planned *plan, early bool, out *result) error {
	http := (&http3.Transport{DisableCompression: true}).NewClientConn(connection)
	for number, step := range planned.Steps {
		if connection.Context().Err() != nil {
			break
		}
		switch step.Do {
		case "requests":
			out.Responses = append(out.Responses, c.requests(http, step.Requests, early && number == 0)...)
		case "rebind":
			if err := rebind(connection, step.Address); err == nil {
				out.Migrations++
			} else {
				fmt.Fprintf(os.Stderr, "rebind: %v\n", err)
			}
		case "wait":
			time.Sleep(time.Duration(step.Milliseconds) * time.Millisecond)
		case "wait_for_close":
			select {
			case <-connection.Context().Done():
			case <-time.After(closeLimit):
			}
		default:
			fatal("quic-go cannot do %s", step.Do)
		}
	}
	select {
	case <-connection.HandshakeComplete():
		// Tickets and tokens may follow the last response.
		time.Sleep(50 * time.Millisecond)
	case <-connection.Context().Done():
	case <-time.After(handshakeLimit):
	}
	if connection.Context().Err() != nil {
		return context.Cause(connection.Context())
	}
	return nil
}

// rebind goes on from a new port of a local address, once the path is validated.
func rebind(connection *quic.Conn, address string) error {
	limit, cancel := context.WithTimeout(context.Background(), handshakeLimit)
	defer cancel()
	path, err := connection.AddPath(&quic.Transport{Conn: listen(address)})
	if err != nil {
		return err
	}
	if err := path.Probe(limit); err != nil {
		return err
	}
	return path.Switch()
}

func listen(address string) *net.UDPConn {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(address)})
	if err != nil {
		fatal("%v", err)
	}
	return socket
}

func describe(err error) *closeMessage {
	if err == nil {
		return nil
	}
	var transport *quic.TransportError
	var application *quic.ApplicationError
	out := &closeMessage{Reason: err.Error()}
	if errors.As(err, &application) {
		code := uint64(application.ErrorCode)
		out.ByServer, out.Application, out.Code = application.Remote, true, &code
		out.Reason = application.ErrorMessage
	} else if errors.As(err, &transport) {
		code := uint64(transport.ErrorCode)
		out.ByServer, out.Code, out.Reason = transport.Remote, &code, transport.ErrorMessage
	}
	return out
}

// requests sends requests that are all in flight at once.
func (c *client) requests(connection *http3.ClientConn, all []request, early bool) []*response {
	limit, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	out := make([]*response, len(all))
	done := make(chan struct{})
	for number, one := range all {
		out[number] = &response{Headers: [][2]string{}}
		go func() {
			out[number].fetch(limit, connection, c.url(one.Path), one, early)
			done <- struct{}{}
		}()
	}
	for range all {
		<-done
	}
	return out
}

func (c *client) url(path string) string {
	_, port, _ := net.SplitHostPort(c.script.Address)
	return "https://" + net.JoinHostPort(c.script.ServerName, port) + path
}

// earlyMethod tells quic-go that a request may be early data.
func earlyMethod(method string) string {
	switch method {
	case http.MethodGet:
		return http3.MethodGet0RTT
	case http.MethodHead:
		return http3.MethodHead0RTT
	}
	return method
}
