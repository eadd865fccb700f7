package middleware

import (
	"net/url"
	"strings"
)

// placeOf returns the host and the path of a URL in one form: the path of a host alone is a slash.
func placeOf(host, path string) string {
	if path == "" {
		path = "/"
	}
	return withoutPort(host) + path
}

// plainHost returns a Host header in lower case. It is false for what is not one host with an
// optional port, such as a list.
func plainHost(host string) (string, bool) {
	host = strings.ToLower(host)
	u, err := url.Parse("https://" + host)
	return host, err == nil && u.Host == host && u.Hostname() != "" && !strings.Contains(host, ",")
}

// withoutPort returns a host without one of the ports that a URL need not name.
func withoutPort(host string) string {
	host = strings.ToLower(host)
	if short, ok := strings.CutSuffix(host, ":443"); ok {
		return short
	}
	return strings.TrimSuffix(host, ":80")
}
