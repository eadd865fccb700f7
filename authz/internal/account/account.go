// Package account defines the rules for names and passwords of people. Sign-in and the
// operator's functions share it. It stores nothing.
//
// It refuses names that are not ASCII or could be mistaken for one another, and passwords
// that are empty or too long to hash.
package account

import (
	"crypto/rand"
	"errors"
	"strings"

	"gatehouse.example/internal/passwords"
)

// ErrName means that a string cannot be the name of a person.
var ErrName = errors.New("authz: a name has 1 to 64 characters out of a-z 0-9 . _ @ + - and starts with a letter or digit")

// CanonicalName returns the canonical spelling of a name: without surrounding space, with
// ASCII letters in lowercase. Names are ASCII, so no two of them look alike.
func CanonicalName(raw string) (string, error) {
	// Only ASCII is folded: strings.ToLower turns the Kelvin sign into k.
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

// ErrPassword means that a password is empty or too long.
var ErrPassword = errors.New("authz: a password must have 1 to 1024 bytes")

// HashPassword hashes a password. Interfaces in which people choose a password must enforce a
// minimum length themselves.
func HashPassword(password string) (string, error) {
	if password == "" || len(password) > passwords.Longest {
		return "", ErrPassword
	}
	return passwords.Hash(rand.Reader, password)
}
