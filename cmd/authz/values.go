package main

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// redacted is what is shown in place of a secret.
const redacted = "[redacted]"

// secret is a setting that is never shown. A conversion to string reveals it.
type secret string

func (s secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString keeps the secret out of %#v.
func (s secret) GoString() string { return s.String() }

// LogValue keeps the secret out of logs.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// storeURL names a store. It may hold passwords, which are never shown.
type storeURL string

// hidden is what is shown in place of a password inside a URL.
const hidden = "xxxxx"

// String shows what cannot be a password: the scheme, users, hosts, the path, the number
// of a database. A URL in which a password may stand elsewhere is not shown.
func (s storeURL) String() string {
	if s == "" || s == "embedded:" {
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
		return redacted
	}
	shown := scheme + "://" + withoutPassword(authority) + path
	if asked {
		shown += "?" + withoutSecrets(query)
	}
	return shown
}

// withoutPassword hides what stands before the last @ and is not a user.
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

// withoutSecrets hides all of a query but the number of a database and the name of a user.
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
func (s storeURL) GoString() string { return s.String() }

// LogValue keeps the passwords out of logs.
func (s storeURL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// embedded reports whether the store lives inside the process that opens it.
func (s storeURL) embedded() bool { return strings.HasPrefix(string(s), "embedded:") }

// masterKeys are the keys that seal secrets at rest: the first seals, all open. They
// are written in base64, standard or URL-safe, with or without padding, comma separated.
type masterKeys [][]byte

// UnmarshalText never repeats the text in an error.
func (k *masterKeys) UnmarshalText(text []byte) error {
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

func (k masterKeys) String() string {
	if len(k) == 0 {
		return ""
	}
	return redacted
}

// GoString keeps the keys out of %#v.
func (k masterKeys) GoString() string { return k.String() }

// LogValue keeps the keys out of logs.
func (k masterKeys) LogValue() slog.Value { return slog.StringValue(k.String()) }

func decodeKey(text string) ([]byte, error) {
	key, err := decodeBase64(text)
	if err == nil && len(key) != 32 {
		return nil, fmt.Errorf("has %d bytes, it must have 32: make one with: openssl rand -base64 32", len(key))
	}
	return key, err
}

// decodeBase64 never repeats the text in an error.
func decodeBase64(text string) ([]byte, error) {
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

// duration is a length of time in Go's syntax, which may begin with days: 90s, 1h30m,
// 30d, 1d12h.
type duration time.Duration

const day = 24 * time.Hour

// UnmarshalText reads a duration.
func (d *duration) UnmarshalText(text []byte) error {
	count, rest, found := strings.Cut(string(text), "d")
	if !found {
		count, rest = "0", string(text)
	}
	n, err := strconv.ParseInt(count, 10, 16)
	if err != nil {
		return notDuration(text)
	}
	total := time.Duration(n) * day
	if rest != "" || !found {
		more, err := time.ParseDuration(rest)
		if err != nil || found && (n < 0 || more < 0 || total+more < total) {
			return notDuration(text)
		}
		total += more
	}
	*d = duration(total)
	return nil
}

func notDuration(text []byte) error {
	return fmt.Errorf("%q is not a duration: write it like 90s, 5m, 1h30m or 30d", text)
}

func (d duration) String() string {
	whole := time.Duration(d)
	if whole != 0 && whole%day == 0 {
		return strconv.FormatInt(int64(whole/day), 10) + "d"
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
