package middleware

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

// validKinds finds mistakes in [Config.TokenKinds].
func (c *Config) validKinds() error {
	var errs []error
	var taken []string
	for _, one := range c.issuers() {
		taken = append(taken, one.URL)
	}
	for at, kind := range c.TokenKinds {
		if err := kind.validate(taken); err != nil {
			errs = append(errs, fmt.Errorf("token kind %d: %w", at+1, err))
		}
		taken = append(taken, kind.Issuer)
		for _, other := range c.TokenKinds[:at] {
			if err := apart(kind.Prefix, other.Prefix); err != nil {
				errs = append(errs, fmt.Errorf("token kind %d: %w", at+1, err))
			}
		}
		if kind.Prefix == "" && c.looksUpOpaque() {
			errs = append(errs, fmt.Errorf("token kind %d: an issuer has opaque tokens: set the prefix that tells them apart", at+1))
		}
	}
	return errors.Join(errs...)
}

// apart returns an error if tokens can begin with both prefixes. The empty one stands for the rest.
func apart(one, other string) error {
	switch {
	case one == "" && other == "":
		return errors.New("only one kind may be without a prefix")
	case one == "" || other == "":
		return nil
	case strings.HasPrefix(one, other) || strings.HasPrefix(other, one):
		return fmt.Errorf("tokens can begin with %q and with %q", one, other)
	}
	return nil
}

func (k *TokenKind) validate(taken []string) error {
	if err := metadata.ValidIssuer(withoutSlash(k.Issuer)); err != nil {
		return fmt.Errorf("its issuer: %w", err)
	}
	switch {
	case slices.Contains(taken, k.Issuer):
		return fmt.Errorf("the issuer %s has other tokens, too: choose a URL of its own", k.Issuer)
	case k.Verifier == nil:
		return errors.New("it has no verifier")
	case k.Prefix != "" && !isB64Token(k.Prefix):
		return errors.New("no access token begins with its prefix (RFC 6750 section 2.1)")
	case k.Fresh < 0:
		return errors.New("the time for which statements are fresh is below zero")
	}
	return nil
}

// looksUpOpaque reports whether an issuer has opaque tokens.
func (c *Config) looksUpOpaque() bool {
	for _, asked := range c.Introspection {
		if asked.Opaque {
			return true
		}
	}
	return false
}
