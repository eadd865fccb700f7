package safefetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
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

// TestWhatIsSent compares a request byte by byte with the expected one.
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

// TestBombs: answers of a real server that are larger than they seem are refused.
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

// TestNothingStays counts goroutines after fetches that ended in each possible way.
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
