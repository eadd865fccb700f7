package upstream

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lower changes A to Z only. Other letters stay, because Unicode has some that become ASCII in
// lower case, such as the Kelvin sign.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// plain reports valid text of at most max bytes without control and format characters.
func plain(s string, max int) bool {
	if len(s) > max || !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, unseen)
}

// unseen reports characters that change how text looks without being seen.
func unseen(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// joiners are format characters without which words of some languages are misspelt.
const joiners = "\u200c\u200d"

// shown returns text of others for people and logs: without what is not seen, at most max characters.
func shown(s string, max int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unseen(r) && !strings.ContainsRune(joiners, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))), " ")
	if runes := []rune(s); len(runes) > max {
		s = string(runes[:max-1]) + "…"
	}
	return s
}

// code returns an error code of the provider, if it has the form of one.
func code(s string) string {
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-.", r))
	}) {
		return ""
	}
	return s
}

// address returns an e-mail address in the form in which addresses are compared, and its domain.
// The domain must be ASCII with a dot inside; the local part may be any text without spaces.
func address(s string) (whole, domain string, ok bool) {
	if !plain(s, 254) || strings.ContainsFunc(s, unicode.IsSpace) || strings.Count(s, "@") != 1 {
		return "", "", false
	}
	s = lower(s) // which replaces what is no UTF-8
	i := strings.IndexByte(s, '@')
	if i == 0 {
		return "", "", false
	}
	if domain = s[i+1:]; !hostname(domain) {
		return "", "", false
	}
	return s, domain, true
}

// hostname reports a name of labels of a-z, 0-9 and "-", with at least one dot.
func hostname(s string) bool {
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return len(labels) > 1 && len(s) <= 253
}

// handle returns the first name that can be a handle, else the subject, else a hash of it.
func handle(subject string, names ...string) string {
	for _, name := range names {
		if name = lower(name); isHandle(name) {
			return name
		}
	}
	// A subject with capitals would be mistaken for another in lower case, so it is hashed.
	if isHandle(subject) {
		return subject
	}
	sum := sha256.Sum256([]byte(subject))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10]))
}

// isHandle reports 1 to 48 of a-z, 0-9 and "._@+-".
func isHandle(s string) bool {
	return s != "" && len(s) <= 48 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._@+-") == ""
}
