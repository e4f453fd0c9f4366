package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

type response struct {
	Status     int         `json:"status"`
	Headers    [][2]string `json:"headers"`
	BodyBytes  int64       `json:"body_bytes"`
	SHA256     string      `json:"sha256"`
	SentSHA256 string      `json:"sent_sha256"`
	Complete   bool        `json:"complete"`
	Reset      *uint64     `json:"reset"`
}

// pattern is the body that scripts send: each byte is its position modulo 251.
type pattern struct {
	sent, size int64
}

func (p *pattern) Read(into []byte) (int, error) {
	if p.sent == p.size {
		return 0, io.EOF
	}
	count := min(int64(len(into)), p.size-p.sent)
	for at := range into[:count] {
		into[at] = byte((p.sent + int64(at)) % 251)
	}
	p.sent += count
	return int(count), nil
}

// fetch sends a request and reads its response; what fails is left empty.
func (r *response) fetch(limit context.Context, connection *http3.ClientConn, url string, one request, early bool) {
	sent, received := sha256.New(), sha256.New()
	defer func() {
		r.SHA256 = hex.EncodeToString(received.Sum(nil))
		r.SentSHA256 = hex.EncodeToString(sent.Sum(nil))
	}()
	method := one.Method
	if early {
		method = earlyMethod(method)
	}
	var body io.Reader
	if one.BodyBytes >= 0 {
		body = io.TeeReader(&pattern{size: one.BodyBytes}, sent)
	}
	message, err := http.NewRequestWithContext(limit, method, url, body)
	if err != nil {
		fatal("%v", err)
	}
	if body != nil {
		message.ContentLength = one.BodyBytes
	}
	for _, header := range one.Headers {
		message.Header.Add(header[0], header[1])
	}
	answer, err := connection.RoundTrip(message)
	if errors.Is(err, quic.Err0RTTRejected) {
		// quic-go leaves it to the application to send a request again.
		message.Method = one.Method
		answer, err = connection.RoundTrip(message)
	}
	if err != nil {
		r.failed(one, err)
		return
	}
	defer answer.Body.Close()
	r.Status = answer.StatusCode
	for name, values := range answer.Header {
		for _, value := range values {
			r.Headers = append(r.Headers, [2]string{strings.ToLower(name), value})
		}
	}
	r.BodyBytes, err = io.Copy(received, answer.Body)
	r.Complete = err == nil
	if err != nil {
		r.failed(one, err)
	}
}

func (r *response) failed(one request, err error) {
	fmt.Fprintf(os.Stderr, "%s %s: %v\n", one.Method, one.Path, err)
	var reset *quic.StreamError
	var h3 *http3.Error
	if errors.As(err, &reset) && reset.Remote {
		code := uint64(reset.ErrorCode)
		r.Reset = &code
	} else if errors.As(err, &h3) && h3.Remote {
		code := uint64(h3.ErrorCode)
		r.Reset = &code
	}
}
