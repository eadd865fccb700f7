package middleware_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestProofsAreUsedOnce sends the same proof many times at once, and again until it is too old.
func TestProofsAreUsedOnce(t *testing.T) {
	issuer, now := middlewaretest.NewIssuer(t), newClock()
	client := newBound(t, issuer, jose.ES256)
	guard := newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.Window = time.Minute }), func(c *middleware.Config) { c.Now = now.Now })
	late := client.request(claims{"jti": "late", "iat": now.Now().Add(50 * time.Second).Unix()})
	passed := make(chan bool, 32)
	var all sync.WaitGroup
	for range cap(passed) {
		all.Go(func() {
			code, _ := status(guard, late.Clone(t.Context()))
			passed <- code == http.StatusOK
		})
	}
	all.Wait()
	close(passed)
	count := 0
	for ok := range passed {
		if ok {
			count++
		}
	}
	if count != 1 {
		t.Fatalf("the proof was accepted %d times", count)
	}
	for range 21 { // until its time is a minute ago
		now.Advance(5 * time.Second)
		challengedBy(t, guard, late.Clone(t.Context()), "DPoP", "invalid_dpop_proof")
	}
	now.Advance(20 * time.Second)
	passes(t, guard, client.request(claims{"jti": "late", "iat": now.Now().Unix()})) // forgotten by now
	other := newBound(t, issuer, jose.ES256)
	passes(t, guard, other.request(claims{"jti": "late", "iat": now.Now().Unix()}))
}

// TestOnePersonCannotUseUpTheRoom fills the room for proofs, and shows that another person finds
// some, that nothing is forgotten, and that proofs without a good token or signature take none.
func TestOnePersonCannotUseUpTheRoom(t *testing.T) {
	issuer, now := middlewaretest.NewIssuer(t), newClock()
	eight := middleware.NewProofs(8)
	guard := newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.Proofs = eight }), func(c *middleware.Config) { c.Now = now.Now })
	twin := newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.Proofs = eight }), func(c *middleware.Config) { c.Now = now.Now })
	greedy, other := newBound(t, issuer, jose.ES256), newBound(t, issuer, jose.ES256)
	other.token = issuer.Mint(claims{"aud": resource, "sub": "other", "cnf": other.Confirmation()})
	stranger := middlewaretest.NewProofKey(t, jose.ES256)
	for range 20 {
		challengedBy(t, guard, newRequest("POST", resource, "Authorization", "DPoP "+greedy.token,
			"DPoP", stranger.Sign(payloadOf(t, greedy.Prove("POST", resource, greedy.token, nil)), map[string]any{"jwk": greedy.Public()})), "DPoP", "invalid_dpop_proof")
		challengedBy(t, guard, newRequest("POST", resource, "Authorization", "DPoP invented", "DPoP", stranger.Prove("POST", resource, "invented", nil)), "DPoP", "invalid_token")
	}
	first := greedy.request(nil)
	passes(t, guard, first.Clone(t.Context()))
	challengedBy(t, twin, first.Clone(t.Context()), "DPoP", "invalid_dpop_proof") // it has the same memory
	for range 3 {
		passes(t, guard, greedy.request(nil))
	}
	second := newBound(t, issuer, jose.ES256) // another key of the same person
	for _, client := range []bound{greedy, second} {
		w := httptest.NewRecorder()
		guard.Protect(&inner{}).ServeHTTP(w, client.request(nil))
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
	passes(t, guard, other.request(nil))
	challengedBy(t, guard, first, "DPoP", "invalid_dpop_proof")
	now.Advance(10 * time.Minute)
	greedy.token = issuer.Mint(claims{"aud": resource, "cnf": greedy.Confirmation(), "exp": now.Now().Add(time.Hour).Unix()})
	passes(t, guard, greedy.request(claims{"iat": now.Now().Unix()}))
}

// TestNonces shows proofs with nonces, across two guards that share a key.
func TestNonces(t *testing.T) {
	issuer, now := middlewaretest.NewIssuer(t), newClock()
	shared, err := middleware.NewHandles([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	nonced := func(handles *middleware.Handles) *middleware.Guard {
		return newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.RequireNonce, d.Nonces = true, handles }),
			func(c *middleware.Config) { c.Now = now.Now })
	}
	one, two, stranger := nonced(shared), nonced(shared), nonced(nil)
	client := newBound(t, issuer, jose.ES256)
	ask := func(guard *middleware.Guard) string {
		w := httptest.NewRecorder()
		guard.Protect(&inner{}).ServeHTTP(w, client.request(nil))
		if !strings.Contains(w.Header().Get("WWW-Authenticate"), `DPoP error="use_dpop_nonce"`) || w.Code != 401 || w.Header().Get("DPoP-Nonce") == "" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		return w.Header().Get("DPoP-Nonce")
	}
	nonce := ask(one)
	passes(t, one, client.request(claims{"nonce": nonce}))
	passes(t, two, client.request(claims{"nonce": nonce}))
	passes(t, one, client.request(claims{"nonce": nonce, "iat": now.Now().Add(-time.Hour).Unix()})) // the clock of the client does not count
	for name, wrong := range map[string]string{
		"of a guard with another key": ask(stranger), "changed": tampered(nonce), "short": nonce[:10], "invented": "nonce", "with padding": nonce + "=",
	} {
		t.Run(name, func(t *testing.T) {
			challengedBy(t, one, client.request(claims{"nonce": wrong}), "DPoP", "use_dpop_nonce")
		})
	}
	challengedBy(t, one, client.request(claims{"nonce": nonce, "iat": nil}), "DPoP", "invalid_dpop_proof")
	now.Advance(2 * time.Minute)
	w := httptest.NewRecorder()
	one.Protect(&inner{}).ServeHTTP(w, client.request(claims{"nonce": nonce}))
	if next := w.Header().Get("DPoP-Nonce"); w.Code != http.StatusTeapot || next == nonce || next == "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the next nonce does not come with an answer: %d %v", w.Code, w.Header())
	}
	now.Advance(4 * time.Minute)
	client.token = issuer.Mint(claims{"aud": resource, "cnf": client.Confirmation(), "exp": now.Now().Add(time.Hour).Unix()})
	challengedBy(t, one, client.request(claims{"nonce": nonce}), "DPoP", "use_dpop_nonce")
}

// TestContentDigest shows proofs that cover the message.
func TestContentDigest(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client := newBound(t, issuer, jose.ES256)
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	optional := newGuard(t, issuer, accepting(), func(c *middleware.Config) { c.MaxBody = 64 })
	demanded := newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.RequireContentDigest = true }),
		func(c *middleware.Config) {
			c.Policy = middleware.Policy{Methods: map[string][]string{"tools/list": {"notes:read"}}}
		})
	for name, tt := range map[string]struct {
		guard  *middleware.Guard
		body   string
		digest any
		status int
	}{
		"covered":                       {optional, message, digestOf(message), 418},
		"another message":               {optional, message, digestOf(message + " "), 401},
		"not covered":                   {optional, message, nil, 418},
		"too long to be read":           {optional, strings.Repeat("x", 65), digestOf(strings.Repeat("x", 65)), 413},
		"too long, and nobody reads it": {optional, strings.Repeat("x", 65), nil, 418},
		"demanded, covered":             {demanded, message, digestOf(message), 418},
		"demanded, not covered":         {demanded, message, nil, 401},
		"no message, covered":           {demanded, "", digestOf(""), 418},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", resource, strings.NewReader(tt.body))
			r.Header.Set("Content-Type", "application/json")
			client.Send(r, resource, client.token, claims{"content_digest": tt.digest})
			w := httptest.NewRecorder()
			tt.guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != tt.body {
					t.Errorf("the handler got %q, %v", body, err)
				}
				w.WriteHeader(http.StatusTeapot)
			})).ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	// A proof that was sent with another message can still be used with its own.
	r := httptest.NewRequest("POST", resource, strings.NewReader("forged"))
	client.Send(r, resource, client.token, claims{"content_digest": digestOf("")})
	honest := newRequest("POST", resource, "Authorization", r.Header.Get("Authorization"), "DPoP", r.Header.Get("DPoP"))
	challengedBy(t, optional, r, "DPoP", "invalid_dpop_proof")
	passes(t, optional, honest)
}

// TestWhereProofsAreFor shows the URL that a proof must name: that of the resource, whatever the
// headers of the request say.
func TestWhereProofsAreFor(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client := newBound(t, issuer, jose.ES256)
	guard := newGuard(t, issuer, accepting())
	prove := func(r *http.Request, url string) *http.Request {
		client.Send(r, url, client.token, nil)
		return r
	}
	passes(t, guard, prove(newRequest("GET", "http://10.0.0.1:9000/mcp?x=y", "X-Forwarded-Host", "example.org"), resource))
	challengedBy(t, guard, prove(newRequest("GET", "http://10.0.0.1:9000/mcp", "X-Forwarded-Host", "example.org"), "http://10.0.0.1:9000/mcp"), "DPoP", "invalid_dpop_proof")
	challengedBy(t, guard, prove(newRequest("GET", "http://example.org/mcp", "X-Forwarded-Host", "example.org"), "https://example.org/mcp"), "DPoP", "invalid_dpop_proof")
	w := httptest.NewRecorder()
	http.StripPrefix("/mcp", guard.Protect(&inner{})).ServeHTTP(w, prove(newRequest("GET", "/mcp?x=y"), resource))
	if w.Code != http.StatusTeapot {
		t.Errorf("behind StripPrefix: %d %s", w.Code, w.Body)
	}
	told := newGuard(t, issuer, accepting(func(d *middleware.DPoP) {
		d.Request = func(r *http.Request) (string, string) { return "PUT", resource + "/public" + r.URL.Path }
	}))
	r := newRequest("POST", "http://10.0.0.1:9000/inner", "Authorization", "DPoP "+client.token, "DPoP", client.Prove("PUT", resource+"/public/inner", client.token, nil))
	passes(t, told, r)
	untold := newGuard(t, issuer, accepting(func(d *middleware.DPoP) { d.Request = func(*http.Request) (string, string) { return "", "" } }))
	challengedBy(t, untold, newRequest("POST", resource, "Authorization", "DPoP "+client.token, "DPoP", client.Prove("", "", client.token, nil)), "DPoP", "invalid_dpop_proof")
}

// TestProofsStopAtTheGuard shows that no handler gets a proof, in any spelling.
func TestProofsStopAtTheGuard(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	client := newBound(t, issuer, jose.ES256)
	unproved := newRequest("POST", resource, "Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}), "DPoP", "proof")
	for guard, r := range map[*middleware.Guard]*http.Request{newGuard(t, issuer): unproved, newGuard(t, issuer, accepting()): client.request(nil)} {
		r.Header["dpop"], r.Header["DPOP"] = []string{"forged"}, []string{"forged"}
		var h inner
		if res := serve(guard.Protect(&h), r); res.StatusCode != http.StatusTeapot {
			t.Fatal(res.Status, res.Header)
		}
		for name := range h.requests[0].Header {
			if strings.EqualFold(name, "dpop") || name == "Authorization" {
				t.Errorf("the handler got %s", name)
			}
		}
	}
}

// TestWhatClientsLearn shows challenges, metadata and headers for pages.
func TestWhatClientsLearn(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	const algs = "ES256 EdDSA Ed25519 RS256 PS256"
	challenges := func(guard *middleware.Guard, r *http.Request) []string {
		return serve(guard.Protect(&inner{}), r).Header["Www-Authenticate"]
	}
	both := challenges(newGuard(t, issuer, accepting()), newRequest("POST", resource))
	if len(both) != 2 || !strings.HasPrefix(both[0], "Bearer scope=") || !strings.HasPrefix(both[1], "DPoP scope=") || !strings.Contains(both[1], `algs="`+algs+`"`) {
		t.Errorf("%q", both)
	}
	one := challenges(newGuard(t, issuer, accepting(required)), newRequest("POST", resource))
	if len(one) != 1 || !strings.HasPrefix(one[0], "DPoP scope=") {
		t.Errorf("%q", one)
	}
	client := newBound(t, issuer, jose.ES256)
	strict := newGuard(t, issuer, accepting(), func(c *middleware.Config) { c.Policy.Scopes = []string{"notes:write"} })
	if short := challenges(strict, client.request(nil)); len(short) != 1 || !strings.HasPrefix(short[0], `DPoP error="insufficient_scope"`) {
		t.Errorf("%q", short)
	}
	var doc metadata.Resource
	for use, guard := range map[middleware.DPoPUse]*middleware.Guard{
		middleware.DPoPOff: newGuard(t, issuer), middleware.DPoPAccepted: newGuard(t, issuer, accepting()), middleware.DPoPRequired: newGuard(t, issuer, accepting(required)),
	} {
		w := httptest.NewRecorder()
		doc = metadata.Resource{}
		guard.Metadata().ServeHTTP(w, newRequest("GET", guard.MetadataPaths()[0]))
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		if doc.DPoPBoundAccessTokensRequired != (use == middleware.DPoPRequired) || (strings.Join(doc.DPoPSigningAlgValuesSupported, " ") == algs) != (use != middleware.DPoPOff) {
			t.Errorf("%d: %s", use, w.Body)
		}
	}
	res := serve(strict.Protect(&inner{}), newRequest("OPTIONS", resource))
	if !strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "DPoP") || !strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "DPoP-Nonce") {
		t.Errorf("%v", res.Header)
	}
}

func TestMistakesInDPoP(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	key, err := middleware.NewHandles(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for want, d := range map[string]middleware.DPoP{
		"no use 7":                     {Use: 7},
		"no use -1":                    {Use: -1},
		"window is below zero":         {Use: middleware.DPoPAccepted, Window: -1},
		`"HS256" is not`:               {Use: middleware.DPoPAccepted, Algorithms: []string{"HS256"}},
		`"none" is not`:                {Use: middleware.DPoPAccepted, Algorithms: []string{"none"}},
		"have no key":                  {Use: middleware.DPoPAccepted, RequireNonce: true, Nonces: &middleware.Handles{}},
		"no effect without RequireNon": {Use: middleware.DPoPAccepted, Nonces: key},
	} {
		_, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()}, DPoP: d})
		if err == nil || !strings.Contains(err.Error(), want) && want != "have no key" {
			t.Errorf("%s: %v", want, err)
		}
	}
}
