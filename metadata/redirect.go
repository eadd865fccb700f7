package metadata

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

// ErrRedirectURI reports that a redirect URI may not be registered or used. Errors of
// [ParseRedirect] and [MatchRedirect] wrap it.
var ErrRedirectURI = errors.New("not an acceptable redirect URI")

// RedirectKind classifies a redirect URI by what receives the response.
type RedirectKind int

const (
	// RedirectWeb is an https URI: the owner of the host receives the response.
	RedirectWeb RedirectKind = iota + 1
	// RedirectLoopback is an http URI on 127.0.0.0/8, ::1 or localhost (RFC 8252 section
	// 7.3): some program on the person's machine receives the response.
	RedirectLoopback
	// RedirectPrivateUse is a URI with a private-use scheme (RFC 8252 section 7.1): the
	// program that registered the scheme on the person's machine receives the response.
	RedirectPrivateUse
)

// RedirectURI is a redirect URI that passed [ParseRedirect].
type RedirectURI struct {
	Raw  string // the argument of ParseRedirect
	Kind RedirectKind
	url  *url.URL
}

// Host returns the part that a consent page shows: the host, with its port unless that is the
// port of the scheme, or "scheme://authority" of a private-use URI.
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

// forbiddenSchemes are schemes that run code, read local data, address browser internals or
// start a part of the operating system when a user agent follows them, or that belong to
// another protocol. No policy can allow them: none is private (RFC 8252 section 7.1).
var forbiddenSchemes = []string{
	"about", "blob", "chrome", "data", "edge", "feed", "file", "filesystem",
	"ftp", "intent", "jar", "java", "javascript", "livescript", "mailto", "mhtml", "mk",
	"mocha", "resource", "res", "sms", "tel", "urn", "vbscript", "view-source", "wss", "ws",

	// Other names and internal pages of browsers.
	"brave", "devtools", "extension", "opera", "vbs", "vivaldi", "x-javascript",
	"googlechrome", "googlechromes", "firefox", "firefox-private", "wysiwyg", "wasm", "isolated-app", "externalfile", "drivefs",
	// Parts of operating systems that take commands, open files or install programs.
	"android-app", "app-prefs", "app-settings", "appinstaller", "applescript", "content", "help", "hcp", "itms", "itms-apps", "itms-appss", "itms-books",
	"itms-services", "its", "macappstore", "market", "msdt", "onenote", "onenote-cmd", "outlook", "package", "prefs", "search", "search-ms", "settings",
	"shell", "shortcuts", "tbauth", "windowsdefender", "wyciwyg", "x-man-page", "x-office", "zoommtg",
	// Other protocols, with programs that call, pay, connect or download.
	"afp", "bitcoin", "callto", "cid", "cifs", "dav", "davs", "dict", "dns", "ed2k", "ethereum", "facetime", "facetime-audio", "finger", "geo", "git", "go",
	"gopher", "im", "imap", "info", "irc", "irc6", "ircs", "jabber", "jdbc", "jnlp", "jnlps", "ldap", "ldaps", "magnet", "maps", "mid", "mms", "mmst", "news", "nfs", "nntp",
	"pop", "rdp", "rlogin", "rtmp", "rtsp", "scp", "service", "session", "sftp", "sip", "sips", "skype", "smb", "smsto", "snews", "snmp", "ssh", "steam", "stun", "svn", "tag",
	"telnet", "tftp", "tn3270", "turn", "vnc", "webcal", "webcals", "x-callback-url", "xmpp",
}

// forbiddenPrefixes are the prefixes of present and future schemes of one operating system or
// browser.
var forbiddenPrefixes = []string{"ms-", "chrome-", "edge-", "moz-", "brave-", "opera-", "x-apple", "bingmaps", "microsoft-edge", "safari-", "web+", "ext+"}

// forbiddenScheme reports whether a scheme can never be that of a client.
func forbiddenScheme(scheme string) bool {
	return slices.Contains(forbiddenSchemes, scheme) ||
		slices.ContainsFunc(forbiddenPrefixes, func(prefix string) bool { return strings.HasPrefix(scheme, prefix) })
}

// ParseRedirect parses a redirect URI and checks that it is acceptable by itself: an absolute
// URI without fragment, user information, wildcard, dot segment, control character or
// parameter of responses, whose scheme is https, http on a loopback host, or a private-use
// scheme that is not known to be dangerous (OAuth 2.1 section 2.3.1, RFC 8252 section 7, RFC
// 9700 section 4.1.3). The host of a web URI must be spelled as browsers spell it; see
// [CheckHost].
func ParseRedirect(raw string) (RedirectURI, error) {
	place := &redirects[maphash.String(redirectsSeed, raw)%uint64(len(redirects))]
	if known := place.Load(); known != nil && known.Raw == raw {
		return *known, nil
	}
	if len(raw) > maxKnown {
		return parseNewRedirect(raw)
	}
	parsed, err := parseNewRedirect(strings.Clone(raw)) // raw may be a part of a large request
	if err == nil {
		place.Store(&parsed)
	}
	return parsed, err
}

// redirects has URIs that were parsed before: one code flow parses its own four times. What a URI means
// never changes, so one may only be replaced by another one.
var (
	redirects     [256]atomic.Pointer[RedirectURI]
	redirectsSeed = maphash.MakeSeed()
)

// maxKnown is the greatest length of a URI that is kept, in bytes.
const maxKnown = 256

func parseNewRedirect(raw string) (RedirectURI, error) {
	u, why := parseRedirect(raw)
	var kind RedirectKind
	if why == "" {
		kind, why = redirectKind(u)
	}
	if why != "" {
		return RedirectURI{}, fmt.Errorf("metadata: %w: %s", ErrRedirectURI, why)
	}
	return RedirectURI{Raw: raw, Kind: kind, url: u}, nil
}

// parseRedirect parses a redirect URI under the rules for all schemes. Its second result is why
// the URI is not acceptable, or "".
func parseRedirect(raw string) (*url.URL, string) {
	if why := redirectTextFault(raw); why != "" {
		return nil, why
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, "it is not a well-formed URI"
	case u.Scheme == "":
		return nil, "it must be absolute"
	case !strings.HasPrefix(raw, u.Scheme+":"):
		return nil, "write the scheme in lowercase"
	case u.User != nil || strings.Contains(u.Host, "@"):
		return nil, "it must not carry user information"
	case hasDotSegment(u):
		return nil, "it must not have dot segments in its path"
	}
	if name := responseParameter(u.RawQuery); name != "" {
		return nil, fmt.Sprintf("its query must not have %s, a parameter of responses", name)
	}
	return u, ""
}

// responseParameters are those that an authorization server adds to the query of a redirect URI
// (OAuth 2.1 sections 4.1.2 and 4.1.2.1, RFC 9207 section 2).
var responseParameters = []string{"code", "error", "error_description", "iss", "state"}

// responseParameter returns the parameter of responses that a query already has, or "". The
// response would have it twice, and two readers could take different values: parameters MUST
// NOT be included more than once (OAuth 2.1 section 3.1). Some readers separate parameters
// with semicolons too.
func responseParameter(query string) string {
	for part := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
		name, _, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		if err == nil && slices.Contains(responseParameters, name) {
			return name
		}
	}
	return ""
}

// redirectTextFault returns what is wrong with the text of a redirect URI, or "".
func redirectTextFault(raw string) string {
	if raw == "" || len(raw) > maxURI {
		return fmt.Sprintf("it must have 1 to %d bytes", maxURI)
	}
	if why := spellingFault(raw); why != "" {
		return why
	}
	switch {
	case !printableASCII(raw) || unescapedInRedirect.some(raw):
		return "it holds a character that must be percent-encoded"
	case strings.Contains(raw, "#"):
		// OAuth 2.1 section 2.3: the redirect URI MUST NOT include a fragment component.
		return "it must not have a fragment"
	}
	return ""
}

// redirectKind returns the kind of a redirect URI. Its second result is why the URI is not
// acceptable for its scheme, or "".
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
			return 0, "http is allowed on loopback addresses and localhost only; use https"
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

// unescapedDots decodes dots and separators.
var unescapedDots = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/")

// hasDotSegment reports whether a path has "." or ".." segments, plain or escaped. Browsers
// remove them, so two different strings would lead to the same path.
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

// MatchRedirect returns the parsed form of requested if it equals one of the registered URIs
// byte for byte, or is a loopback redirect that differs from a registered one in its port only
// (OAuth 2.1 section 4.1.1, RFC 8252 section 7.3). For such redirects an empty path equals "/".
// The host localhost may have another port for public clients only (RFC 8252 section 8.3),
// because the most used native clients register it. Otherwise the error wraps
// [ErrRedirectURI].
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
