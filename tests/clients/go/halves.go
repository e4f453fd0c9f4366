package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// holding is a socket that keeps the second half of a write back when it is told to.
type holding struct {
	net.Conn
	holds bool
	rest  []byte
}

func (h *holding) Write(bytes []byte) (int, error) {
	if !h.holds {
		return h.Conn.Write(bytes)
	}
	h.holds = false
	half := len(bytes) / 2
	h.rest = append([]byte(nil), bytes[half:]...)
	_, err := h.Conn.Write(bytes[:half])
	return len(bytes), err
}

func (h *holding) release() error {
	_, err := h.Conn.Write(h.rest)
	h.rest = nil
	return err
}

// waiting is a connection whose server waits for the rest of a request.
type waiting struct {
	name    string
	socket  net.Conn
	reader  *bufio.Reader
	answers int // of requests that have begun
	finish  func() error
}

// halves begins requests in several ways, count times each, and prints "begun". After a line on
// standard input it sends the rest, prints how many were answered with keep-alive, and
// after each further line does the same with one whole request on each connection.
func halves(address string, configuration *tls.Config, count int, path string) {
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, address)
	half := len(request) / 2
	var all []*waiting
	for range parallelism(count) {
		for _, name := range []string{"packet", "head", "pipelined", "idle"} {
			socket, err := net.DialTimeout("tcp", address, limit)
			check(err)
			holds := &holding{Conn: socket}
			connection := &waiting{name: name, socket: holds, answers: 1}
			if configuration != nil {
				encrypted := tls.Client(holds, configuration)
				check(encrypted.Handshake())
				connection.socket = encrypted
			}
			_ = socket.SetDeadline(time.Now().Add(limit))
			connection.reader = bufio.NewReader(connection.socket)
			check(connection.write(request))
			check(connection.answer())
			switch name {
			case "packet": // over TLS: half a record
				holds.holds = true
				check(connection.write(request))
				connection.finish = holds.release
			case "head":
				check(connection.write(request[:half]))
				connection.finish = func() error { return connection.write(request[half:]) }
			case "pipelined": // one whole request, one and a half behind it
				check(connection.write(request + request + request[:half]))
				check(connection.answer())
				connection.answers = 2
				connection.finish = func() error { return connection.write(request[half:]) }
			case "idle":
				connection.finish = func() error { return connection.write(request) }
			}
			all = append(all, connection)
		}
	}
	fmt.Println("begun")
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		kept := 0
		for _, connection := range all {
			err := connection.finish()
			for ; err == nil && connection.answers > 0; connection.answers-- {
				err = connection.answer()
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "client: %s: %v\n", connection.name, err)
				continue
			}
			kept++
			connection.answers = 1
			whole := connection // Go 1.21 and older have one variable for all turns
			connection.finish = func() error { return whole.write(request) }
		}
		fmt.Println("kept", kept)
	}
}

func (w *waiting) write(text string) error {
	_, err := w.socket.Write([]byte(text))
	return err
}

// answer reads one; the connection has to go on behind it.
func (w *waiting) answer() error {
	response, err := http.ReadResponse(w.reader, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != 200 || response.Close {
		return fmt.Errorf("status %d, close: %v", response.StatusCode, response.Close)
	}
	return nil
}
