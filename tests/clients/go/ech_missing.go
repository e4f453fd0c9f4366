//go:build !go1.23

package main

import "crypto/tls"

// ech cannot be done: crypto/tls has no Encrypted Client Hello before Go 1.23.
func ech(_ string, _ *tls.Config, _, _, _ string) {
	fail("Encrypted Client Hello needs Go 1.23 or newer")
}
