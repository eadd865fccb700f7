package safefetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/safefetch"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func TestGet(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("X-Anything", "else")
		if r.Header.Get("If-None-Match") == `"1"` || r.Header.Get("If-Modified-Since") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		io.WriteString(w, `{"path":"`+r.URL.RequestURI()+`"}`)
	})
	f := fetcher(t, s.config)
	request := safefetch.Request{URL: s.url("/a%2Fb/./c?d=e"), Accept: []string{"application/json"}}
	got, err := f.Get(context.Background(), request)
	if err != nil {
		t.Fatal(safefetch.Reason(err))
	}
	if want := `{"path":"/a%2Fb/./c?d=e"}`; got.Status != 200 || string(got.Body) != want || got.URL != request.URL {
		t.Errorf("got %d %s %s, want %s", got.Status, got.URL, got.Body, want)
	}
	if got.Header.Get("ETag") != `"1"` || got.Header.Get("Cache-Control") != "max-age=60" || got.Header.Get("Date") == "" {
		t.Errorf("header %v", got.Header)
	}
	if got.Header.Get("Set-Cookie") != "" || got.Header.Get("X-Anything") != "" {
		t.Errorf("header %v has more than a cache needs", got.Header)
	}
	upper := "HTTPS://CLIENT.Example.com:" + s.port + "/A"
	if got, err := get(f, upper); err != nil || got.URL != s.url("/A") {
		t.Errorf("%s: %v %s", upper, got, safefetch.Reason(err))
	}
	for _, r := range []safefetch.Request{{IfNoneMatch: `"1"`}, {IfModifiedSince: "Mon, 02 Jan 2006 15:04:05 GMT"}} {
		r.URL = request.URL
		if got, err := f.Get(context.Background(), r); err != nil || got.Status != 304 || len(got.Body) != 0 {
			t.Errorf("%+v: %v %s", r, got, safefetch.Reason(err))
		}
	}
}

// TestWhatIsSent compares the whole of a request with what may be in it.
func TestWhatIsSent(t *testing.T) {
	seen := make(chan *http.Request, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		seen <- r
	})
	f := fetcher(t, s.config)
	for range 2 { // the second time with a cookie, if there were a jar
		_, err := f.Get(context.Background(), safefetch.Request{URL: s.url("/x"), Accept: []string{"image/png", "application/*+json"}})
		if err == nil {
			t.Error("an answer without a type was taken")
		}
		r := <-seen
		got := fmt.Sprint(r.Method, " ", r.Proto, " ", r.Host, " ", r.Close, " ", r.ContentLength, " ", r.Header)
		want := "GET HTTP/1.1 client.example.com:" + s.port + " true 0 map[Accept:[image/png] Accept-Encoding:[identity] " +
			"Connection:[close] User-Agent:[gatehouse]]"
		if got != want {
			t.Errorf("sent\n%s, want\n%s", got, want)
		}
	}
}

func TestRequestsThatAreWrong(t *testing.T) {
	f := fetcher(t, safefetch.Config{LookupNetIP: func(context.Context, string, string) ([]netip.Addr, error) {
		t.Error("looked up")
		return nil, nil
	}})
	for _, u := range []string{
		"", "/x", "//example.com/x", "http://example.com/x", "HTTP://example.com/", "ftp://example.com/", "file:///etc/passwd",
		"gopher://example.com/", "javascript:alert(1)", "data:text/plain,x", "https:example.com", "https:///x", "https://",
		"https://user@example.com/", "https://user:pass@example.com/", "https://@example.com/", "https://example.com@127.0.0.1/",
		"https://example.com/#", "https://example.com/#a", "https://example.com:/", "https://example.com:0/",
		"https://example.com:65536/", "https://example.com:0443/", "https://example.com:+443/", "https://example.com:443x/",
		"https://example.com:22/", "https://example.com:25/", "https://example.com:80/", "https://example.com:6000/",
		"https://example.com:10080/", "https://example.com/\r\nHost: x", "https://example.com/ x", "https://example.com\\@127.0.0.1/", "https://example.com/\\x",
		"http://example.com:8080/",
		"https://%31%32%37.0.0.1/", "https://127%2e0.0.1/", "https://１２７.0.0.1/", "https://ⓔxample.com/", "https://127。0。0。1/",
		"https://[::1/", "https://::1/", "https://example.com/" + strings.Repeat("a", 2048),
	} {
		_, err := get(f, u)
		expectErr(t, u, err, safefetch.ErrRequest)
	}
	for _, r := range []safefetch.Request{
		{MaxBytes: -1}, {MaxBytes: 1<<20 + 1}, {IfNoneMatch: "\"a\"\r\nX: y"}, {IfModifiedSince: "\n"}, {Accept: []string{"a/b\nX: y"}},
		{SameOrigin: "https://example.org/"}, {SameOrigin: "https://example.com:8443/"}, {SameOrigin: "http://example.com/"}, {SameOrigin: "x"},
	} {
		r.URL = "https://example.com/"
		_, err := f.Get(context.Background(), r)
		expectErr(t, fmt.Sprintf("%+v", r), err, safefetch.ErrRequest)
	}
}

// TestHosts spells addresses and local names in every way.
func TestHosts(t *testing.T) {
	f := fetcher(t, safefetch.Config{Floor: 1, LookupNetIP: func(_ context.Context, _, host string) ([]netip.Addr, error) {
		t.Errorf("%s was looked up", host)
		return nil, errors.New("no")
	}})
	f.SetDial(func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
		t.Errorf("%s was dialled", to)
		return nil, errors.New("no")
	})
	for _, host := range []string{
		"127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "255.255.255.255", "192.168.0.1",
		"2130706433", "0x7f000001", "0X7F000001", "017700000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1",
		"127.0.0.1.", "127.0.0.01", "127.0.0.256", "127.0.0.0.1", "1.2.3.0x4", "0x", "example.0x", "example.0xff", "example.1", "8.8.8.8.", "134744072",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
		"[2002:7f00:1::]", "[2001:db8::1]", "[fe80::1]", "[fe80::1%25lo]", "[fd00:ec2::254]",
		"localhost", "LOCALHOST", "a.localhost", "localhost.", "redis", "metadata", "metadata.google.internal", "printer.local",
		"x.onion", "a.alt", "router.home.arpa", "home.arpa", "a.invalid", "example.com.", ".example.com", "a..example.com",
		"-a.example.com", "a-.example.com", "a_b.example.com", "a!b.example.com", "a,b.example.com", "example.com;x",
		strings.Repeat("a", 64) + ".example.com", strings.Repeat("a.", 126) + "com",
	} {
		_, err := get(f, "https://"+host+"/")
		expectErr(t, host, err, safefetch.ErrRefused)
	}
	for _, host := range []string{"[127.0.0.1]", "[v1.x]", "[fe80::1%25]", "[localhost]", "[]"} { // by us, or by net/url before us
		if _, err := get(f, "https://"+host+"/"); !errors.Is(err, safefetch.ErrRefused) && !errors.Is(err, safefetch.ErrRequest) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// TestAddressesThatAreDialled shows what becomes of addresses that may be.
func TestAddressesThatAreDialled(t *testing.T) {
	for _, c := range []struct {
		url     string
		answers []string
		want    string
	}{
		{"https://8.8.8.8/", nil, "[8.8.8.8:443]"},
		{"https://[::ffff:8.8.8.8]/", nil, "[8.8.8.8:443]"},
		{"https://[2606:4700::1]:8443/", nil, "[[2606:4700::1]:8443]"},
		{"https://a.example.com/", []string{"::ffff:8.8.8.8"}, "[8.8.8.8:443]"},
		{"https://a.example.com/", []string{"64:ff9b::808:808"}, "[[64:ff9b::808:808]:443]"},
		{"https://a.example.com/", []string{"8.8.8.8", "8.8.8.8", "8.8.4.4", "2606:4700::1", "2606:4700::2", "1.1.1.1", "9.9.9.9"},
			"[8.8.8.8:443 [2606:4700::1]:443 8.8.4.4:443 [2606:4700::2]:443]"},
		{"https://a.example.com/", []string{"1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4", "1.0.0.5"},
			"[1.0.0.1:443 1.0.0.2:443 1.0.0.3:443 1.0.0.4:443]"},
		{"https://a.example.com/", []string{"8.8.8.8", "10.0.0.1"}, "[]"},
		{"https://a.example.com/", []string{"2606:4700::1", "::ffff:10.0.0.1"}, "[]"},
		{"https://a.example.com/", []string{"1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4", "10.0.0.1"}, "[]"},
		{"https://a.example.com/", []string{"2606:4700::1%eth0"}, "[]"},
		{"https://a.example.com/", []string{"7.7.7.7"}, "[]"},
		{"https://a.example.com/", []string{"64:ff9b::707:707"}, "[]"},
		{"https://a.example.com/", []string{"2606:4701::1"}, "[]"},
		{"https://a.example.com/", []string{"64:ff9b::909:909"}, "[]"},
		{"https://a.example.com/", nil, "[]"},
	} {
		dialled := []netip.AddrPort{}
		f := fetcher(t, safefetch.Config{
			Floor: 1, LookupNetIP: answers(c.answers...),
			Refuse: []netip.Prefix{netip.MustParsePrefix("7.0.0.0/8"), netip.MustParsePrefix("2606:4701::/32"), netip.MustParsePrefix("64:ff9b::909:0/112")},
		})
		f.SetDial(func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			dialled = append(dialled, to)
			return nil, errors.New("no")
		})
		_, err := get(f, c.url)
		expectErr(t, c.url, err, safefetch.ErrRefused)
		if got := fmt.Sprint(dialled); got != c.want {
			t.Errorf("%s with %v: dialled %s, want %s", c.url, c.answers, got, c.want)
		}
	}
}

// TestRebinding lets a name change its mind between a lookup and the next.
func TestRebinding(t *testing.T) {
	s := newSink(t)
	var lookups atomic.Int32
	f := fetcher(t, safefetch.Config{Floor: 1, Timeout: 100 * time.Millisecond,
		LookupNetIP: func(context.Context, string, string) ([]netip.Addr, error) {
			if lookups.Add(1) == 1 {
				return parse("93.184.216.34"), nil
			}
			return parse("127.0.0.1"), nil
		}})
	var dialled []netip.AddrPort
	f.SetDial(func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		dialled = append(dialled, to)
		return nil, errors.New("nobody there")
	})
	u := "https://rebind.example.com:" + s.port + "/"
	_, err := get(f, u)
	expectErr(t, "public first", err, safefetch.ErrRefused)
	if want := "[93.184.216.34:" + s.port + "]"; fmt.Sprint(dialled) != want || lookups.Load() != 1 {
		t.Errorf("dialled %v after %d lookups, want %s after 1", dialled, lookups.Load(), want)
	}
	f.SetDial(f.Dial)
	_, err = get(f, u)
	expectErr(t, "loopback second", err, safefetch.ErrRefused)
}

// TestSocketIsChecked leaves out the judgement, so that only the check of the socket
// stands between the sink and a connection.
func TestSocketIsChecked(t *testing.T) {
	s := newSink(t)
	to := netip.MustParseAddrPort("127.0.0.1:" + s.port)
	f := fetcher(t, safefetch.Config{})
	c, err := f.Dial(context.Background(), to)
	if err == nil {
		c.Close()
	}
	expectErr(t, "the socket", err, safefetch.ErrRefused)
}

// TestLoopback allows loopback and nothing else.
func TestLoopback(t *testing.T) {
	plain := newPlain(t)
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	f := fetcher(t, s.config)
	for _, u := range []string{
		s.url("/"), "https://127.0.0.1:" + s.port + "/", "https://[::ffff:127.0.0.1]:" + s.port + "/",
		"http://127.0.0.1:" + plain + "/", "http://localhost:" + plain + "/", "http://app.localhost:" + plain + "/",
		"http://client.example.com:" + plain + "/",
	} {
		if _, err := get(f, u); err != nil {
			t.Errorf("%s: %s", u, safefetch.Reason(err))
		}
	}
	for host, addrs := range map[string][]string{
		"https://a.example.com":      {"127.0.0.1", "10.0.0.1"},
		"https://b.example.com":      {"64:ff9b::7f00:1"},
		"https://c.example.com":      {"::127.0.0.1"},
		"https://d.example.com":      {"::1%lo"},
		"http://e.example.com":       {"8.8.8.8"},
		"http://f.example.com":       {"127.0.0.1", "8.8.8.8"},
		"http://8.8.8.8":             {},
		"https://10.0.0.1":           {},
		"https://[64:ff9b::7f00:1]":  {},
		"https://metadata.internal":  {"127.0.0.1"},
		"https://127.1":              {},
		"http://169.254.169.254":     {},
		"http://[::ffff:a9fe:a9fe]/": {},
	} {
		s.config.LookupNetIP = answers(addrs...)
		f := fetcher(t, s.config)
		f.SetDial(func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			t.Errorf("%s dialled %s", host, to)
			return nil, errors.New("no")
		})
		_, err := get(f, host)
		expectErr(t, host, err, safefetch.ErrRefused)
	}
}

// TestSameOrigin compares with every part of an origin changed.
func TestSameOrigin(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	f := fetcher(t, s.config)
	for other, want := range map[string]error{
		s.url("/other"):                             nil,
		"HTTPS://CLIENT.example.com:" + s.port:      nil,
		"https://client.example.com/":               safefetch.ErrRequest,
		"http://client.example.com:" + s.port + "/": safefetch.ErrRequest,
		"https://127.0.0.1:" + s.port + "/":         safefetch.ErrRequest,
		"client.example.com":                        safefetch.ErrRequest,
	} {
		_, err := f.Get(context.Background(), safefetch.Request{URL: s.url("/x"), SameOrigin: other})
		expectErr(t, other, err, want)
	}
}

// newPlain is an HTTP server on loopback without TLS.
func newPlain(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ErrorLog: quiet()}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return portOf(l.Addr())
}

func TestCertificates(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, err := get(fetcher(t, s.config), "https://other.example.com:"+s.port+"/")
	expectErr(t, "another name", err, safefetch.ErrRefused)
	s.config.RootCAs = nil
	_, err = get(fetcher(t, s.config), s.url("/"))
	expectErr(t, "an unknown authority", err, safefetch.ErrRefused)
}

// TestEnvironment points every proxy variable at a sink.
func TestEnvironment(t *testing.T) {
	s := newSink(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:"+s.port)
	}
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	if _, err := get(fetcher(t, server.config), server.url("/")); err != nil {
		t.Error(safefetch.Reason(err))
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	s := newSink(t)
	for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://127.0.0.1:"+s.port+"/")
			w.WriteHeader(status)
		})
		_, err := get(fetcher(t, server.config), server.url("/"))
		expectErr(t, fmt.Sprint(status), err, safefetch.ErrStatus)
		var e *safefetch.Error
		if errors.As(err, &e); e.Status != status {
			t.Errorf("status %d, want %d", e.Status, status)
		}
	}
}

// TestBombs are answers of a real server that are larger than they look.
func TestBombs(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(make([]byte, 1<<20))
	z.Close()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    error
	}{
		"compressed": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(packed.Bytes())
		}, safefetch.ErrMalformed},
		"announced": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "65537")
		}, safefetch.ErrTooLarge},
		"one byte more": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			http.NewResponseController(w).Flush()
			w.Write(make([]byte, 65537))
		}, safefetch.ErrTooLarge},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}, safefetch.ErrTooLarge},
		"header": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("a", 17<<10))
		}, safefetch.ErrTooLarge},
		"cut short": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			w.Write([]byte("a"))
		}, safefetch.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.handler)
			_, err := get(fetcher(t, s.config), s.url("/"))
			expectErr(t, name, err, c.want)
		})
	}
}

// TestErrorsTellNothing compares what a stranger may read of refusals, and what the log
// has.
func TestErrorsTellNothing(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	closed := newPlain(t) // speaks no TLS
	errs := map[string]error{}
	fetch := func(want, url string, change func(*safefetch.Config)) {
		c := s.config
		change(&c)
		_, errs[want] = get(fetcher(t, c), url)
	}
	fetch("loopback (RFC 1122", s.url("/"), func(c *safefetch.Config) { c.InsecureAllowLoopback = false })
	fetch("no such host", s.url("/"), func(c *safefetch.Config) {
		c.LookupNetIP = func(context.Context, string, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	})
	fetch("unknown authority", s.url("/"), func(c *safefetch.Config) { c.RootCAs = nil })
	fetch("first record does not look like", "https://127.0.0.1:"+closed+"/", func(*safefetch.Config) {})
	fetch("connection refused", "https://127.0.0.1:"+freePort(t)+"/", func(*safefetch.Config) {})
	fetch("local name", "https://redis/", func(*safefetch.Config) {})
	fetch("spelling", "https://127.1/", func(*safefetch.Config) {})
	for want, err := range errs {
		var e *safefetch.Error
		if !errors.As(err, &e) || !errors.Is(err, safefetch.ErrRefused) {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if err.Error() != "safefetch: the address cannot be fetched" || errors.Unwrap(err) != safefetch.ErrRefused || e.Status != 0 {
			t.Errorf("%s: %q tells more than others", want, err)
		}
		if !strings.Contains(safefetch.Reason(err), want) {
			t.Errorf("the reason is %q, want %q", safefetch.Reason(err), want)
		}
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "err", err)
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has %s, want %q", out.String(), want)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return portOf(l.Addr())
}

// TestNothingStays counts goroutines after fetches that ended in every way.
func TestNothingStays(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
	})
	f := fetcher(t, s.config)
	before := runtime.NumGoroutine()
	for i := range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		f.Get(ctx, safefetch.Request{URL: s.url(fmt.Sprint("/slow?", i))})
		cancel()
		get(f, s.url("/fast"))
		get(f, "https://10.0.0.1/")
	}
	close(release)
	s.CloseClientConnections()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestNew(t *testing.T) {
	for _, c := range []safefetch.Config{
		{Timeout: -1}, {Floor: -1}, {MaxBytes: -1}, {MaxHeaderBytes: -1}, {MaxConcurrent: -1}, {MaxPerHost: -1},
		{Timeout: time.Millisecond}, {Floor: time.Minute}, {Refuse: make([]netip.Prefix, 1)},
		{Refuse: []netip.Prefix{netip.MustParsePrefix("::ffff:7.0.0.0/104")}},
	} {
		if _, err := safefetch.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
