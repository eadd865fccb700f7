package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/gateway"
)

// recorder is a transport that records requests and answers them itself.
type recorder struct{ got *http.Request }

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.got = req
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
}

// request sends a request with a token and returns the forwarded request, nil if there is none.
func (r *recorder) request(t testing.TB, g *gate, target, token string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil // the server does not read it
	}
	r.got = nil
	req := &http.Request{Method: "GET", URL: u, Host: "notes.example.com", RemoteAddr: "192.0.2.1:1", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	req.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, req.WithContext(t.Context()))
	if (r.got != nil) != (w.Code == http.StatusNoContent) {
		t.Fatalf("%s: %d, with %v at the upstream", target, w.Code, r.got)
	}
	return r.got
}

// FuzzPath checks that a forwarded path means the same at the upstream, whether a server there
// decodes it once or twice, before or after splitting it at slashes, and with or without
// resolving dots and parameters.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/mcp", "/mcp/", "/mcp/a/b", "/mcp/../x", "/mcp/%2e%2e/x", "/mcp//x", "/mcp/a%2fb", "/mcp/a%5cb", "/mcp/%252e%252e", "/mcp/a;b=c", "/mcp/..;/x", "/mcp/%c0%ae", "/mcp/a%20b",
		"/mcp/%61?x=y", "/%6dcp/x", "/mcpx", "/mcp\\x", "/mcp/\x00", "/mcp/é", "http://notes.example.com/mcp/x", "//mcp/x", "/mcp/%", "/mcp?a#b",
	} {
		f.Add(seed)
	}
	transport := &recorder{}
	g := newGate(f, "http://127.0.0.1:1/up/stream", func(c *gateway.Config) {
		c.Transport = transport
		c.Guard.Logger = nil
	})
	token := g.token(f, claims{"exp": time.Now().Add(time.Hour).Unix()})
	f.Fuzz(func(t *testing.T, target string) {
		got := transport.request(t, g, target, token)
		if got == nil {
			return
		}
		in, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		sent, ok := strings.CutPrefix(strings.SplitN(got.URL.RequestURI(), "?", 2)[0], "/up/stream")
		if !ok || got.URL.Host != "127.0.0.1:1" || got.URL.RawQuery != in.RawQuery {
			t.Fatalf("%q is sent to %s", target, got.URL)
		}
		want := strings.Split(strings.TrimPrefix(in.Path, "/mcp"), "/")
		once, err := url.PathUnescape(sent)
		if err != nil || !slices.Equal(strings.Split(once, "/"), want) {
			t.Fatalf("%q is sent as %q, which is read as %q, want %q", target, sent, once, want)
		}
		if twice, err := url.PathUnescape(once); err != nil || twice != once {
			t.Fatalf("%q is sent as %q, which can be decoded twice", target, sent)
		}
		for _, segment := range strings.Split(sent, "/") {
			plain, err := url.PathUnescape(segment)
			name, _, _ := strings.Cut(plain, ";")
			if err != nil || name == "." || name == ".." || strings.ContainsAny(plain, "/\\\x00") {
				t.Fatalf("%q is sent as %q", target, sent)
			}
		}
	})
}

// FuzzIdentityHeader checks that for any subject, the header has visible ASCII only, and decodes
// to that subject and no other.
func FuzzIdentityHeader(f *testing.F) {
	for _, seed := range []string{"reader", "", " ", "a b", "%", "%41", "%zz", "Zoë", "\x00\r\n\t\x7f\u0085\u2028", "\xff", "a\xc3", "😀", strings.Repeat("é", 900)} {
		f.Add(seed)
	}
	transport := &recorder{}
	g := newGate(f, "http://127.0.0.1:1/server", func(c *gateway.Config) {
		c.Transport = transport
		c.Guard.Logger = nil
	})
	key := jose.JSONWebKey{Key: newKey(f), KeyID: "key", Algorithm: string(jose.ES256)}
	g.issuer.SetKeys(key)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		if subject == "" || len(subject) > 1000 {
			return // no token says so, or none that is read
		}
		text, err := json.Marshal(subject) // which replaces what is not UTF-8
		if err != nil || json.Unmarshal(text, &subject) != nil {
			t.Fatal(err)
		}
		payload, err := json.Marshal(claims{"iss": g.issuer.URL(), "aud": resource, "sub": subject, "client_id": "client", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		got := transport.request(t, g, "/mcp", token)
		if got == nil || len(got.Header[gateway.HeaderSubject]) != 1 {
			t.Fatalf("%q: %+v", subject, got)
		}
		value := got.Header.Get(gateway.HeaderSubject)
		decoded, err := url.PathUnescape(value)
		if err != nil || decoded != subject || strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' }) {
			t.Errorf("%q is sent as %q, which is read as %q, %v", subject, value, decoded, err)
		}
	})
}
