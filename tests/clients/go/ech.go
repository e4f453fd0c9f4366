//go:build go1.23

package main

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// ech asks for a path with an encrypted hello, and prints what became of it: "accepted" with the
// body, or "rejected" with the configurations that the server has sent instead.
func ech(address string, configuration *tls.Config, name, configs, path string) {
	list, err := base64.StdEncoding.DecodeString(configs)
	check(err)
	configuration.ServerName = name
	configuration.MinVersion = tls.VersionTLS13
	configuration.EncryptedClientHelloConfigList = list
	socket, err := tls.Dial("tcp", address, configuration)
	var rejected *tls.ECHRejectionError
	if errors.As(err, &rejected) {
		fmt.Printf("rejected %s\n", base64.StdEncoding.EncodeToString(rejected.RetryConfigList))
		return
	}
	check(err)
	defer socket.Close()
	if !socket.ConnectionState().ECHAccepted {
		fail("the hello was not opened")
	}
	fmt.Fprintf(socket, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, name)
	response, err := http.ReadResponse(bufio.NewReader(socket), nil)
	check(err)
	body, err := io.ReadAll(response.Body)
	check(err)
	fmt.Printf("accepted %s\n", strings.TrimSpace(string(body)))
}
