package webtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"gatehouse.example/safefetch"
)

// Proxy is an HTTP proxy whose tunnels (RFC 9110 section 9.3.6) all lead to one [Web], for every
// target.
type Proxy struct {
	// URL is the address of the proxy, on loopback.
	URL string

	web    *Web
	mu     sync.Mutex
	answer func(to string) bool
	asked  []string
}

// Proxy starts a proxy. It ends with the test.
func (w *Web) Proxy() *Proxy {
	w.t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	p := &Proxy{URL: "http://" + l.Addr().String(), web: w, answer: func(string) bool { return true }}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.tunnel(c)
		}
	}()
	w.t.Cleanup(func() { _ = l.Close() })
	return p
}

// Answer sets the function that decides for which targets, such as client.example.com:443, a
// tunnel is opened; the others get 503. The function may block.
func (p *Proxy) Answer(open func(to string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = open
}

// Asked returns the targets of all requests to the proxy.
func (p *Proxy) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// Fetcher returns a fetcher that uses the proxy and cannot look up names.
func (p *Proxy) Fetcher(t testing.TB) *safefetch.Fetcher {
	t.Helper()
	proxy, err := safefetch.ParseProxy(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	return p.web.Fetcher(func(c *safefetch.Config) {
		c.Proxy, c.ProxyByName, c.LookupNetIP = proxy, true, nowhere
	})
}

// nowhere is the resolver of a network without DNS.
func nowhere(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errors.New("no such host")
}

func (p *Proxy) tunnel(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	ask, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, ask.RequestURI)
	answer := p.answer
	p.mu.Unlock()
	out, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", p.web.port))
	if err != nil || !answer(ask.RequestURI) {
		_, _ = io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		return
	}
	defer out.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(out, r)
		_ = out.Close()
	}()
	_, _ = io.Copy(c, out)
}
