// Package account defines the rules for names and passwords of people. Sign-in and the
// operator's functions share it. It stores nothing.
//
// It refuses names that are not ASCII or could be mistaken for one another, and passwords
// that are empty or too long to hash.
package account

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"gatehouse.example/internal/passwords"
)

// ErrName means that a string cannot be the name of a person.
var ErrName = errors.New("authz: a name has 1 to 64 characters out of a-z 0-9 . _ @ + - and starts with a letter or digit")

// CanonicalName returns the canonical spelling of the name of a person: without surrounding
// space, with ASCII letters in lowercase. Names are ASCII, so no two of them look alike. A name
// with a slash is that of a person of a provider, PROVIDER/HANDLE, where people with the same
// handle have ~2, ~3 and so on at the end. See [OwnName].
func CanonicalName(raw string) (string, error) {
	// Only ASCII is folded: strings.ToLower turns the Kelvin sign into k.
	name := strings.Map(lowerASCII, strings.TrimSpace(raw))
	if strings.Contains(name, "/") {
		if !providerName.MatchString(name) {
			return "", ErrName
		}
		return name, nil
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, notNameCharacter) || strings.ContainsAny(name[:1], "._@+-") {
		return "", ErrName
	}
	return name, nil
}

// providerName is the form of the name of a person of a provider (see package authz/upstream).
var providerName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?/[a-z0-9._@+-]{1,48}(~[1-9][0-9]{0,2})?$`)

// OwnName is [CanonicalName] for a name of this server: one that an operator gives, and that the
// person types to sign in. It refuses names of people of providers.
func OwnName(raw string) (string, error) {
	name, err := CanonicalName(raw)
	if err != nil || strings.Contains(name, "/") {
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

// MinChosen is the least number of characters of a password that a person or an operator
// chooses.
const MinChosen = 8

// ErrShort is the error for a password with fewer than [MinChosen] characters.
var ErrShort = fmt.Errorf("authz: a password must have at least %d characters", MinChosen)

// CheckChosen returns [ErrShort] for a password that is too short to be chosen.
// [HashPassword] does not call it: the password of a demonstration server may be shorter.
func CheckChosen(password string) error {
	if utf8.RuneCountInString(password) < MinChosen {
		return ErrShort
	}
	return nil
}

// HashPassword hashes a password of 1 to 1024 bytes.
func HashPassword(password string) (string, error) {
	if password == "" || len(password) > passwords.Longest {
		return "", ErrPassword
	}
	return passwords.Hash(rand.Reader, password)
}
