package settings

import (
	"log/slog"
	"strings"

	"gatehouse.example/safefetch"
)

// ProxyURL is the URL of an HTTP proxy. A password in it is never printed.
type ProxyURL string

// String returns the URL with the password replaced. Text that is not the URL of a proxy is
// [Redacted].
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
