package middleware_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestProofsAreRememberedToTheEnd sends a proof again at the last moment at which it is accepted, and
// finds its room free five seconds later, as often as the room is used.
func TestProofsAreRememberedToTheEnd(t *testing.T) {
	issuer, now := middlewaretest.NewIssuer(t), newClock()
	client := newBound(t, issuer, jose.ES256)
	client.token = issuer.Mint(claims{"aud": resource, "cnf": client.Confirmation(), "exp": now.Now().Add(time.Hour).Unix()})
	guard := newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.Window, d.Proofs = time.Minute, middleware.NewProofs(1) }),
		func(c *middleware.Config) { c.Now = now.Now })
	for range 3 {
		proof := client.request(claims{"iat": now.Now().Unix()})
		passes(t, guard, proof.Clone(t.Context()))
		now.Advance(time.Unix(now.Now().Unix(), 0).Add(time.Minute).Sub(now.Now()))
		challengedBy(t, guard, proof, "DPoP", "invalid_dpop_proof")
		now.Advance(5 * time.Second)
	}
	four := newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.Window, d.Proofs = time.Minute, middleware.NewProofs(4) }),
		func(c *middleware.Config) { c.Now = now.Now })
	for range 3 { // the room of a person is the same each time
		for n := range 3 {
			want := http.StatusOK
			if n == 2 {
				want = http.StatusTooManyRequests
			}
			wantStatus(t, four, client.request(claims{"iat": now.Now().Unix()}), want)
		}
		now.Advance(70 * time.Second)
	}
}

// TestRoomOfAnotherIssuer fills the room of a person: that of somebody with the same name at another
// issuer is free.
func TestRoomOfAnotherIssuer(t *testing.T) {
	one, two := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t)
	guard := newGuard(t, one, accepting(func(d *middleware.DPoP) { d.Proofs = middleware.NewProofs(3) }), func(c *middleware.Config) {
		c.AuthorizationServers = append(c.AuthorizationServers, two.URL())
	})
	greedy, other := newBound(t, one, jose.ES256), newBound(t, two, jose.ES256)
	passes(t, guard, greedy.request(nil))
	passes(t, guard, greedy.request(nil))
	wantStatus(t, guard, greedy.request(nil), http.StatusTooManyRequests)
	passes(t, guard, other.request(nil))
}

// TestLimitsOfNonces uses a nonce at another resource with the same key, one of later, one where the
// window is a second, and a proof again whose own time is long ago.
func TestLimitsOfNonces(t *testing.T) {
	issuer, now := middlewaretest.NewIssuer(t), newClock()
	nonced := func(of string, window time.Duration) *middleware.Guard {
		return newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.RequireNonce, d.Nonces, d.Window = true, newHandles(t, 5), window }),
			func(c *middleware.Config) { c.Now, c.Resource = now.Now, of })
	}
	client := newBound(t, issuer, jose.ES256)
	client.token = issuer.Mint(claims{"aud": []string{resource, another}, "cnf": client.Confirmation(), "exp": now.Now().Add(time.Hour).Unix()})
	nonceOf := func(guard *middleware.Guard) string {
		return serve(guard.Protect(&inner{}), client.request(nil)).Header.Get("DPoP-Nonce")
	}
	guard := nonced(resource, time.Minute)
	challengedBy(t, guard, client.request(claims{"nonce": nonceOf(nonced(another, time.Minute))}), "DPoP", "use_dpop_nonce")
	short := nonced(resource, time.Second)
	passes(t, short, client.request(claims{"nonce": nonceOf(short)}))
	old := client.request(claims{"nonce": nonceOf(guard), "iat": now.Now().Add(-time.Hour).Unix()})
	passes(t, guard, old.Clone(t.Context()))
	now.Advance(10 * time.Second)
	wantChallenge(t, guard, old, "used before")
	now.Advance(10 * time.Minute)
	later := nonceOf(guard)
	now.Advance(-10 * time.Minute)
	challengedBy(t, guard, client.request(claims{"nonce": later}), "DPoP", "use_dpop_nonce")
}

// wantChallenge fails the test unless a guard refuses a request with 401 and an answer with a text.
func wantChallenge(t *testing.T, guard *middleware.Guard, r *http.Request, text string) {
	t.Helper()
	res := serve(guard.Protect(&inner{}), r)
	if got := textOf(t, res); res.StatusCode != http.StatusUnauthorized || !strings.Contains(got, text) {
		t.Errorf("%s %s, want %q", res.Status, got, text)
	}
}

// TestURLsOfProofs shows URLs that come from [middleware.DPoP.Request], and one within the query.
func TestURLsOfProofs(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client := newBound(t, issuer, jose.ES256)
	for _, c := range []struct {
		told, htu string
		want      int
	}{
		{resource + "?x=y#z", resource, http.StatusOK},
		{resource + "?x=y", resource + "?a=b", http.StatusOK},
		{"/mcp", "/other", http.StatusUnauthorized}, // neither is a URL
		{"/mcp", "", http.StatusUnauthorized},
	} {
		guard := newGuard(t, issuer, accepting(func(d *middleware.DPoP) {
			d.Request = func(r *http.Request) (string, string) { return r.Method, c.told }
		}))
		wantStatus(t, guard, client.request(claims{"htu": c.htu}), c.want)
	}
	guard := newGuard(t, issuer, accepting())
	for htu, want := range map[string]int{resource: http.StatusOK, "https://notes.example.com/other": http.StatusUnauthorized} {
		r := newRequest("POST", resource)
		r.RequestURI = "/mcp?next=https://example.org/other"
		client.Send(r, htu, client.token, nil)
		wantStatus(t, guard, r, want)
	}
}

// TestLimitsOfProofs shows the longest jti, members of headers, and further kinds of bindings.
func TestLimitsOfProofs(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client := newBound(t, issuer, jose.ES256)
	guard := newGuard(t, issuer, accepting())
	passes(t, guard, client.request(claims{"jti": strings.Repeat("j", 512)}))
	challengedBy(t, guard, client.request(claims{"jti": strings.Repeat("j", 513)}), "DPoP", "invalid_dpop_proof")
	key := client.Public()
	for _, member := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		text, err := key.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		head := fmt.Sprintf(`{"typ":"dpop+jwt","alg":"ES256","jwk":{%q:"AAAA",%s}`, member, strings.TrimPrefix(string(text), "{"))
		wantChallenge(t, guard, client.withHead(t, head), "key in the proof")
	}
	for _, member := range []string{`"b64":true`, `"zip":"DEF"`, `"crit":[]`, `"jku":"https://example.org"`, `"x5u":"https://example.org"`, `"x5c":[]`} {
		text, _ := key.MarshalJSON()
		head := fmt.Sprintf(`{"typ":"dpop+jwt","alg":"ES256",%s,"jwk":%s}`, member, text)
		r := client.withHead(t, head)
		if got := textOf(t, serve(guard.Protect(&inner{}), r)); !strings.Contains(got, "extension") && !strings.Contains(got, "besides its jwk") {
			t.Errorf("%s: %s", member, got)
		}
	}
	for name, cnf := range map[string]any{
		"none":                         claims{},
		"null":                         json.RawMessage("null"),
		"a kind that is not known":     claims{"jkt": client.Thumbprint(), "x": client.Thumbprint()},
		"that kind alone":              claims{"x": client.Thumbprint()},
		"a thumbprint that is shorter": claims{"jkt": client.Thumbprint()[:40]},
	} {
		client.token = issuer.Mint(claims{"aud": resource, "cnf": cnf})
		for _, r := range []*http.Request{client.request(nil), withToken(client.token)} {
			if code, _ := status(guard, r); code != http.StatusUnauthorized {
				t.Errorf("%s: %d", name, code)
			}
		}
	}
}

// withHead returns a request whose proof has a header as it is written, and no signature for it.
func (b bound) withHead(t *testing.T, head string) *http.Request {
	t.Helper()
	r := b.request(nil)
	parts := strings.Split(r.Header.Get("DPoP"), ".")
	parts[0] = encode([]byte(head))
	r.Header.Set("DPoP", strings.Join(parts, "."))
	return r
}

// TestCoveredMessagesHaveALength sends a message in chunks: the handler gets it as one of known length.
func TestCoveredMessagesHaveALength(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client := newBound(t, issuer, jose.ES256)
	r := httptest.NewRequest("POST", resource, io.MultiReader(strings.NewReader("mess"), strings.NewReader("age")))
	r.TransferEncoding = []string{"chunked"}
	client.Send(r, resource, client.token, claims{"content_digest": digestOf("message")})
	w := httptest.NewRecorder()
	newGuard(t, issuer, accepting()).Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 7 || r.TransferEncoding != nil {
			t.Errorf("the handler gets %d bytes in %q", r.ContentLength, r.TransferEncoding)
		}
	})).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
