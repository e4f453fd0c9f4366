package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// The time between two requests of one connection that is kept, so that many are idle.
const thinkingTime = 2 * time.Millisecond

// tally is what came of a load.
type tally struct {
	requests, connections atomic.Int64
	// Nobody accepted.
	refused atomic.Int64
	// A connection ended where an answer was due.
	broken atomic.Int64
	// Another status, or other bytes than the first answer had.
	wrong atomic.Int64
	said  atomic.Int64
}

// load makes requests until standard input ends. Every connection that ends without the server
// having said so before (Connection: close, GOAWAY, close_notify alone is not enough) is counted
// if a request was sent on it.
func load(address string, configuration *tls.Config, kind string, parallel int, path string) {
	var stop atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop.Store(true)
	}()
	var all tally
	var workers sync.WaitGroup
	run := func() { all.oneByOne(address, configuration, kind == "close", path, &stop) }
	if kind == "http2" {
		client := all.http2Client(address, configuration)
		run = func() { all.streams(client, address, path, &stop) }
	}
	for range parallelism(parallel) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			run()
		}()
	}
	workers.Wait()
	fmt.Printf("requests %d connections %d refused %d broken %d wrong %d\n", all.requests.Load(),
		all.connections.Load(), all.refused.Load(), all.broken.Load(), all.wrong.Load())
}

// answered counts a good answer and tells of the first.
func (t *tally) answered() {
	if t.requests.Add(1) == 1 {
		fmt.Println("begun")
	}
}

// failed counts a failure and says the first ones.
func (t *tally) failed(count *atomic.Int64, what string, err error) {
	count.Add(1)
	if t.said.Add(1) <= 20 {
		fmt.Fprintf(os.Stderr, "client: %s: %v\n", what, err)
	}
}

// oneByOne makes one request after the other, on one connection as long as the server allows.
func (t *tally) oneByOne(address string, configuration *tls.Config, closes bool, path string, stop *atomic.Bool) {
	var expected [sha256.Size]byte
	request := "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if closes {
		request += "Connection: close\r\n"
	}
	request += "\r\n"
	for !stop.Load() {
		socket, err := net.DialTimeout("tcp", address, limit)
		if err != nil {
			t.failed(&t.refused, "connect", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		t.connections.Add(1)
		_ = socket.SetDeadline(time.Now().Add(limit))
		if configuration != nil {
			encrypted := tls.Client(socket, configuration)
			if err := encrypted.Handshake(); err != nil {
				t.failed(&t.broken, "handshake", err)
				_ = socket.Close()
				continue
			}
			socket = encrypted
		}
		reader := bufio.NewReaderSize(socket, 4096)
		for number := 1; !stop.Load(); number++ {
			_ = socket.SetDeadline(time.Now().Add(limit))
			ended, err := t.one(socket, reader, request, &expected)
			if err != nil {
				t.failed(&t.broken, fmt.Sprintf("request %d of %s", number, socket.LocalAddr()), err)
			}
			if ended || err != nil {
				break
			}
			time.Sleep(thinkingTime)
		}
		_ = socket.Close()
	}
}

// one makes one request and says whether it was the last of its connection.
func (t *tally) one(socket net.Conn, reader *bufio.Reader, request string, expected *[sha256.Size]byte) (bool, error) {
	if _, err := io.WriteString(socket, request); err != nil {
		return true, err
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return true, err
	}
	t.answered()
	defer response.Body.Close()
	return response.Close, t.check(response, expected)
}

// check reads the body, which has to be the one that came first.
func (t *tally) check(response *http.Response, expected *[sha256.Size]byte) error {
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return err
	}
	digest := sha256.Sum256(body.Bytes())
	if *expected == ([sha256.Size]byte{}) {
		*expected = digest
	}
	if response.StatusCode != 200 || digest != *expected {
		t.failed(&t.wrong, "answer", fmt.Errorf("status %d, %d bytes", response.StatusCode, body.Len()))
	}
	return nil
}

// http2Client is one connection for all streams, and another one as soon as that ends. What Go
// does with GOAWAY is what RFC 9113 section 6.8 asks for: streams up to the last one that
// the server names go on, those behind it were not processed and are sent again elsewhere.
func (t *tally) http2Client(address string, configuration *tls.Config) *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		socket, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, errRefused{err}
		}
		t.connections.Add(1)
		return socket, nil
	}
	transport := &http.Transport{
		DialContext:        dial,
		TLSClientConfig:    configuration,
		DisableCompression: true,
		ForceAttemptHTTP2:  true,
	}
	return &http.Client{Timeout: limit, Transport: transport}
}

type errRefused struct{ error }

// streams makes one request after the other, beside others on the same connection.
func (t *tally) streams(client *http.Client, address, path string, stop *atomic.Bool) {
	var expected [sha256.Size]byte
	for !stop.Load() {
		response, err := client.Get("https://" + address + path)
		var refused errRefused
		switch {
		case errors.As(err, &refused):
			t.failed(&t.refused, "connect", err)
			time.Sleep(10 * time.Millisecond)
			continue
		case err != nil:
			t.failed(&t.broken, "stream", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		t.answered()
		if response.ProtoMajor != 2 {
			t.failed(&t.wrong, "stream", fmt.Errorf("it came over %s", response.Proto))
		}
		if err := t.check(response, &expected); err != nil {
			t.failed(&t.broken, "stream", err)
		}
		_ = response.Body.Close()
		time.Sleep(thinkingTime)
	}
}
