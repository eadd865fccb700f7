package dcr_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
	"gatehouse.example/storage/storagetest"
)

// registerWith posts a body with Authorization headers.
func (f *fixture) registerWith(t testing.TB, body string, authorization ...string) answer {
	t.Helper()
	return f.registerIn(context.Background(), t, body, authorization...)
}

// registerIn registers with a request that ends with ctx.
func (f *fixture) registerIn(ctx context.Context, t testing.TB, body string, authorization ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, registerURL, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, value := range authorization {
		r.Header.Add("Authorization", value)
	}
	return serve(t, f.Register(), r)
}

func (f *fixture) mint(t testing.TB, uses int, life time.Duration) string {
	t.Helper()
	token, err := dcr.MintInitialToken(context.Background(), f.store, uses, f.clock.now().Add(life))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func required(c *dcr.Config) { c.RequireInitialToken = true }

// left returns how many registrations an initial token has left.
func (f *fixture) left(t testing.TB, token string) int {
	t.Helper()
	initial, err := f.store.InitialToken(context.Background(), token)
	if errors.Is(err, storage.ErrNotFound) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return initial.Left
}

func TestInitialToken(t *testing.T) {
	f := newFixture(t, required)
	token := f.mint(t, 2, time.Hour)
	if !strings.HasPrefix(token, "gate_iat_") || !unreserved(token) || strings.Contains(string(f.backend.stored), token) {
		t.Errorf("token %q", token)
	}
	for want := 1; want >= 0; want-- {
		if a := f.registerWith(t, minimal, "bearer "+token); a.status != http.StatusCreated || f.left(t, token) != want {
			t.Errorf("status %d, %d left, want %d: %s", a.status, f.left(t, token), want, a.raw)
		}
	}
	f.backend.writes.Store(0)
	assertRefused(t, f, f.registerWith(t, minimal, "Bearer "+token), http.StatusUnauthorized, "invalid_token")
	if strings.Contains(f.log.String(), token) {
		t.Error("the token is in the log")
	}
}

// challenged is the challenge to a request with these Authorization headers: without one there is
// no error (RFC 6750 section 3.1).
func challenged(authorization []string) string {
	if authorization == nil {
		return "Bearer"
	}
	return `Bearer error="invalid_token"`
}

// TestInitialTokenRefusedUniformly: every wrong token gets the same answer, before any other
// check, and nothing is spent.
func TestInitialTokenRefusedUniformly(t *testing.T) {
	f := newFixture(t, required)
	good, short, used := f.mint(t, 1, 2*time.Hour), f.mint(t, 1, time.Minute), f.mint(t, 1, time.Hour)
	mine := f.registerWith(t, minimal, "Bearer "+used)
	f.clock.advance(time.Minute)
	f.backend.writes.Store(0)
	first := f.registerWith(t, minimal)
	tests := map[string][]string{
		"nothing": nil, "empty": {""}, "no token": {"Bearer "}, "another scheme": {"Basic " + good}, "no scheme": {good},
		"two headers": {"Bearer " + good, "Bearer " + good}, "cut off": {"Bearer " + good[:len(good)-1]}, "longer": {"Bearer " + good + "A"},
		"unknown": {"Bearer gate_iat_" + strings.Repeat("A", 43)}, "expired": {"Bearer " + short}, "used up": {"Bearer " + used},
		"a registration access token": {"Bearer " + mine.text("registration_access_token")}, "long": {"Bearer gate_iat_" + strings.Repeat("A", 10000)},
	}
	for name, headers := range tests {
		for _, body := range []string{minimal, `{}`, `not JSON`} {
			a := f.registerWith(t, body, headers...)
			assertRefused(t, f, a, http.StatusUnauthorized, "invalid_token")
			if a.raw != first.raw || a.header.Get("WWW-Authenticate") != challenged(headers) {
				t.Errorf("%s: %s, %s", name, a.raw, a.header.Get("WWW-Authenticate"))
			}
		}
	}
	assertRefused(t, f, f.registerWith(t, `{}`, "Bearer "+good), http.StatusBadRequest, "invalid_redirect_uri")
	if f.left(t, good) != 1 {
		t.Error("a refused request spent a registration")
	}
}

// TestOpenIgnoresTokens: where registration is open, no Authorization header is refused, and
// no initial token is spent.
func TestOpenIgnoresTokens(t *testing.T) {
	f := newFixture(t, nil)
	token := f.mint(t, 1, time.Hour)
	for _, header := range []string{"Bearer " + token, "Bearer something", "Basic Og==", "x"} {
		if a := f.registerWith(t, minimal, header); a.status != http.StatusCreated {
			t.Errorf("%s: status %d: %s", header, a.status, a.raw)
		}
	}
	if f.left(t, token) != 1 {
		t.Error("the token was spent")
	}
}

// TestInitialTokenRace: of many concurrent registrations with a token for three, three
// succeed, and nothing is left of the others.
func TestInitialTokenRace(t *testing.T) {
	f := newFixture(t, required)
	token := f.mint(t, 3, time.Hour)
	var made, refused atomic.Int64
	var group sync.WaitGroup
	f.backend.hold("get", "initial-token", 12) // all have seen three left
	for range 12 {
		group.Go(func() {
			switch a := f.registerWith(t, minimal, "Bearer "+token); a.status {
			case http.StatusCreated:
				made.Add(1)
			case http.StatusUnauthorized:
				refused.Add(1)
			default:
				t.Errorf("status %d: %s", a.status, a.raw)
			}
		})
	}
	group.Wait()
	clients := 0
	for _, err := range f.store.Clients(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		clients++
	}
	if made.Load() != 3 || refused.Load() != 9 || f.left(t, token) != 0 || clients != 3 {
		t.Errorf("%d registered, %d refused, %d left, %d clients", made.Load(), refused.Load(), f.left(t, token), clients)
	}
}

// TestInitialTokenFaults: a store that fails at any step answers 503 and spends nothing.
func TestInitialTokenFaults(t *testing.T) {
	f := newFixture(t, required)
	token := f.mint(t, 1, time.Hour)
	unavailable := func(what string) {
		t.Helper()
		a := f.registerWith(t, minimal, "Bearer "+token)
		if a.status != http.StatusServiceUnavailable || a.text("error") != "temporarily_unavailable" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d: %s", what, a.status, a.raw)
		}
		f.faults.SetDown(false)
		if n := f.left(t, token); n != 1 {
			t.Errorf("%s: %d left", what, n)
		}
	}
	f.faults.SetDown(true)
	unavailable("reading the token")
	f.backend.before(func() { f.faults.SetDown(true) })
	unavailable("storing the client")
	f.backend.before(func() { f.backend.before(func() { f.faults.SetDown(true) }) })
	unavailable("spending the token")
	for name, lose := range map[string]func(int){"requests": f.faults.LoseRequests, "replies": f.faults.LoseReplies} {
		token = f.mint(t, 1, time.Hour)
		lose(2)
		if a := f.registerWith(t, minimal, "Bearer "+token); a.status != http.StatusCreated || f.left(t, token) != 0 {
			t.Errorf("lost %s: status %d, %d left: %s", name, a.status, f.left(t, token), a.raw)
		}
	}
}

func TestMintInitialTokenRefuses(t *testing.T) {
	f := newFixture(t, nil)
	now := f.clock.now()
	for name, mint := range map[string]struct {
		uses    int
		expires time.Time
	}{"no use": {0, now.Add(time.Hour)}, "fewer": {-1, now.Add(time.Hour)}, "no end": {1, time.Time{}}, "the past": {1, now}} {
		if token, err := dcr.MintInitialToken(context.Background(), f.store, mint.uses, mint.expires); token != "" || err == nil {
			t.Errorf("%s: %q, %v", name, token, err)
		}
	}
	f.faults.SetDown(true)
	if _, err := dcr.MintInitialToken(context.Background(), f.store, 1, now.Add(time.Hour)); !errors.Is(err, storagetest.ErrDown) {
		t.Errorf("error %v", err)
	}
}

// TestAdmit: the hook is called once per otherwise acceptable request, before anything is
// spent or stored, and its error refuses the request.
func TestAdmit(t *testing.T) {
	var asked []storage.Client
	var verdict error
	undone := 0
	f := newFixture(t, func(c *dcr.Config) {
		c.RequireInitialToken = true
		c.Admit = func(_ context.Context, client storage.Client, weight int64) (func(), error) {
			if client.ID == "" || client.Software == "" || weight < 100 || weight > 2000 {
				t.Errorf("asked about %+v, which weighs %d", client, weight)
			}
			asked = append(asked, client)
			return func() { undone++ }, verdict
		}
	})
	token := f.mint(t, 9, time.Hour)
	f.backend.writes.Store(0)
	f.registerWith(t, minimal)
	f.registerWith(t, `{}`, "Bearer "+token)
	if len(asked) != 0 {
		t.Error("asked about requests that are refused anyway")
	}
	for wait, header := range map[time.Duration]string{0: "1", 1500 * time.Millisecond: "2", time.Hour: "3600"} {
		verdict = &dcr.TooMany{RetryAfter: wait}
		a := f.registerWith(t, minimal, "Bearer "+token)
		assertRefused(t, f, a, http.StatusTooManyRequests, "temporarily_unavailable")
		if a.header.Get("Retry-After") != header {
			t.Errorf("%s: Retry-After %q, want %s", wait, a.header.Get("Retry-After"), header)
		}
	}
	verdict = errors.New("no quota at 192.0.2.1")
	a := f.registerWith(t, minimal, "Bearer "+token)
	assertRefused(t, f, a, http.StatusServiceUnavailable, "temporarily_unavailable")
	if strings.Contains(a.raw, "192.0.2.1") {
		t.Errorf("the answer shows internals: %s", a.raw)
	}
	verdict, asked = nil, nil
	if a := f.registerWith(t, minimal, "Bearer "+token); a.status != http.StatusCreated || len(asked) != 1 || asked[0].ID != a.text("client_id") {
		t.Errorf("status %d: %s, asked about %v", a.status, a.raw, asked)
	}
	if f.left(t, token) != 8 || undone != 0 {
		t.Errorf("%d left, undone %d times", f.left(t, token), undone)
	}
	f.faults.LoseRequests(1 << 30)
	ctx, giveUp := context.WithCancel(t.Context())
	f.backend.before(giveUp)
	a = f.registerIn(ctx, t, minimal, "Bearer "+token)
	f.faults.LoseRequests(0)
	if undone != 1 || a.status != http.StatusServiceUnavailable {
		t.Errorf("a registration that the store did not take was undone %d times, want once: %d", undone, a.status)
	}
}
