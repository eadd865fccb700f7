package settings

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Redacted is printed in place of a secret.
const Redacted = "[redacted]"

// Secret is a setting that is never printed. A conversion to string reveals it.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// GoString keeps the secret out of %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue keeps the secret out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// StoreURL is the URL of a store. Passwords in it are never printed.
type StoreURL string

// hidden is printed in place of a password inside a URL.
const hidden = "xxxxx"

// String returns the parts of the URL that cannot be a password: scheme, users, hosts, path and
// database number. A URL that may contain a password elsewhere is [Redacted].
func (s StoreURL) String() string {
	if path, err := s.File(); s == "" || s == "embedded:" || path != "" && err == nil {
		return string(s)
	}
	scheme, rest, ok := strings.Cut(string(s), "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, behind := rest[:end], rest[end:]
	path, query, asked := strings.Cut(behind, "?")
	if !ok || strings.ContainsAny(scheme, ":@") || strings.ContainsAny(path, "@#") || strings.ContainsRune(query, '#') {
		return Redacted
	}
	shown := scheme + "://" + withoutPassword(authority) + path
	if asked {
		shown += "?" + withoutSecrets(query)
	}
	return shown
}

// withoutPassword hides everything before the last @ but the name of the user.
func withoutPassword(authority string) string {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority
	}
	user, _, ok := strings.Cut(authority[:at], ":")
	if !ok {
		return hidden + authority[at:]
	}
	return user + ":" + hidden + authority[at:]
}

// withoutSecrets hides everything in a query but the database number and the name of the
// sentinel user.
func withoutSecrets(query string) string {
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		name, value, _ := strings.Cut(parameter, "=")
		_, err := strconv.ParseUint(value, 10, 16)
		switch {
		case name == "db" && err == nil, name == "sentinel-user":
		case name == "sentinel-password":
			parameters[i] = name + "=" + hidden
		default:
			parameters[i] = hidden
		}
	}
	return strings.Join(parameters, "&")
}

// GoString keeps the passwords out of %#v.
func (s StoreURL) GoString() string { return s.String() }

// LogValue keeps the passwords out of logs.
func (s StoreURL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Embedded reports whether the store is in the memory of the process that opens it.
func (s StoreURL) Embedded() bool { return strings.HasPrefix(string(s), "embedded:") }

// File returns the path of a store in a file, and "" for any other store. It is written file:PATH
// or, as a URL, file:///PATH (RFC 8089), without percent-encoding.
func (s StoreURL) File() (path string, err error) {
	path, ok := strings.CutPrefix(string(s), "file:")
	if !ok {
		return "", nil
	}
	if strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///") {
		return "", errors.New("a store in a file is on this machine: write file:PATH or file:///PATH, without a host")
	}
	path = strings.TrimPrefix(path, "//")
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return "", errors.New("name a file, such as file:/var/lib/gatehouse/gatehouse.db")
	case strings.ContainsAny(path, "?#%\x00"):
		return "", errors.New("the path of a store in a file has none of the characters ?, # and %")
	case strings.HasPrefix(path, "~"):
		return "", errors.New("~ is not replaced here: write the whole path of the file")
	}
	return path, nil
}

// MasterKeys are the keys of 32 bytes that seal secrets at rest: the first seals, all open. They
// are written in base64, standard or URL-safe, with or without padding, comma separated.
type MasterKeys [][]byte

// UnmarshalText reads keys. Its errors do not contain the text.
func (k *MasterKeys) UnmarshalText(text []byte) error {
	*k = nil
	for i, part := range strings.Split(string(text), ",") {
		key, err := decodeKey(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("key %d %w", i+1, err)
		}
		*k = append(*k, key)
	}
	return nil
}

func (k MasterKeys) String() string {
	if len(k) == 0 {
		return ""
	}
	return Redacted
}

// GoString keeps the keys out of %#v.
func (k MasterKeys) GoString() string { return k.String() }

// LogValue keeps the keys out of logs.
func (k MasterKeys) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Mistakes returns an error for each key that consists of one repeated byte.
func (k MasterKeys) Mistakes() error {
	var errs []error
	for i, key := range k {
		if oneByte(key) {
			errs = append(errs, fmt.Errorf("master-keys: key %d is one byte repeated, which is easy to guess: make one with: openssl rand -base64 32", i+1))
		}
	}
	return errors.Join(errs...)
}

// oneByte reports whether a key consists of one repeated byte, such as zero.
func oneByte(key []byte) bool { return len(slices.Compact(slices.Clone(key))) == 1 }

func decodeKey(text string) ([]byte, error) {
	key, err := DecodeBase64(text)
	if err == nil && len(key) != 32 {
		return nil, fmt.Errorf("has %d bytes, it must have 32: make one with: openssl rand -base64 32", len(key))
	}
	return key, err
}

// DecodeBase64 decodes base64, standard or URL-safe, with or without padding. Its errors do not
// contain the text.
func DecodeBase64(text string) ([]byte, error) {
	text = strings.TrimRight(text, "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	key, err := encoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("is not base64: make one with: openssl rand -base64 32")
	}
	return key, nil
}

// Duration is a duration in the syntax of [time.ParseDuration], which may begin with days: 90s,
// 1h30m, 30d, 1d12h.
type Duration time.Duration

// Day is 24 hours.
const Day = 24 * time.Hour

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	count, rest, found := strings.Cut(string(text), "d")
	if !found {
		count, rest = "0", string(text)
	}
	n, err := strconv.ParseInt(count, 10, 16)
	if err != nil {
		return notDuration(text)
	}
	total := time.Duration(n) * Day
	if rest != "" || !found {
		more, err := time.ParseDuration(rest)
		if err != nil || found && (n < 0 || more < 0 || total+more < total) {
			return notDuration(text)
		}
		total += more
	}
	*d = Duration(total)
	return nil
}

func notDuration(text []byte) error {
	return fmt.Errorf("%q is not a duration: write it like 90s, 5m, 1h30m or 30d", text)
}

func (d Duration) String() string {
	whole := time.Duration(d)
	if whole != 0 && whole%Day == 0 {
		return strconv.FormatInt(int64(whole/Day), 10) + "d"
	}
	text := whole.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
