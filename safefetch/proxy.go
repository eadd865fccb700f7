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

// Proxy is an HTTP proxy that opens tunnels (CONNECT, RFC 9110 section 9.3.6). It never
// shows its credentials.
type Proxy struct {
	host, port    string
	secure        bool   // it is spoken to over TLS
	authorization string // Proxy-Authorization, empty for none
}

// ParseProxy reads the URL of a proxy: http or https, a host, a port if it is not that of the
// scheme, and credentials if it wants some. An error never repeats the URL, which may hold
// credentials.
func ParseProxy(raw string) (*Proxy, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || !printable(raw, ""):
		return nil, errors.New("safefetch: proxy: it is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("safefetch: proxy: the scheme must be http or https, such as http://proxy.example.com:3128")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("safefetch: proxy: it has no host")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("safefetch: proxy: nothing may follow the host and port")
	}
	port, err := portOf(u)
	if err != nil {
		return nil, errors.New("safefetch: proxy: the port is not one")
	}
	p := &Proxy{host: u.Hostname(), port: strconv.Itoa(int(port)), secure: u.Scheme == "https"}
	if u.User != nil {
		password, _ := u.User.Password()
		// RFC 7617 section 2: a user-id with a colon cannot be sent.
		if strings.Contains(u.User.Username(), ":") {
			return nil, errors.New("safefetch: proxy: the user name has a colon")
		}
		p.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// String is the URL of the proxy without credentials.
func (p *Proxy) String() string {
	scheme := "http://"
	if p.secure {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(p.host, p.port)
}

// GoString keeps the credentials out of %#v.
func (p *Proxy) GoString() string { return p.String() }

// LogValue keeps the credentials out of logs.
func (p *Proxy) LogValue() slog.Value { return slog.StringValue(p.String()) }

// maxTunnelHead bounds the header of the proxy's answer in bytes.
const maxTunnelHead = 8 << 10

// tunnel connects to a target through the proxy, which is asked for an address that was
// judged or, where no address can be known here, for a name.
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

// dialProxy connects to the proxy itself, whose address the operator chose and nobody judges.
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

// connect asks for the tunnel. Whatever is not 200 is a refusal that the log names.
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
		return fail(ErrRefused, "the proxy %s answers 407 to CONNECT %s: it wants other credentials", p, to)
	case answer.StatusCode != http.StatusOK:
		return fail(ErrRefused, "the proxy %s answers %d to CONNECT %s", p, answer.StatusCode, to)
	case r.Buffered() > 0: // a TLS server is silent until it is spoken to
		return fail(ErrRefused, "the proxy %s says more than that the tunnel is open", p)
	}
	return nil
}

// privateName reports a name that networks use for themselves (RFC 6762 appendix G, and what
// the root zone keeps out because of that). A proxy that is asked by name might know it.
func privateName(host string) bool {
	switch host[strings.LastIndexByte(host, '.')+1:] {
	case "intranet", "private", "corp", "home", "lan", "mail", "localdomain", "test", "arpa":
		return true
	}
	return false
}
