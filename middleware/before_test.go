package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestGuardGoesOn: a guard that replaces another one knows the proofs that were used there, and the
// keys of an issuer that is configured as before, also while that cannot be reached.
func TestGuardGoesOn(t *testing.T) {
	t.Parallel()
	const resource = "https://notes.example.com/mcp"
	issuer := middlewaretest.NewIssuer(t)
	guard := func(before *middleware.Guard, change func(*middleware.Config)) *middleware.Guard {
		c := middleware.Config{
			Resource: resource, Issuers: []middleware.Issuer{{URL: issuer.URL()}}, DPoP: middleware.DPoP{Use: middleware.DPoPAccepted}, Before: before,
		}
		if change != nil {
			change(&c)
		}
		g, err := middleware.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	key := middlewaretest.NewProofKey(t, jose.ES256)
	token := issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": key.Confirmation()})
	used := httptest.NewRequest(http.MethodGet, resource, nil)
	key.Send(used, resource, token, nil)
	status := func(g *middleware.Guard, r *http.Request) int {
		w := httptest.NewRecorder()
		g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		return w.Code
	}
	first := guard(nil, nil)
	if got := status(first, used); got != http.StatusOK {
		t.Fatalf("the first request: %d", got)
	}
	issuer.SetDown(true)
	next := guard(first, func(c *middleware.Config) { c.ResourceName = "Another name" })
	if got := status(next, used); got != http.StatusUnauthorized {
		t.Errorf("a proof that was used before: %d", got)
	}
	fresh := httptest.NewRequest(http.MethodGet, resource, nil)
	key.Send(fresh, resource, token, nil)
	if got := status(next, fresh); got != http.StatusOK {
		t.Errorf("a new proof while the issuer is down: %d", got)
	}
	for name, other := range map[string]*middleware.Guard{
		"another rule for the issuer": guard(next, func(c *middleware.Config) { c.Issuers[0].Algorithms = []string{"ES256"} }),
		"another resource": guard(next, func(c *middleware.Config) {
			c.Resource = "https://other.example.com/mcp"
			c.Audiences = []string{resource}
		}),
	} {
		again := httptest.NewRequest(http.MethodGet, resource, nil)
		key.Send(again, resource, token, nil)
		if got := status(other, again); got != http.StatusServiceUnavailable {
			t.Errorf("%s: %d, want 503: it has no keys", name, got)
		}
	}
}

// TestBudgetGoesOn: what was asked of a provider counts for the guard that replaces another one, and
// so does the pause that the provider asked for.
func TestBudgetGoesOn(t *testing.T) {
	p, clock := startProvider(t, middleware.GitHub), newClock()
	var before *middleware.Guard
	next := func(perHour int) *middleware.Guard {
		before = p.guard(func(_ *middleware.Issuer, asked *middleware.Introspection, c *middleware.Config) {
			asked.PerHour, c.Now, c.Before = perHour, clock.Now, before
		})
		return before
	}
	p.says(http.StatusNotFound, "{}")
	p.isStatus(next(800), p.token(1), 401, 0, 1)
	p.isStatus(next(800), p.token(2), 401, 0, 1)
	p.isStatus(next(800), p.token(3), 503, 9, 0)
	p.isStatus(next(1600), p.token(4), 503, 5, 0)
	p.says(http.StatusTooManyRequests, "{}", "Retry-After", "600")
	clock.Advance(time.Hour)
	p.isStatus(next(800), p.token(5), 503, 600, 1)
	p.isStatus(next(800), p.token(6), 503, 600, 0)
}

// TestProofsOutliveTheirSettings: a proof that was used stays used when proofs are not accepted for a
// while, and when they are accepted for longer than before.
func TestProofsOutliveTheirSettings(t *testing.T) {
	t.Parallel()
	issuer, now := middlewaretest.NewIssuer(t), newClock()
	client := newBound(t, issuer, jose.ES256)
	before := newGuard(t, issuer)
	next := func(use middleware.DPoPUse, window time.Duration) *middleware.Guard {
		before = newGuard(t, issuer, func(c *middleware.Config) {
			c.Before, c.Now, c.DPoP = before, now.Now, middleware.DPoP{Use: use, Window: window}
		})
		return before
	}
	start := now.Now()
	request := func(id string, ago time.Duration) *http.Request {
		return client.request(claims{"jti": id, "iat": now.Now().Add(-ago).Unix()})
	}
	passes(t, next(middleware.DPoPAccepted, time.Minute), request("used", 0))
	next(middleware.DPoPOff, 0)
	challengedBy(t, next(middleware.DPoPAccepted, time.Minute), request("used", 0), "DPoP", "invalid_dpop_proof")

	now.Advance(90 * time.Second)
	passes(t, before, request("later", 0)) // and what is too old is forgotten
	longer := next(middleware.DPoPAccepted, 5*time.Minute)
	for name, ago := range map[string]time.Duration{"used": now.Now().Sub(start), "later": 0} {
		challengedBy(t, longer, request(name, ago), "DPoP", "invalid_dpop_proof")
	}
	passes(t, longer, request("new", 30*time.Second))
	shorter := next(middleware.DPoPAccepted, time.Minute) // beside the longer one, which may still answer
	passes(t, longer, request("both", 0))
	now.Advance(90 * time.Second)
	passes(t, shorter, request("another", 0))
	for _, id := range []string{"both", "later"} { // "later" was used while the window was shorter
		challengedBy(t, longer, request(id, 90*time.Second), "DPoP", "invalid_dpop_proof")
	}
}

// TestProofsOutliveNonces: a proof that was used stays used when nonces are no longer demanded, and when they are demanded
// from then on, whichever of its two times counts: that of its nonce, or its own.
func TestProofsOutliveNonces(t *testing.T) {
	t.Parallel()
	issuer := middlewaretest.NewIssuer(t)
	client := newBound(t, issuer, jose.ES256)
	keys, err := middleware.NewHandles(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		on    bool          // whether nonces are demanded at the first use, and not at the second
		ahead time.Duration // of the time of the proof, at the first use
		later time.Duration // when it is used again
	}{
		"made for later, without nonces later": {true, 4 * time.Minute, 4 * time.Minute},
		"made earlier, with nonces later":      {false, -50 * time.Second, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			now := newClock()
			guard := func(before *middleware.Guard, nonces bool) *middleware.Guard {
				return newGuard(t, issuer, func(c *middleware.Config) {
					c.Before, c.Now, c.Sessions, c.DPoP = before, now.Now, keys, middleware.DPoP{Use: middleware.DPoPAccepted, Window: time.Minute, RequireNonce: nonces}
				})
			}
			w := httptest.NewRecorder()
			guard(nil, true).Protect(http.NotFoundHandler()).ServeHTTP(w, client.request(nil))
			proof := claims{"nonce": w.Header().Get("DPoP-Nonce"), "iat": now.Now().Add(tt.ahead).Unix()}
			request := func(id string) *http.Request {
				proof["jti"] = id
				return client.request(proof)
			}
			first := guard(nil, tt.on)
			passes(t, first, request("used"))
			now.Advance(tt.later)
			next := guard(first, !tt.on)
			passes(t, next, request("another")) // so that what is over is forgotten
			challengedBy(t, next, request("used"), "DPoP", "invalid_dpop_proof")
		})
	}
}
