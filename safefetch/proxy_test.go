package safefetch_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/safefetch"
)

// connectProxy is a proxy whose tunnels all lead to one address.
type connectProxy struct {
	addr    string
	leadsTo string
	wants   string // credentials in clear, empty for none
	mu      sync.Mutex
	asked   []string
}

func newConnectProxy(t *testing.T, leadsTo string, with *tls.Config) *connectProxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &connectProxy{addr: l.Addr().String(), leadsTo: leadsTo}
	if with != nil {
		l = tls.NewListener(l, with)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); open.Wait() })
	return p
}

func (p *connectProxy) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	ask, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, ask.Method+" "+ask.RequestURI)
	p.mu.Unlock()
	if p.wants != "" && ask.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(p.wants)) {
		io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return
	}
	out, err := net.Dial("tcp", p.leadsTo)
	if err != nil {
		io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	defer out.Close()
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { io.Copy(out, r); out.Close() }()
	io.Copy(c, out)
}

func (p *connectProxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func proxyAt(t *testing.T, raw string) *safefetch.Proxy {
	t.Helper()
	p, err := safefetch.ParseProxy(raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// behind returns a server that can be reached through the proxy only, and the configuration of
// a fetcher to which its name has a public address.
func behind(t *testing.T) (*server, *connectProxy) {
	t.Helper()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "read") })
	p := newConnectProxy(t, s.Listener.Addr().String(), nil)
	s.config.InsecureAllowLoopback, s.config.LookupNetIP, s.config.Proxy = false, answers("93.184.216.34"), proxyAt(t, "http://"+p.addr)
	return s, p
}

// failing is a network without DNS.
func failing(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errors.New("no such host")
}

// TestProxyIsAskedForTheJudgedAddress: the fetcher looks names up, the proxy gets an address,
// and TLS in the tunnel is for the name, over plain and secure proxies, with credentials.
func TestProxyIsAskedForTheJudgedAddress(t *testing.T) {
	s, plain := behind(t)
	ca := newAuthority(t)
	s.config.RootCAs.AddCert(ca.cert)
	secure := newConnectProxy(t, s.Listener.Addr().String(), &tls.Config{Certificates: []tls.Certificate{ca.certificate(t, "127.0.0.1")}})
	plain.wants, secure.wants = "gate:hunter 22", "gate:"
	for url, p := range map[string]*connectProxy{"http://gate:hunter%2022@" + plain.addr: plain, "https://gate@" + secure.addr + "/": secure} {
		s.config.Proxy = proxyAt(t, url)
		response, err := get(fetcher(t, s.config), s.url("/x"))
		if err != nil || string(response.Body) != "read" {
			t.Fatalf("%s: %s", s.config.Proxy, safefetch.Reason(err))
		}
		if got := p.seen(); len(got) != 1 || got[0] != "CONNECT 93.184.216.34:"+s.port {
			t.Errorf("%s was asked %q", s.config.Proxy, got)
		}
	}
	s.config.LookupNetIP, plain.wants, s.config.Proxy = answers("2606:2800:220:1::1", "93.184.216.34"), "", proxyAt(t, "http://"+plain.addr)
	if _, err := get(fetcher(t, s.config), s.url("/x")); err != nil || plain.seen()[1] != "CONNECT [2606:2800:220:1::1]:"+s.port {
		t.Errorf("IPv6: %s %q", safefetch.Reason(err), plain.seen())
	}
	if _, err := get(fetcher(t, s.config), "https://other.example.com:"+s.port+"/"); err == nil {
		t.Error("the certificate of another name is good enough")
	}
}

// TestProxyGetsNothingPrivate: what is refused without a proxy is refused with one, and no
// request for it reaches the proxy, whether or not the proxy looks names up.
func TestProxyGetsNothingPrivate(t *testing.T) {
	s, p := behind(t)
	for _, byName := range []bool{false, true} {
		for _, host := range []string{
			"10.0.0.1", "169.254.169.254", "127.0.0.1", "[::1]", "[fd00::1]", "[::ffff:10.0.0.1]", "2130706433", "127.1", "localhost", "a.localhost",
			"intranet", "metadata.google.internal", "printer.local", "router.home.arpa", "inside.example.com",
		} {
			s.config.ProxyByName = byName
			s.config.LookupNetIP = answers("93.184.216.34", "10.0.0.1")
			f := fetcher(t, s.config)
			_, err := get(f, "https://"+host+":"+s.port+"/")
			expectErr(t, host, err, safefetch.ErrRefused)
		}
		s.config.LookupNetIP = failing
		f := fetcher(t, s.config)
		if err := f.Reach(t.Context(), []string{"other.example.com"}); err == nil {
			t.Fatal("the server has no certificate for that name")
		}
		before := len(p.seen()) // of the host above
		for _, host := range []string{"10.0.0.1", "[fd00::1]", "wiki.corp", "nas.lan", "x.intranet", "x.home", "1.0.0.10.in-addr.arpa", "x.test", "metadata.google.internal", "wiki"} {
			_, err := get(f, "https://"+host+":"+s.port+"/")
			expectErr(t, host, err, safefetch.ErrRefused)
		}
		if got := p.seen(); len(got) != before {
			t.Errorf("by name %v: the proxy was asked %q", byName, got)
		}
	}
}

// TestProxyIsAskedByNameWhereThereIsNoDNS: the owner of a name can make its lookup fail, so
// the proxy is asked for names only if no host of the operator can be looked up.
func TestProxyIsAskedByNameWhereThereIsNoDNS(t *testing.T) {
	s, p := behind(t)
	var mu sync.Mutex
	dns := map[string]bool{"own.example.org": true}
	s.config.LookupNetIP = func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		mu.Lock()
		defer mu.Unlock()
		if dns[host] {
			return parse("93.184.216.34"), nil
		}
		return failing(ctx, network, host)
	}
	f, address := fetcher(t, s.config), s.url("/x")
	hosts := []string{"own.example.org", "also.example.org"}
	for _, step := range []string{"before anything is known", "with DNS"} {
		if _, err := get(f, address); !errors.Is(err, safefetch.ErrRefused) || slices.Contains(p.seen(), "CONNECT client.example.com:"+s.port) {
			t.Fatalf("%s: %v %q", step, err, p.seen())
		}
		_ = f.Reach(t.Context(), hosts)
	}
	mu.Lock()
	dns["own.example.org"] = false
	mu.Unlock()
	_ = f.Reach(t.Context(), hosts)
	if response, err := get(f, address); err != nil || string(response.Body) != "read" || !slices.Contains(p.seen(), "CONNECT client.example.com:"+s.port) {
		t.Errorf("without DNS: %s %q", safefetch.Reason(err), p.seen())
	}
	mu.Lock()
	dns["also.example.org"] = true
	mu.Unlock()
	_ = f.Reach(t.Context(), hosts)
	if _, err := get(f, address); !errors.Is(err, safefetch.ErrRefused) {
		t.Errorf("with DNS again: %v", err)
	}
	s.config.ProxyByName, s.config.LookupNetIP = true, answers("93.184.216.34")
	before := len(p.seen())
	if _, err := get(fetcher(t, s.config), address); err != nil || p.seen()[before] != "CONNECT client.example.com:"+s.port {
		t.Errorf("by name: %s %q", safefetch.Reason(err), p.seen())
	}
}

// TestProxyAnswers: every failure of the proxy is ErrRefused, in bounded time and bytes, and
// the log has the reason.
func TestProxyAnswers(t *testing.T) {
	endless := strings.Repeat("X-Padding: "+strings.Repeat("x", 1000)+"\r\n", 100)
	for answer, want := range map[string]string{
		"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n":                  "answers 407 to CONNECT 93.184.216.34:443: it requires other credentials",
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno.":              "answers 403",
		"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n":           "answers 302",
		"HTTP/1.1 204 No Content\r\n\r\n":                                     "answers 204",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                            "answers 101",
		strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 9):                 "too many interim answers",
		"HTTP/1.1 200 OK\r\n" + endless + "\r\n":                              "the answer of the proxy",
		"SSH-2.0-OpenSSH\r\n":                                                 "the answer of the proxy",
		"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": "sends data before",
		"": "the proxy",
	} {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		served.Go(func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, answer)
			io.Copy(io.Discard, c) // silent, until it is left
		})
		f := fetcher(t, safefetch.Config{
			LookupNetIP: answers("93.184.216.34"), Proxy: proxyAt(t, "http://gate:hunter22@"+l.Addr().String()), Floor: time.Millisecond, Patience: 100 * time.Millisecond,
		})
		_, err = get(f, "https://client.example.com/")
		reason := safefetch.Reason(err)
		if !errors.Is(err, safefetch.ErrRefused) || !strings.Contains(reason, want) || strings.Contains(reason, "hunter22") || !strings.Contains(reason, l.Addr().String()) {
			t.Errorf("%.60q: %s, want %q", answer, reason, want)
		}
		l.Close()
		served.Wait()
	}
}

// TestProxyURLs: errors do not contain the URL, and a proxy is never shown with its
// credentials.
func TestProxyURLs(t *testing.T) {
	for raw, want := range map[string]string{
		"http://proxy.example.com:3128": "http://proxy.example.com:3128", "https://gate:hunter22@proxy.example.com": "https://proxy.example.com:443",
		"http://10.0.0.7/": "http://10.0.0.7:80", "http://[fd00::7]:3128": "http://[fd00::7]:3128", "http://hunter22@proxy": "http://proxy:80",
	} {
		p := proxyAt(t, raw)
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "proxy", p)
		if shown := fmt.Sprintf("%v %s %#v", p, p, p) + log.String(); p.String() != want || strings.Contains(shown, "hunter22") {
			t.Errorf("%s is shown as %s", raw, shown)
		}
	}
	for _, raw := range []string{
		"", "hunter22", "proxy.example.com:3128", "socks5://hunter22@proxy.example.com", "http://", "http://:3128", "http://gate:hunter22@", "http://gate:hunter22@proxy/path",
		"http://proxy?hunter22", "http://proxy#hunter22", "http://proxy:hunter22", "http://proxy:0", "http://proxy:99999", "http://a%3Ab:hunter22@proxy", "http://hunter22%zz@proxy", "http:proxy", "http://pro xy/hunter22",
	} {
		if p, err := safefetch.ParseProxy(raw); err == nil || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%q: %v, %v", raw, p, err)
		}
	}
}

// TestEnvironmentSetsNoProxy: a proxy in the environment is not used.
func TestEnvironmentSetsNoProxy(t *testing.T) {
	s, p := behind(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://"+p.addr)
	}
	s.config.Proxy, s.config.Patience = nil, 50*time.Millisecond
	f := fetcher(t, s.config)
	f.SetDial(func(context.Context, netip.AddrPort) (net.Conn, error) { return nil, errors.New("no way out") })
	_, err := get(f, s.url("/x"))
	expectErr(t, "directly", err, safefetch.ErrRefused)
	if err := f.Reach(t.Context(), []string{"client.example.com"}); err == nil || len(p.seen()) != 0 {
		t.Errorf("error %v, the proxy was asked %q", err, p.seen())
	}
}

// TestLoopbackNeedsNoProxy: loopback addresses are dialled directly, so that they do not mean
// the machine of the proxy.
func TestLoopbackNeedsNoProxy(t *testing.T) {
	s, p := behind(t)
	s.config.InsecureAllowLoopback, s.config.LookupNetIP = true, answers("127.0.0.1")
	for _, byName := range []bool{false, true} {
		s.config.ProxyByName = byName
		for _, address := range []string{s.url("/x"), "https://127.0.0.1:" + s.port + "/x"} {
			if _, err := get(fetcher(t, s.config), address); err != nil {
				t.Errorf("%s: %s", address, safefetch.Reason(err))
			}
		}
	}
	if got := p.seen(); len(got) != 0 {
		t.Errorf("the proxy was asked %q", got)
	}
}
