// Package account has the rules for names and passwords of people, which sign-in and the
// operator's functions share. It keeps nothing.
//
// What is refused: names that are not ASCII or could be mistaken for one another, passwords
// that are empty or so long that hashing them is work for nothing.
package account

import (
	"crypto/rand"
	"errors"
	"strings"

	"gatehouse.example/internal/passwords"
)

// ErrName says that a string cannot be the name of a person.
var ErrName = errors.New("authz: a name has 1 to 64 characters out of a-z 0-9 . _ @ + - and starts with a letter or digit")

// CanonicalName returns the one spelling of a name: surrounding space dropped, ASCII
// letters in lowercase. Names are ASCII, so no two of them look alike.
func CanonicalName(raw string) (string, error) {
	// Only ASCII is folded: strings.ToLower makes a k of the Kelvin sign.
	name := strings.Map(lowerASCII, strings.TrimSpace(raw))
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, notNameCharacter) || strings.ContainsAny(name[:1], "._@+-") {
		return "", ErrName
	}
	return name, nil
}

func lowerASCII(c rune) rune {
	if c >= 'A' && c <= 'Z' {
		return c - 'A' + 'a'
	}
	return c
}

func notNameCharacter(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("._@+-", c)
}

// ErrPassword says that a password cannot be used.
var ErrPassword = errors.New("authz: a password must have 1 to 1024 bytes")

// HashPassword hashes a password. How long it must at least be is for those to say who
// let people choose one.
func HashPassword(password string) (string, error) {
	if password == "" || len(password) > passwords.Longest {
		return "", ErrPassword
	}
	return passwords.Hash(rand.Reader, password)
}
