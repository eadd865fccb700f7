package metadata

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// ErrRedirectURI says that a redirect URI may not be registered or used. Errors
// returned by [ParseRedirect] wrap it.
var ErrRedirectURI = errors.New("not an acceptable redirect URI")

// RedirectKind tells how far a redirect URI can be trusted to reach the client.
type RedirectKind int

const (
	// RedirectWeb is an https URI: it belongs to whoever owns the host.
	RedirectWeb RedirectKind = iota + 1
	// RedirectLoopback is an http URI on 127.0.0.0/8, ::1 or localhost (RFC 8252
	// section 7.3): it belongs to some program on the person's machine.
	RedirectLoopback
	// RedirectPrivateUse is a URI with a private-use scheme (RFC 8252 section 7.1):
	// it belongs to whichever program registered the scheme.
	RedirectPrivateUse
)

// RedirectURI is a redirect URI that passed [ParseRedirect].
type RedirectURI struct {
	Raw  string // byte for byte as the client wrote it
	Kind RedirectKind
	url  *url.URL
}

// Host returns what a consent page shows a person: the host, with its port if it is not
// the scheme's, or "scheme://authority" of a private-use URI.
func (r RedirectURI) Host() string {
	if r.Kind != RedirectPrivateUse {
		return ShownHost(r.url)
	}
	if r.url.Host != "" {
		return r.url.Scheme + "://" + r.url.Host
	}
	return r.url.Scheme + ":"
}

// Scheme returns the scheme in lowercase, such as https or cursor.
func (r RedirectURI) Scheme() string { return r.url.Scheme }

// forbiddenSchemes run code, read local data, reach inside the browser or start a part
// of the operating system when a user agent follows them, or belong to another protocol.
// No policy can allow them: none is private (RFC 8252 section 7.1).
var forbiddenSchemes = []string{
	"about", "blob", "chrome", "data", "edge", "feed", "file", "filesystem",
	"ftp", "intent", "jar", "java", "javascript", "livescript", "mailto", "mhtml", "mk",
	"mocha", "resource", "res", "sms", "tel", "urn", "vbscript", "view-source", "wss", "ws",

	// Other names and rooms of browsers.
	"brave", "devtools", "extension", "opera", "vbs", "vivaldi", "x-javascript",
	"googlechrome", "googlechromes", "firefox", "firefox-private", "wysiwyg", "wasm", "isolated-app", "externalfile", "drivefs",
	// Parts of operating systems that take commands, open files or install things.
	"android-app", "app-prefs", "app-settings", "appinstaller", "applescript", "content", "help", "hcp", "itms", "itms-apps", "itms-appss", "itms-books",
	"itms-services", "its", "macappstore", "market", "msdt", "onenote", "onenote-cmd", "outlook", "package", "prefs", "search", "search-ms", "settings",
	"shell", "shortcuts", "tbauth", "windowsdefender", "wyciwyg", "x-man-page", "x-office", "zoommtg",
	// Other protocols, with programs that call, pay, connect or download.
	"afp", "bitcoin", "callto", "cid", "cifs", "dav", "davs", "dict", "dns", "ed2k", "ethereum", "facetime", "facetime-audio", "finger", "geo", "git", "go",
	"gopher", "im", "imap", "info", "irc", "irc6", "ircs", "jabber", "jdbc", "jnlp", "jnlps", "ldap", "ldaps", "magnet", "maps", "mid", "mms", "mmst", "news", "nfs", "nntp",
	"pop", "rdp", "rlogin", "rtmp", "rtsp", "scp", "service", "session", "sftp", "sip", "sips", "skype", "smb", "smsto", "snews", "snmp", "ssh", "steam", "stun", "svn", "tag",
	"telnet", "tftp", "tn3270", "turn", "vnc", "webcal", "webcals", "x-callback-url", "xmpp",
}

// forbiddenPrefixes begin the schemes of one maker's system or browser, old and to come.
var forbiddenPrefixes = []string{"ms-", "chrome-", "edge-", "moz-", "brave-", "opera-", "x-apple", "bingmaps", "microsoft-edge", "safari-", "web+", "ext+"}

// forbiddenScheme says whether a scheme is never a client's own.
func forbiddenScheme(scheme string) bool {
	return slices.Contains(forbiddenSchemes, scheme) ||
		slices.ContainsFunc(forbiddenPrefixes, func(prefix string) bool { return strings.HasPrefix(scheme, prefix) })
}

// ParseRedirect checks a redirect URI by itself: an absolute URI without fragment,
// user information, wildcard, dot segment or control character, whose scheme is
// https, http on a loopback host, or a private-use scheme that is not known to be
// dangerous (OAuth 2.1 section 2.3.1, RFC 8252 section 7, RFC 9700 section 4.1.3). The host
// of a web URI is written as browsers write it; see [CheckHost].
func ParseRedirect(raw string) (RedirectURI, error) {
	fail := func(why string) (RedirectURI, error) {
		return RedirectURI{}, fmt.Errorf("metadata: %w: %s", ErrRedirectURI, why)
	}
	switch {
	case raw == "" || len(raw) > maxURI:
		return fail(fmt.Sprintf("it must have 1 to %d bytes", maxURI))
	case spellingFault(raw) != "":
		return fail(spellingFault(raw))
	case !printableASCII(raw) || strings.ContainsAny(raw, notInURI+"*"):
		return fail("it holds a character that must be percent-encoded")
	case strings.Contains(raw, "#"):
		// OAuth 2.1 section 2.3: the redirect URI MUST NOT include a fragment component.
		return fail("it must not have a fragment")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme == "":
		return fail("it must be absolute")
	case !strings.HasPrefix(raw, u.Scheme+":"):
		return fail("write the scheme in lowercase")
	case u.User != nil || strings.Contains(u.Host, "@"):
		return fail("it must not carry user information")
	case hasDotSegment(u):
		return fail("it must not have dot segments in its path")
	}
	kind, why := redirectKind(u)
	if why != "" {
		return fail(why)
	}
	return RedirectURI{Raw: raw, Kind: kind, url: u}, nil
}

func redirectKind(u *url.URL) (RedirectKind, string) {
	switch u.Scheme {
	case "https", "http":
		if why := webAuthority(u); why != "" {
			return 0, why
		}
		if u.Scheme == "https" {
			return RedirectWeb, ""
		}
		if !IsLoopbackHost(u.Hostname()) {
			return 0, "http is allowed on 127.0.0.1, [::1] and localhost only; use https"
		}
		return RedirectLoopback, ""
	}
	if forbiddenScheme(u.Scheme) {
		return 0, fmt.Sprintf("the scheme %q is never allowed", u.Scheme)
	}
	if u.Opaque == "" && u.Host == "" && u.Path == "" {
		return 0, "nothing follows the scheme"
	}
	if u.Host != "" && !validHost(u.Host, u.Hostname()) {
		return 0, "the host is not valid"
	}
	return RedirectPrivateUse, ""
}

func webAuthority(u *url.URL) string {
	host := u.Hostname()
	switch {
	case u.Opaque != "" || host == "":
		return "it has no host"
	case !validHost(u.Host, host):
		return "the host is not valid"
	case strings.HasSuffix(u.Host, ":") || (u.Port() != "" && !validPort(u.Port())):
		return "the port must be a number from 1 to 65535"
	}
	return ""
}

// unescapedDots undoes the escapes that hide dots and separators.
var unescapedDots = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/")

// hasDotSegment reports "." and ".." path segments, plain or escaped. Browsers fold
// them away, so two different strings would reach the same place.
func hasDotSegment(u *url.URL) bool {
	path := u.EscapedPath()
	if u.Opaque != "" {
		path = u.Opaque
	}
	if !strings.ContainsAny(path, ".%") {
		return false
	}
	path = unescapedDots.Replace(path)
	for segment := range strings.SplitSeq(path, "/") {
		name, _, _ := strings.Cut(segment, ";")
		if name == "." || name == ".." {
			return true
		}
	}
	return false
}

// MatchRedirect returns the parsed form of requested when it equals one of the
// registered URIs byte for byte, or when it is a loopback redirect that differs from
// a registered one in its port only (OAuth 2.1 section 4.1.1, RFC 8252 section 7.3).
// There an empty path equals "/". The name localhost gets that freedom for public
// clients alone (RFC 8252 section 8.3), because the most used native clients register
// it. Everything else is an error.
func MatchRedirect(registered []string, requested string, publicClient bool) (RedirectURI, error) {
	redirect, err := ParseRedirect(requested)
	if err != nil {
		return RedirectURI{}, err
	}
	if slices.Contains(registered, requested) {
		return redirect, nil
	}
	if redirect.Kind == RedirectLoopback && (publicClient || redirect.url.Hostname() != "localhost") {
		for _, candidate := range registered {
			if sameButPort(candidate, redirect.url) {
				return redirect, nil
			}
		}
	}
	return RedirectURI{}, fmt.Errorf("metadata: %w: it is not one that the client registered", ErrRedirectURI)
}

func sameButPort(registered string, requested *url.URL) bool {
	r, err := ParseRedirect(registered)
	if err != nil || r.Kind != RedirectLoopback {
		return false
	}
	return r.url.Hostname() == requested.Hostname() &&
		rootPath(r.url.EscapedPath()) == rootPath(requested.EscapedPath()) &&
		r.url.RawQuery == requested.RawQuery && r.url.ForceQuery == requested.ForceQuery
}

func rootPath(path string) string {
	if path == "" {
		return "/"
	}
	return path
}
