package listener

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
)

// crowd is a server with few places whose handler waits, and clients of HTTP/2 that trust it.
type crowd struct {
	*Server
	url     string
	roots   *tls.Config
	arrived chan struct{}
	release chan struct{}
}

func newCrowd(t *testing.T, places int) *crowd {
	t.Helper()
	issued := issuedTLS(t)
	c := &crowd{arrived: make(chan struct{}, 200), release: make(chan struct{})}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.arrived <- struct{}{}
		<-c.release
		_, _ = io.WriteString(w, r.Proto)
	})
	s, addr := running(t, handler, Config{Connections: places, TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: issued.certificates}})
	c.Server, c.url = s, "https://"+addr
	c.roots = issued.client.Clone()
	return c
}

// issued are certificates of a server, and a client that trusts them.
type issued struct {
	certificates []tls.Certificate
	client       *tls.Config
}

func issuedTLS(t *testing.T) issued {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	trusted := s.Client().Transport.(*http.Transport).TLSClientConfig
	return issued{s.TLS.Certificates, &tls.Config{RootCAs: trusted.RootCAs, ServerName: "example.com"}}
}

// client returns a client with one connection of HTTP/2.
func (c *crowd) client(t *testing.T) *http.Client {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.roots.Clone(), ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// ask sends a request and reports its status, 0 without an answer.
func (c *crowd) ask(client *http.Client, status chan<- int) {
	resp, err := client.Get(c.url)
	if err != nil {
		status <- 0
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	status <- resp.StatusCode
}

// One network has an eighth of 40 places: five connections, or one connection of HTTP/2 with five
// requests at a time. The sixth is told to come back, and the places are free again afterwards.
func TestStreamsCountLikeConnections(t *testing.T) {
	c := newCrowd(t, 40)
	client, status := c.client(t), make(chan int, 10)
	go c.ask(client, status)
	<-c.arrived // the connection is there
	for range 4 {
		go c.ask(client, status)
		<-c.arrived
	}
	if got := c.Figures(); got.Open != 5 || got.Places != 40 {
		t.Errorf("with five requests in flight: %+v", got)
	}
	c.ask(client, status)
	if got := <-status; got != http.StatusServiceUnavailable {
		t.Errorf("the sixth request got %d", got)
	}
	if got := c.Figures(); got.StreamsRefused != 1 || got.Open != 5 {
		t.Errorf("after the sixth: %+v", got)
	}
	close(c.release)
	for range 5 {
		if got := <-status; got != http.StatusOK {
			t.Errorf("a request with a place got %d", got)
		}
	}
	c.ask(client, status)
	if got := <-status; got != http.StatusOK {
		t.Errorf("afterwards a request got %d", got)
	}
	client.CloseIdleConnections()
	for c.Figures().Open > 0 { // the server notices a moment later
		runtime.Gosched()
	}
}

// A trusted proxy may have as many requests in flight as there are places.
func TestTrustedProxiesHaveStreamsForAll(t *testing.T) {
	all := &connections{most: 40, log: slog.New(slog.DiscardHandler), from: map[string]int{}}
	all.trusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
	proxy := all.withTurns(t.Context(), fromProxy{}).Value(turnsKey{}).(*turns)
	for i := range 41 {
		if got := all.begin(proxy); !got {
			t.Fatalf("request %d of a trusted proxy is refused", i)
		}
	}
	if all.begin(proxy) {
		t.Error("a proxy has more requests in flight than there are places")
	}
	for range 41 {
		all.end(proxy)
	}
	if all.all != 0 || len(all.from) != 0 {
		t.Errorf("%d places are taken, by %v", all.all, all.from)
	}
}

// fromProxy is a connection of a trusted proxy.
type fromProxy struct{ net.Conn }

func (fromProxy) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
}

// The limit on headers is the same for HTTP/2 as for HTTP/1.1.
func TestHTTP2HeadersAreBounded(t *testing.T) {
	_, url, client, _ := secure(t)
	// The short one first: with its answer the client has read the settings of the server.
	for _, size := range []int{headerSize / 2, 2 * headerSize} {
		want := http.StatusOK
		if size > headerSize {
			want = http.StatusRequestHeaderFieldsTooLarge
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Long", strings.Repeat("x", size))
		resp, err := client.Do(req)
		if err != nil {
			if want == http.StatusOK || !strings.Contains(err.Error(), "header") {
				t.Errorf("a header of %d bytes: %v", size, err)
			}
			continue // this client reads the limit in the settings and sends nothing
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want || resp.ProtoMajor != 2 {
			t.Errorf("a header of %d bytes: %s over %s", size, resp.Status, resp.Proto)
		}
	}
}
