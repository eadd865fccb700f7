package fingerprint

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
)

// errSeen ends a handshake of which the first message was enough.
var errSeen = errors.New("fingerprint: the offer was seen")

// hasAES reports whether this machine has instructions for AES-GCM. Without them it is slow, and
// its time depends on the keys (documentation of cipher.NewGCM). The standard library does not say
// so, but crypto/tls offers AES before ChaCha20 only then (documentation of
// tls.Config.CipherSuites). The handshake is one of this process with itself, and ends with its
// first message. Where crypto/tls offers no ChaCha20, as in FIPS 140-3 mode, or ever orders them
// otherwise, the result is false and the fingerprint a SHA-256.
func hasAES() bool {
	server, client := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		settings := &tls.Config{ServerName: "self.invalid", MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}}
		_ = tls.Client(client, settings).Handshake() // fails
		_ = client.Close()
	}()
	var offered []uint16
	see := func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		offered = hello.CipherSuites
		return nil, errSeen
	}
	_ = tls.Server(server, &tls.Config{GetConfigForClient: see}).Handshake() // fails
	_ = server.Close()
	<-done
	return aesFirst(offered)
}

func aesFirst(offered []uint16) bool {
	return len(offered) > 0 && offered[0] == tls.TLS_AES_128_GCM_SHA256 && slices.Contains(offered, tls.TLS_CHACHA20_POLY1305_SHA256)
}
