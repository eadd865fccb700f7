package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// gatewayKeys are the keys of all resources of a gateway.
type gatewayKeys struct {
	sessions   []byte                 // nil when nothing is forwarded and there are no nonces
	assertions *gateway.AssertionKeys // nil without assertions
}

// keys returns the keys in the settings, or new ones. Asserts and nonces report whether a resource
// needs keys for assertions, and for nonces.
func (s *gatewaySettings) keys(random io.Reader, asserts, nonces bool, w *watched) (keys gatewayKeys, err error) {
	var err1, err2 error
	if !s.VerifyOnly || nonces {
		keys.sessions, err1 = s.sessionKey(random)
		if s.before != nil && s.before.sessions != nil {
			keys.sessions = s.before.sessions // sessions go on
		}
	}
	if asserts {
		keys.assertions, err2 = s.assertionKeys(random, w)
	}
	return keys, errors.Join(err1, err2)
}

func (s *gatewaySettings) sessionKey(random io.Reader) ([]byte, error) {
	key := make([]byte, 32)
	var err error
	if s.SessionKey != "" {
		key, err = settings.DecodeBase64(strings.TrimSpace(string(s.SessionKey)))
	} else {
		_, err = io.ReadFull(random, key)
	}
	if err == nil && len(key) < 32 {
		err = fmt.Errorf("has %d bytes, it must have 32 or more: make one with: openssl rand -base64 32", len(key))
	}
	if err != nil {
		return nil, fmt.Errorf("session-key %w", err)
	}
	return key, nil
}

// bind makes a guard bind sessions and make nonces with the key. Guards derive keys of their own
// from it, so that a session or a nonce of one resource is unknown at the others. Routes have no
// sessions.
func (k gatewayKeys) bind(c *middleware.Config) error {
	if k.sessions == nil {
		return nil
	}
	handles, err := middleware.NewHandles(k.sessions)
	switch {
	case len(c.Policy.Routes) == 0:
		c.Sessions = handles
	case c.DPoP.Use != middleware.DPoPOff && c.DPoP.RequireNonce:
		c.DPoP.Nonces = handles
	}
	return err
}

func (s *gatewaySettings) assertionKeys(random io.Reader, w *watched) (*gateway.AssertionKeys, error) {
	if s.AssertionKey == "" {
		if s.before != nil && s.before.assertions != nil {
			return s.before.assertions, nil
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), random)
		if err != nil {
			return nil, err
		}
		return gateway.NewAssertionKeys(key)
	}
	own, err := parseAssertionKeys([]byte(s.AssertionKey))
	if err != nil {
		return nil, fmt.Errorf("assertion-key %w: make one with: openssl ecparam -name prime256v1 -genkey -noout", err)
	}
	keys, err := s.assertingWith(own)
	if err != nil {
		return nil, err
	}
	if text, err := settings.SecretFrom(s.AssertionKeyFile); err == nil && text == string(s.AssertionKey) { // the key is not from elsewhere
		w.add("assertion-key-file", []string{s.AssertionKeyFile}, func() error {
			text, err := settings.SecretFrom(s.AssertionKeyFile)
			if err != nil {
				return err
			}
			changed, err := parseAssertionKeys([]byte(text))
			if err != nil {
				return fmt.Errorf("assertion-key %w", err)
			}
			return keys.Replace(changed...)
		})
	}
	return keys, nil
}

// assertingWith returns keys for assertions. While the gateway runs they are the ones before, which
// only their file changes.
func (s *gatewaySettings) assertingWith(own []*ecdsa.PrivateKey) (*gateway.AssertionKeys, error) {
	if s.before == nil || s.before.assertions == nil {
		return gateway.NewAssertionKeys(own...)
	}
	return s.before.assertions, nil
}

// parseAssertionKeys reads private keys in PEM, in one of the forms that openssl writes, one after
// another. Its errors do not contain the text.
func parseAssertionKeys(text []byte) ([]*ecdsa.PrivateKey, error) {
	var keys []*ecdsa.PrivateKey
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			if len(keys) == 0 {
				return nil, errors.New("holds no private key in PEM")
			}
			return keys, nil
		}
		switch block.Type {
		case "EC PRIVATE KEY":
			key, err := x509.ParseECPrivateKey(block.Bytes)
			if err != nil {
				return nil, errors.New("cannot be read")
			}
			keys = append(keys, key)
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			elliptic, ok := key.(*ecdsa.PrivateKey)
			if err != nil || !ok {
				return nil, errors.New("is not a key on P-256")
			}
			keys = append(keys, elliptic)
		}
	}
}
