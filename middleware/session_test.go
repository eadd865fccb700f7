package middleware_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

func newHandles(t testing.TB, fill byte) *middleware.Handles {
	t.Helper()
	handles, err := middleware.NewHandles(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return handles
}

func TestHandles(t *testing.T) {
	handles := newHandles(t, 1)
	reader := &middleware.Token{Issuer: "https://auth.example.com", Subject: "reader", ClientID: "a", ID: "1"}
	for _, handle := range []string{"", "x", "a.b.c", "0123456789", "with space", "\x00"} {
		bound := handles.Bind("cursor", reader, handle)
		other := &middleware.Token{Issuer: reader.Issuer, Subject: reader.Subject, ClientID: "b", ID: "2"}
		if got, err := handles.Open("cursor", other, bound); got != handle || err != nil {
			t.Errorf("%q: another token of the same principal opens %q, %v", handle, got, err)
		}
		for name, open := range map[string]func() (string, error){
			"another subject": func() (string, error) {
				return handles.Open("cursor", &middleware.Token{Issuer: reader.Issuer, Subject: "writer"}, bound)
			},
			"another issuer": func() (string, error) {
				return handles.Open("cursor", &middleware.Token{Issuer: "https://other.example.org", Subject: "reader"}, bound)
			},
			"issuer and subject cut elsewhere": func() (string, error) {
				return handles.Open("cursor", &middleware.Token{Issuer: reader.Issuer + "r", Subject: "eader"}, bound)
			},
			"nobody":              func() (string, error) { return handles.Open("cursor", nil, bound) },
			"another purpose":     func() (string, error) { return handles.Open("session", reader, bound) },
			"another key":         func() (string, error) { return newHandles(t, 2).Open("cursor", reader, bound) },
			"an unbound handle":   func() (string, error) { return handles.Open("cursor", reader, handle) },
			"an altered handle":   func() (string, error) { return handles.Open("cursor", reader, "x"+bound) },
			"a MAC that was cut":  func() (string, error) { return handles.Open("cursor", reader, bound[:len(bound)-1]) },
			"a MAC with padding":  func() (string, error) { return handles.Open("cursor", reader, bound+"=") },
			"a MAC and a newline": func() (string, error) { return handles.Open("cursor", reader, bound+"\n") },
		} {
			if got, err := open(); !errors.Is(err, middleware.ErrHandle) || got != "" {
				t.Errorf("%q, %s: %q, %v", handle, name, got, err)
			}
		}
	}
	if got, err := handles.Open("cursor", nil, handles.Bind("cursor", nil, "x")); got != "x" || err != nil {
		t.Errorf("without tokens: %q, %v", got, err)
	}
	if _, err := middleware.NewHandles(make([]byte, 31)); err == nil {
		t.Error("a short key was accepted")
	}
}

// FuzzHandles checks that Open returns the handle of Bind, and refuses every other text.
func FuzzHandles(f *testing.F) {
	f.Add("session", "reader", "0123", "0123.AAAA")
	f.Add("", "", "", ".")
	f.Fuzz(func(t *testing.T, purpose, subject, handle, forged string) {
		handles := newHandles(t, 1)
		token := &middleware.Token{Issuer: "https://auth.example.com", Subject: subject}
		bound := handles.Bind(purpose, token, handle)
		if got, err := handles.Open(purpose, token, bound); err != nil || got != handle {
			t.Fatalf("%q comes back as %q, %v", handle, got, err)
		}
		if _, err := handles.Open(purpose, token, forged); err == nil && forged != bound {
			t.Fatalf("%q opens", forged)
		}
	})
}

// The session of one person is refused for another, although the handler does not check it.
func TestSessionsAreBound(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	const inside = "1f0c-session"
	seen := ""
	for name, write := range map[string]func(http.ResponseWriter){
		"a body":     func(w http.ResponseWriter) { _, _ = w.Write([]byte("hello")) },
		"a status":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
		"nothing":    func(http.ResponseWriter) {},
		"just flush": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
	} {
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.Sessions = newHandles(t, 7) })
		handler := guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = strings.Join(r.Header["Mcp-Session-Id"], ",")
			w.Header().Set("Mcp-Session-Id", inside)
			write(w)
		}))
		send := func(subject string, sessions ...string) *http.Response {
			r := withToken(issuer.Mint(claims{"aud": resource, "sub": subject}))
			r.Header["Mcp-Session-Id"] = sessions
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Result()
		}
		bound := send("reader").Header.Get("Mcp-Session-Id")
		if bound == inside || !strings.HasPrefix(bound, inside) {
			t.Fatalf("%s: the client gets the session %q", name, bound)
		}
		if res := send("reader", bound); res.StatusCode >= 300 || seen != inside {
			t.Errorf("%s: %s, the handler sees the session %q", name, res.Status, seen)
		}
		for _, forged := range []string{bound, inside, "", bound + "x", "." + bound} {
			seen = ""
			if res := send("writer", forged); res.StatusCode != http.StatusNotFound || seen != "" {
				t.Errorf("%s: %q of another caller: %s, the handler sees %q", name, forged, res.Status, seen)
			}
		}
		if res := send("reader", bound, bound); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: two sessions: %s", name, res.Status)
		}
	}
}

// TestZeroHandlesAreRefused checks that Handles without a key neither bind nor open, because an
// attacker could bind without a key, too.
func TestZeroHandlesAreRefused(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	_, err := middleware.New(middleware.Config{
		Resource: resource, AuthorizationServers: []string{issuer.URL()}, Sessions: new(middleware.Handles),
	})
	if err == nil || !strings.Contains(err.Error(), "NewHandles") {
		t.Errorf("a guard with handles without a key: %v", err)
	}
	if _, err := new(middleware.Handles).Open("session", nil, "a."); err == nil {
		t.Error("handles without a key open something")
	}
	defer func() {
		if recover() == nil {
			t.Error("handles without a key bind")
		}
	}()
	new(middleware.Handles).Bind("session", nil, "a")
}

// TestSessionsAfterEarlyHints: an informational response (RFC 9110 section 15.2) is not the one that
// counts: the session id in that which follows is bound, and its status reaches the client.
func TestSessionsAfterEarlyHints(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	server := httptest.NewServer(guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Mcp-Session-Id", "session")
		w.WriteHeader(http.StatusAccepted)
	})))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "notes.example.com"
	r.Header.Set("Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}))
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); res.StatusCode != http.StatusAccepted || id == "" || id == "session" {
		t.Errorf("%s, the session is %q", res.Status, id)
	}
}
