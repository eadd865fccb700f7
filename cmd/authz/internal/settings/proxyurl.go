package settings

import (
	"log/slog"
	"strings"

	"gatehouse.example/safefetch"
)

// ProxyURL names a proxy. It may hold a password, which is never shown.
type ProxyURL string

// String shows all but the password, and nothing of what is no URL of a proxy.
func (p ProxyURL) String() string {
	if p == "" {
		return ""
	}
	if _, err := safefetch.ParseProxy(string(p)); err != nil {
		return Redacted
	}
	scheme, authority, _ := strings.Cut(string(p), "://")
	return scheme + "://" + withoutPassword(strings.TrimRight(authority, "/"))
}

// GoString keeps the password out of %#v.
func (p ProxyURL) GoString() string { return p.String() }

// LogValue keeps the password out of logs.
func (p ProxyURL) LogValue() slog.Value { return slog.StringValue(p.String()) }
