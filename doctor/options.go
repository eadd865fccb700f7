package doctor

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// mistake refuses hosts that match nothing, and a redirect URI that cannot be tried.
func (o *Options) mistake() error {
	for _, host := range o.AllowHosts {
		if why := unfitHost(host); why != "" {
			return fmt.Errorf("doctor: %w: the host to be allowed %s %s", ErrOption, quoted(host), why)
		}
	}
	if why := unfitRedirect(o.RedirectURI); why != "" {
		return fmt.Errorf("doctor: %w: the redirect URI %s %s", ErrOption, quoted(o.RedirectURI), why)
	}
	return nil
}

// hostName is the syntax of names that can be looked up, with the underscore of container networks.
var hostName = compiled(`^[\p{L}\p{N}]([\p{L}\p{N}._-]*[\p{L}\p{N}.])?$`)

// unfitHost tells why a text is not a host as it stands in a URL, "" if it is one.
func unfitHost(host string) string {
	if _, err := netip.ParseAddr(host); err == nil || hostName().MatchString(host) {
		return ""
	}
	if u, err := url.Parse(host); err == nil && u.Host != "" && strings.Contains(host, "://") {
		return "is a URL: give " + clean(u.Hostname())
	}
	if name, port, err := net.SplitHostPort(host); err == nil && port != "" && unfitHost(name) == "" {
		return "has a port: give " + clean(name) + ", which permits every port"
	}
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		return "has brackets: give " + clean(strings.TrimSuffix(inner, "]"))
	}
	return "is not the name of a host"
}

// unfitRedirect tells why a redirect URI cannot be tried, "" if it can.
func unfitRedirect(redirect string) string {
	if redirect == "" {
		return ""
	}
	u, err := url.Parse(redirect)
	switch {
	case err != nil, u.Host == "":
		return "is not an absolute URL"
	case u.Fragment != "" || strings.Contains(redirect, "#"):
		return "has a fragment"
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return "is not on loopback and not https"
	}
	return ""
}
