package safefetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Proxy is an HTTP proxy that opens tunnels (CONNECT, RFC 9110 section 9.3.6). Formatting or
// logging it does not disclose its credentials.
type Proxy struct {
	host, port    string
	secure        bool   // connections to it use TLS
	authorization string // Proxy-Authorization, empty for none
}

// ParseProxy parses the URL of a proxy: http or https, a host, a port unless it is that of the
// scheme, and optionally credentials. Its errors do not contain the URL, which may hold
// credentials.
func ParseProxy(raw string) (*Proxy, error) {
	u, err := url.Parse(raw)
	if err != nil || !printable(raw, "") {
		return nil, errors.New("safefetch: proxy: it is not a URL")
	}
	if why := notProxy(u); why != "" {
		return nil, errors.New("safefetch: proxy: " + why)
	}
	port, err := portOf(u)
	if err != nil {
		return nil, errors.New("safefetch: proxy: the port is not valid")
	}
	p := &Proxy{host: u.Hostname(), port: strconv.Itoa(int(port)), secure: u.Scheme == "https"}
	if u.User != nil {
		password, _ := u.User.Password()
		p.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// notProxy returns why a URL cannot be that of a proxy, or "" if it can.
func notProxy(u *url.URL) string {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "the scheme must be http or https, such as http://proxy.example.com:3128"
	case u.Hostname() == "" || u.Opaque != "":
		return "it has no host"
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "nothing may follow the host and port"
	case strings.Contains(u.User.Username(), ":"):
		return "the user name has a colon" // RFC 7617 section 2: it cannot be sent
	}
	return ""
}

// String returns the URL of the proxy without credentials.
func (p *Proxy) String() string {
	scheme := "http://"
	if p.secure {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(p.host, p.port)
}

// GoString returns the same as String, so that %#v does not show the credentials.
func (p *Proxy) GoString() string { return p.String() }

// LogValue returns the same as String, so that logs do not show the credentials.
func (p *Proxy) LogValue() slog.Value { return slog.StringValue(p.String()) }

// maxTunnelHead bounds the header of the proxy's answer in bytes.
const maxTunnelHead = 8 << 10

// tunnel connects to a target through the proxy: to an address that was checked or, if to is
// not valid, to the name of the target.
func (f *Fetcher) tunnel(ctx context.Context, t *target, to netip.Addr) (*connection, error) {
	host := t.host
	if to.IsValid() {
		host = to.String()
	}
	c, err := f.dialProxy(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.socket.Close() })
	err = f.config.Proxy.connect(c, net.JoinHostPort(host, strconv.Itoa(int(t.port))))
	if !stop() && err == nil {
		err = fail(ErrRefused, "the proxy %s is too slow", f.config.Proxy)
	}
	if err != nil {
		c.socket.Close()
		return nil, err
	}
	return c, nil
}

// dialProxy connects to the proxy. The operator chose its address, so it is not checked.
func (f *Fetcher) dialProxy(ctx context.Context) (*connection, error) {
	p := f.config.Proxy
	dialer := net.Dialer{KeepAlive: -1}
	socket, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(p.host, p.port))
	if err != nil {
		return nil, fail(ErrRefused, "the proxy %s: %v", p, err)
	}
	c := &connection{Conn: socket, socket: socket}
	if !p.secure {
		return c, nil
	}
	secure := tls.Client(socket, &tls.Config{ServerName: p.host, RootCAs: f.config.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	if err := secure.HandshakeContext(ctx); err != nil {
		socket.Close()
		return nil, fail(ErrRefused, "TLS with the proxy %s: %v", p, err)
	}
	c.Conn = secure
	return c, nil
}

// connect asks the proxy for a tunnel. Every answer but 200 is [ErrRefused].
func (p *Proxy) connect(c net.Conn, to string) error {
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: to}, Host: to, Header: http.Header{"User-Agent": {"gatehouse"}}}
	if p.authorization != "" {
		ask.Header.Set("Proxy-Authorization", p.authorization)
	}
	if err := ask.Write(c); err != nil {
		return fail(ErrRefused, "asking the proxy %s: %v", p, err)
	}
	r := bufio.NewReader(&io.LimitedReader{R: c, N: maxTunnelHead})
	answer, err := readHead(r, ask)
	switch {
	case err != nil:
		return fail(ErrRefused, "the answer of the proxy %s: %v", p, err)
	case answer.StatusCode == http.StatusProxyAuthRequired:
		return fail(ErrRefused, "the proxy %s answers 407 to CONNECT %s: it requires other credentials", p, to)
	case answer.StatusCode != http.StatusOK:
		return fail(ErrRefused, "the proxy %s answers %d to CONNECT %s", p, answer.StatusCode, to)
	case r.Buffered() > 0: // a TLS server sends nothing before the client does
		return fail(ErrRefused, "the proxy %s sends data before the tunnel is used", p)
	}
	return nil
}

// privateName reports whether host is below a top-level domain that networks use internally
// (RFC 6762 appendix G, and those that the root zone excludes for that reason). A proxy that
// looks names up might resolve it.
func privateName(host string) bool {
	switch host[strings.LastIndexByte(host, '.')+1:] {
	case "intranet", "private", "corp", "home", "lan", "mail", "localdomain", "test", "arpa":
		return true
	}
	return false
}
