package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"gatehouse.example/gateway"
	"gatehouse.example/metadata"
)

// mistakes returns what is wrong with the settings as a whole. What gateway.Config checks
// itself is left to it.
func (s *gatewaySettings) mistakes() error {
	return errors.Join(s.required(), s.issuerMistakes(), tlsMistake(s.TLSCert, s.TLSKey), s.formMistakes())
}

// required names what is missing, and what is there in vain.
func (s *gatewaySettings) required() error {
	var errs []error
	mistake := func(is bool, sentence string) {
		if is {
			errs = append(errs, errors.New(sentence))
		}
	}
	mistake(s.Resource == "", "resource is not set: give the URL that clients dial, for example --resource https://notes.example.com/mcp")
	mistake(s.Upstream == "" && !s.VerifyOnly, "upstream is not set: give the URL of the server to guard, for example --upstream http://127.0.0.1:9000/mcp, or --verify-only to forward nothing")
	mistake(s.Upstream != "" && s.VerifyOnly, "upstream is set, and verify-only forwards nothing: leave out one of them")
	mistake(len(s.Issuer) == 0, "issuer is not set: give the authorization server whose tokens are accepted, for example --issuer https://auth.example.com")
	return errors.Join(errs...)
}

func (s *gatewaySettings) issuerMistakes() error {
	var errs []error
	for _, issuer := range s.Issuer {
		if err := metadata.ValidIssuer(issuer); err != nil {
			errs = append(errs, fmt.Errorf("issuer %s cannot be used: %s", issuer, withoutPackage(err)))
		}
	}
	if s.IntrospectionSecret != "" && len(s.Issuer) > 1 {
		errs = append(errs, errors.New("introspection-secret is for one issuer: with several, each would learn it"))
	}
	return errors.Join(errs...)
}

// withoutPackage returns the sentence of an error of the package metadata.
func withoutPackage(err error) string {
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "metadata: "), "issuer: ")
	return strings.TrimPrefix(reason, "metadata: ")
}

// formMistakes finds values that no part behind this one would explain.
func (s *gatewaySettings) formMistakes() error {
	var errs []error
	if err := validAddress(s.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen %w", err))
	}
	switch gateway.Identity(s.Identity) {
	case gateway.IdentityHeaders, gateway.IdentityAssertion, gateway.IdentityNone:
	default:
		errs = append(errs, fmt.Errorf("identity %q is not known: it is headers, assertion or none", s.Identity))
	}
	if s.MaxBody <= 0 {
		errs = append(errs, fmt.Errorf("max-body %d is not a size: it must be more than 0", s.MaxBody))
	}
	if s.StaleKeys < 0 {
		errs = append(errs, fmt.Errorf("stale-keys %s is less than no time", s.StaleKeys))
	}
	_, err := networks(s.TrustedProxies)
	return errors.Join(append(errs, s.boundMistakes(), logFormatMistake(s.LogFormat), err)...)
}

// parseAssertionKey reads a private key in PEM, as openssl writes it. Its errors do not
// repeat the text.
func parseAssertionKey(text []byte) (*ecdsa.PrivateKey, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("holds no private key in PEM")
		}
		switch block.Type {
		case "EC PRIVATE KEY":
			key, err := x509.ParseECPrivateKey(block.Bytes)
			if err != nil {
				return nil, errors.New("cannot be read")
			}
			return key, nil
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if elliptic, ok := key.(*ecdsa.PrivateKey); err == nil && ok {
				return elliptic, nil
			}
			return nil, errors.New("is not a key on P-256")
		}
	}
}
