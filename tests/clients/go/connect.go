package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// connect opens a tunnel to target over HTTP/2, sends every text through it, and prints the status
// and what comes back. Then it ends its side and prints what comes until the other side ends.
func connect(address string, configuration *tls.Config, target string, texts []string) {
	transport := &http.Transport{TLSClientConfig: configuration, ForceAttemptHTTP2: true}
	reader, writer := io.Pipe()
	request := &http.Request{
		Method: http.MethodConnect,
		URL:    &url.URL{Scheme: "https", Host: address},
		Host:   target,
		Header: http.Header{},
		Body:   reader,
		// Of unknown length: it lasts as long as the tunnel.
		ContentLength: -1,
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		fail("CONNECT: %v", err)
	}
	fmt.Println(answer.Proto, answer.StatusCode)
	if answer.StatusCode != http.StatusOK {
		return
	}
	all := strings.Join(texts, "")
	go func() {
		for _, text := range texts {
			_, _ = io.WriteString(writer, text)
		}
	}()
	back := make([]byte, len(all))
	if _, err := io.ReadFull(answer.Body, back); err != nil {
		fail("tunnel: %v", err)
	}
	fmt.Println(string(back))
	_ = writer.Close()
	rest, err := io.ReadAll(answer.Body)
	if err != nil {
		fail("end of the tunnel: %v", err)
	}
	fmt.Println(string(rest))
}
