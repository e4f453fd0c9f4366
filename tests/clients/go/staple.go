package main

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
)

// staple prints the SHA-256 of the OCSP response that comes in the handshake, or "none".
func staple(address string, configuration *tls.Config) {
	socket, err := tls.Dial("tcp", address, configuration)
	check(err)
	defer socket.Close()
	response := socket.ConnectionState().OCSPResponse
	if len(response) == 0 {
		fmt.Println("none")
		return
	}
	fmt.Printf("%x\n", sha256.Sum256(response))
}
