package account

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrGroup means that a string cannot be the name of a group of this server.
var ErrGroup = errors.New("authz: a group has 1 to 64 characters out of a-z 0-9 . _ - and starts with a letter or digit")

// MaxGroups is the greatest number of groups of this server that one person is a member of.
const MaxGroups = 100

// CheckGroup returns [ErrGroup] for a string that cannot be the name of a group of this server.
// A name has one spelling, so nothing is folded, and no slash, so no group of a provider has it.
func CheckGroup(name string) error {
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, notGroupCharacter) || strings.ContainsAny(name[:1], "._-") {
		return ErrGroup
	}
	return nil
}

func notGroupCharacter(c rune) bool { return notNameCharacter(c) || c == '@' || c == '+' }

// maxOfProvider is the greatest length in bytes of what a provider names.
const maxOfProvider = 256

// OfProvider splits the name of a person or group of a provider, PROVIDER/NAME. The id of a
// provider has no slash, so the first one ends it, and NAME may have others. Ok is false for
// names of this server, and for what no provider can name.
func OfProvider(name string) (provider, rest string, ok bool) {
	provider, rest, _ = strings.Cut(name, "/")
	bad := provider == "" || strings.ContainsFunc(provider, notProviderCharacter) ||
		rest == "" || len(rest) > maxOfProvider || !utf8.ValidString(rest) || strings.ContainsFunc(rest, unicode.IsControl)
	if bad {
		return "", "", false
	}
	return provider, rest, true
}

func notProviderCharacter(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-'
}

// RecordName returns the name under which a person is on record: the canonical spelling of a name
// of this server or of a person of a provider ([CanonicalName]), and whatever else a provider can name
// as it is.
func RecordName(raw string) (string, error) {
	name, err := CanonicalName(raw)
	if err == nil {
		return name, nil
	}
	if trimmed := strings.TrimSpace(raw); strings.Contains(trimmed, "/") {
		if _, _, ok := OfProvider(trimmed); ok {
			return trimmed, nil
		}
	}
	return "", err
}
