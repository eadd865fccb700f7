package safefetch

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURL bounds a URL in bytes. RFC 9110 section 4.1 recommends to support 8000; the addresses
// of documents are much shorter.
const maxURL = 2048

// target is a checked request.
type target struct {
	url      *url.URL
	host     string     // in lower case, without brackets
	address  netip.Addr // valid if host is one
	port     uint16
	plain    bool // HTTP without TLS, for loopback only
	local    bool // localhost or a name below it
	accept   []string
	maxBytes int64
	etag     string
	since    string
	trusted  bool // the operator named it
	resolved bool // the lookup returned an address
}

// key identifies requests with the same answer.
type key struct {
	url, accept, etag, since string
	maxBytes                 int64
}

func (t *target) key() key {
	return key{t.url.String(), strings.Join(t.accept, ","), t.etag, t.since, t.maxBytes}
}

// target checks a request. The error is [ErrRefused] if it depends on the host, and otherwise
// [ErrRequest].
func (f *Fetcher) target(r Request) (*target, error) {
	t := &target{accept: slices.Clone(r.Accept), etag: r.IfNoneMatch, since: r.IfModifiedSince}
	for _, v := range []string{t.etag, t.since, strings.Join(t.accept, ",")} {
		if !printable(v, " ") {
			return nil, fail(ErrRequest, "a header value is not plain text")
		}
	}
	t.maxBytes = r.MaxBytes
	if r.MaxBytes == 0 {
		t.maxBytes = min(defaultRequestBytes, f.config.MaxBytes)
	}
	if t.maxBytes < 0 || t.maxBytes > f.config.MaxBytes {
		return nil, fail(ErrRequest, "asks for %d bytes", r.MaxBytes)
	}
	if err := t.read(r.URL, f.config.InsecureAllowLoopback); err != nil {
		return nil, err
	}
	if r.SameOrigin != "" && !t.sharesOrigin(r.SameOrigin, f.config.InsecureAllowLoopback) {
		return nil, fail(ErrRequest, "another origin than it should have")
	}
	return t, nil
}

// read parses and checks a URL. loopback allows http and any port.
func (t *target) read(raw string, loopback bool) error {
	u, err := parseURL(raw)
	if err != nil {
		return err
	}
	t.plain = u.Scheme == "http" && loopback
	if u.Scheme != "https" && !t.plain {
		return fail(ErrRequest, "not an https URL with a host and nothing before it")
	}
	t.url = u
	if t.port, err = portOf(u); err != nil {
		return err
	}
	if t.port != 443 && !loopback && reservedPort(t.port) {
		return fail(ErrRequest, "port %d", t.port)
	}
	return t.readHost(loopback)
}

// parseURL parses an absolute URL without user information and fragment, and returns it with
// its host in lowercase.
func parseURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL || !printable(raw, "") || strings.ContainsAny(raw, `\#`) {
		return nil, fail(ErrRequest, "the URL is too long, not plain ASCII, or has a fragment")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fail(ErrRequest, "%v", err)
	}
	if u.Opaque != "" || u.User != nil || u.Host == "" {
		return nil, fail(ErrRequest, "not an https URL with a host and nothing before it")
	}
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// portOf returns the port of a URL. It must be in decimal, without leading zeros.
func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	switch {
	case text == "" && strings.HasSuffix(u.Host, ":"):
		return 0, fail(ErrRequest, "an empty port")
	case text == "" && u.Scheme == "http":
		return 80, nil
	case text == "":
		return 443, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || text[0] == '0' {
		return 0, fail(ErrRequest, "not a valid port")
	}
	return uint16(port), nil
}

// reservedPort reports whether a port is of a service other than HTTP: a well-known port (RFC
// 6335 section 6) or a higher one that browsers refuse (Fetch Standard, port blocking).
func reservedPort(port uint16) bool {
	switch port {
	case 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566,
		6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080:
		return true
	}
	return port < 1024
}

// readHost accepts an address in its usual spelling and a name that can be looked up, and
// refuses every other host.
func (t *target) readHost(loopback bool) error {
	t.host = t.url.Hostname()
	if strings.HasPrefix(t.url.Host, "[") {
		return t.readAddress(netip.Addr.Is6)
	}
	if len(t.host) > 253 { // RFC 1035 section 2.3.4, without the root
		return fail(ErrRefused, "a name of %d bytes", len(t.host))
	}
	labels := strings.Split(t.host, ".")
	if slices.ContainsFunc(labels, notLabel) {
		return fail(ErrRefused, "%q is not a host name", t.host)
	}
	last := labels[len(labels)-1]
	if numeric(last) {
		return t.readAddress(netip.Addr.Is4)
	}
	if t.local = last == "localhost"; t.local && loopback { // RFC 6761 section 6.3
		return nil
	}
	if len(labels) < 2 || localName(t.host, last) {
		return fail(ErrRefused, "%q is a local name", t.host)
	}
	return nil
}

func (t *target) readAddress(is func(netip.Addr) bool) error {
	addr, err := netip.ParseAddr(t.host)
	if err != nil || !is(addr) || addr.Zone() != "" {
		return fail(ErrRefused, "%q is not the spelling of an address", t.host)
	}
	t.address = addr
	return nil
}

// notLabel reports whether label is not a label of a host name in lowercase (RFC 1123 section
// 2.1).
func notLabel(label string) bool {
	return label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
		strings.ContainsFunc(label, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-'
		})
}

// numeric reports whether label, as the last one, makes a host an IPv4 address to lenient
// parsers (URL Standard, "ends in a number"). No top-level domain does (RFC 3696 section 2).
func numeric(label string) bool {
	digits := "0123456789"
	if rest, hex := strings.CutPrefix(label, "0x"); hex {
		label, digits = rest, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// localName reports whether a host has another meaning in each network, so that it must not or
// need not be looked up in the DNS. last is its last label.
func localName(host, last string) bool {
	switch last {
	case "localhost", "invalid", // RFC 6761 section 6
		"local",    // RFC 6762 section 3
		"onion",    // RFC 7686 section 2
		"alt",      // RFC 9476 section 2
		"internal": // set aside for private use by the root zone
		return true
	}
	return host == "home.arpa" || strings.HasSuffix(host, ".home.arpa") // RFC 8375 section 4
}

// sharesOrigin reports whether raw has the same scheme, host and port (RFC 6454 section 5).
func (t *target) sharesOrigin(raw string, loopback bool) bool {
	var other target
	if err := other.read(raw, loopback); err != nil {
		return false
	}
	return t.url.Scheme == other.url.Scheme && t.host == other.host && t.port == other.port
}

// request returns the request with all header fields that are sent.
func (t *target) request() *http.Request {
	header := http.Header{
		"User-Agent":      {"gatehouse"},
		"Accept":          {t.acceptHeader()},
		"Accept-Encoding": {"identity"},
	}
	if t.etag != "" {
		header.Set("If-None-Match", t.etag)
	}
	if t.since != "" {
		header.Set("If-Modified-Since", t.since)
	}
	return &http.Request{Method: http.MethodGet, URL: t.url, Host: t.url.Host, Header: header, Close: true}
}

func (t *target) acceptHeader() string {
	var types []string
	for _, a := range t.accept {
		if !strings.Contains(a, "*+") {
			types = append(types, a)
		}
	}
	if len(types) == 0 {
		return "*/*"
	}
	return strings.Join(types, ", ")
}

// printable reports whether s consists of visible ASCII characters and those in also.
func printable(s, also string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '!' || c > '~') && !strings.ContainsRune(also, c)
	})
}
