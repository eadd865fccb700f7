package engine_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/authz/internal/engine"
	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

const (
	issuer    = "https://auth.example.com"
	resource  = "https://notes.example.com/mcp"
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// bench is an engine with its store and keys.
type bench struct {
	t      testing.TB
	engine *engine.Engine
	keys   *keyring.Ring
	store  *storage.Store
	faults *storagetest.Faults
}

func now() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// signedIn is when the person of the grants signed in.
func signedIn() time.Time { return now().Add(-time.Minute) }

func newBench(t testing.TB) *bench {
	t.Helper()
	backend, err := redis.Open(context.Background(), redis.Options{URL: "embedded:", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, faults: storagetest.NewFaults(backend)}
	b.store, err = storage.New(b.faults, storage.Options{Issuer: issuer, MasterKeys: [][]byte{bytes.Repeat([]byte{7}, 32)}, Now: now, WriteTime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.store.Close() })
	b.keys, err = keyring.Open(context.Background(), keyring.Config{Store: b.store, Issuer: issuer, Now: now, Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	b.engine = engine.New(engine.Config{Store: b.store, Keys: b.keys, Now: now})
	return b
}

func someClient() storage.Client {
	return storage.Client{ID: "client", Metadata: metadata.Client{
		TokenEndpointAuthMethod: metadata.AuthMethodNone, GrantTypes: []string{metadata.GrantAuthorizationCode, metadata.GrantRefreshToken},
	}}
}

// prepared returns a grant that is not stored, and its code.
func (b *bench) prepared() (storage.Grant, string) {
	b.t.Helper()
	g, code, err := b.store.PrepareGrant(storage.NewGrant{
		ClientID: "client", Subject: "subject", Resources: []string{resource, "https://tasks.example.com/mcp"}, Scopes: []string{"notes:read", "tasks:read"},
		AuthTime: signedIn(), RedirectURI: "http://127.0.0.1:49152/callback", Challenge: challenge, Refreshable: true, CodeTTL: time.Minute,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return g, code
}

// issued returns an exchange of a code that was issued.
func (b *bench) issued() engine.Exchange {
	b.t.Helper()
	g, code := b.prepared()
	if err := b.engine.IssueCode(context.Background(), engine.Authorization{Client: someClient(), Grant: g, Code: code}); err != nil {
		b.t.Fatal(err)
	}
	return engine.Exchange{
		Client: someClient(), Grant: b.read(g.ID), Code: code, Verifier: verifier, Life: someLife(),
		Audience: []string{resource}, Scopes: []string{"notes:read"}, Expires: now().Add(5 * time.Minute),
		About: keyring.About{Groups: []string{"readers"}, Email: "ada@example.com"},
	}
}

func someLife() storage.Lifetime {
	return storage.Lifetime{Expires: now().Add(time.Hour), IdleExpires: now().Add(time.Hour), AccessUntil: now().Add(6 * time.Minute)}
}

func (b *bench) read(id string) storage.Grant {
	b.t.Helper()
	g, err := b.store.Grant(context.Background(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return g
}

func TestIssueAndRedeem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.issued()
	got, err := b.engine.Redeem(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := b.keys.Verify(got.Access)
	if err != nil || claims.GrantID != x.Grant.ID || claims.Subject != "subject" || claims.Scope != "notes:read" ||
		len(claims.Audience) != 1 || claims.Audience[0] != resource || claims.Expires != x.Expires.Unix() || claims.IssuedAt != now().Unix() ||
		claims.AuthTime != signedIn().Unix() || claims.ClientID != "client" || claims.Email != "ada@example.com" || len(claims.Groups) != 1 || claims.ID != got.AccessID || claims.ID == "" {
		t.Errorf("%+v, %v: a token says what was decided, and no more", claims, err)
	}
	after := b.read(x.Grant.ID)
	if after.State != storage.GrantActive || after.Generation != 0 || len(after.Resources) != 2 || len(after.Scopes) != 2 || len(after.Audience) != 1 || after.Audience[0] != resource || after.Lifetime != someLife() {
		t.Errorf("the grant is %+v: it keeps everything, and says what the token is for", after)
	}
	if want, err := b.store.RefreshTokenOf(after, 0); err != nil || got.Refresh != want {
		t.Errorf("refresh token %q, %v", got.Refresh, err)
	}
}

// TestSigningIsObserved: an observer of signatures is told the end of each, with the error of one that
// failed.
func TestSigningIsObserved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ends []error
	b.engine = engine.New(engine.Config{Store: b.store, Keys: b.keys, Now: now, Signing: func(context.Context) func(error) {
		return func(err error) { ends = append(ends, err) }
	}})
	if _, err := b.engine.Redeem(t.Context(), b.issued()); err != nil {
		t.Fatal(err)
	}
	forNobody := b.issued()
	forNobody.Audience = nil
	if got, err := b.engine.Redeem(t.Context(), forNobody); err == nil || got != (engine.Tokens{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if len(ends) != 2 || ends[0] != nil || ends[1] == nil {
		t.Errorf("the ends of two signatures: %v", ends)
	}
}

// TestRefresh: a rotation returns the next token, a repetition the current one without a
// write.
func TestRefresh(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.issued()
	first, err := b.engine.Redeem(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	x.Grant, x.Code, x.Verifier, x.RefreshToken = b.read(x.Grant.ID), "", "", first.Refresh
	x.Life.IdleExpires = x.Life.IdleExpires.Add(time.Minute)
	second, err := b.engine.Refresh(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	x.Grant, x.Repeat = b.read(x.Grant.ID), true
	puts := b.faults.Puts()
	again, err := b.engine.Refresh(t.Context(), x)
	if err != nil || again.Refresh != second.Refresh || again.Access == second.Access || second.Refresh == first.Refresh {
		t.Errorf("first %v, second %v, again %v, %v", first, second, again, err)
	}
	if b.faults.Puts() != puts || x.Grant.Generation != 1 || x.Grant.Lifetime != x.Life {
		t.Errorf("a repetition wrote, or the rotation did not: generation %d", x.Grant.Generation)
	}
}

// TestWithoutRefresh: a grant that is not refreshable gets no refresh token, whatever the
// client has registered since.
func TestWithoutRefresh(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.issued()
	x.Client.Metadata.GrantTypes = []string{metadata.GrantAuthorizationCode}
	got, err := b.engine.Redeem(t.Context(), x)
	if err != nil || got.Refresh != "" || got.Access == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRefused: the engine checks PKCE a second time and refuses input that the caller should
// have refused. Nothing is written then.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, change := range map[string]func(*engine.Exchange){
		"a wrong verifier":                   func(x *engine.Exchange) { x.Verifier = strings.Repeat("a", 43) },
		"no verifier":                        func(x *engine.Exchange) { x.Verifier = "" },
		"a short verifier":                   func(x *engine.Exchange) { x.Verifier = "a" },
		"no challenge":                       func(x *engine.Exchange) { x.Grant.Challenge = "" },
		"a grant the client has no right to": func(x *engine.Exchange) { x.Client.Metadata.GrantTypes = nil },
		"another client":                     func(x *engine.Exchange) { x.Client.ID = "other"; x.Audience = nil },
	} {
		t.Run(name, func(t *testing.T) {
			x := b.issued()
			puts := b.faults.Puts()
			change(&x)
			got, err := b.engine.Redeem(t.Context(), x)
			if err == nil || got != (engine.Tokens{}) {
				t.Fatalf("%+v, %v", got, err)
			}
			if n := b.faults.Puts() - puts; n != 0 || b.read(x.Grant.ID).State != storage.GrantCode {
				t.Errorf("%d writes for %v", n, err)
			}
		})
	}
	for name, change := range map[string]func(*storage.Grant){
		"no redirect URI": func(g *storage.Grant) { g.RedirectURI = "" },
		"a fragment":      func(g *storage.Grant) { g.RedirectURI += "#x" },
	} {
		g, code := b.prepared()
		change(&g)
		var refused *engine.RefusedError
		if err := b.engine.IssueCode(t.Context(), engine.Authorization{Client: someClient(), Grant: g, Code: code}); !errors.As(err, &refused) || refused.Code == "" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.store.Grant(t.Context(), g.ID); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: a grant was stored: %v", name, err)
		}
	}
}

// TestIssueWithoutChallenge: fosite checks the challenge after it has stored the code. That
// is why package authz checks it before. A code without a challenge is refused here and
// cannot be redeemed.
func TestIssueWithoutChallenge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	secret := someClient()
	secret.Metadata.TokenEndpointAuthMethod = metadata.AuthMethodBasic
	for _, client := range []storage.Client{someClient(), secret} {
		b.mustRefuseWithoutChallenge(client)
	}
}

func (b *bench) mustRefuseWithoutChallenge(client storage.Client) {
	t := b.t
	t.Helper()
	g, code := b.prepared()
	g.Challenge = ""
	var refused *engine.RefusedError
	if err := b.engine.IssueCode(t.Context(), engine.Authorization{Client: client, Grant: g, Code: code}); !errors.As(err, &refused) {
		t.Fatalf("%v", err)
	}
	for _, v := range []string{"", verifier} {
		x := engine.Exchange{Client: client, Grant: b.read(g.ID), Code: code, Verifier: v, Life: someLife(), Audience: []string{resource}, Expires: now().Add(time.Minute)}
		if got, err := b.engine.Redeem(t.Context(), x); err == nil {
			t.Errorf("verifier %q: %+v", v, got)
		}
	}
}

// TestLost: of concurrent exchanges of one record one wins; the others get a LostError with
// the current record.
func TestLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.issued()
	mustHaveOneWinner(t, storage.GrantActive, func() (engine.Tokens, error) { return b.engine.Redeem(context.Background(), x) })
	token, err := b.store.RefreshTokenOf(x.Grant, 0)
	if err != nil {
		t.Fatal(err)
	}
	x.Grant, x.RefreshToken, x.Code, x.Verifier = b.read(x.Grant.ID), token, "", ""
	mustHaveOneWinner(t, storage.GrantActive, func() (engine.Tokens, error) { return b.engine.Refresh(context.Background(), x) })
	x.Grant = b.read(x.Grant.ID)
	if err := b.store.Revoke(t.Context(), x.Grant.ID, "test"); err != nil {
		t.Fatal(err)
	}
	var lost *engine.LostError
	if _, err := b.engine.Refresh(t.Context(), x); !errors.As(err, &lost) || lost.Current.State != storage.GrantRevoked {
		t.Errorf("after a revocation: %v", err)
	}
}

func mustHaveOneWinner(t *testing.T, state storage.GrantState, exchange func() (engine.Tokens, error)) {
	t.Helper()
	const crowd = 32
	errs := make([]error, crowd)
	var wg sync.WaitGroup
	for i := range crowd {
		wg.Go(func() { _, errs[i] = exchange() })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		var lost *engine.LostError
		switch {
		case err == nil:
			won++
		case !errors.As(err, &lost) || !errors.Is(err, storage.ErrConflict) || lost.Current.State != state:
			t.Errorf("a lost swap returned %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

// TestStore: errors of the store are returned, whatever fosite makes of them: neither an
// outage nor a lost reply is an OAuth error.
func TestStore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.issued()
	g, code := b.prepared()
	b.faults.SetDown(true)
	if err := b.engine.IssueCode(t.Context(), engine.Authorization{Client: someClient(), Grant: g, Code: code}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("issue: %v", err)
	}
	if got, err := b.engine.Redeem(t.Context(), x); !errors.Is(err, storage.ErrUnavailable) || got != (engine.Tokens{}) {
		t.Errorf("redeem: %v", err)
	}
	token, err := b.store.RefreshTokenOf(x.Grant, 0)
	if err != nil {
		t.Fatal(err)
	}
	refresh := x
	refresh.RefreshToken, refresh.Code, refresh.Verifier, refresh.Grant.State = token, "", "", storage.GrantActive
	if _, err := b.engine.Refresh(t.Context(), refresh); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("refresh: %v", err)
	}
	b.faults.SetDown(false)
	b.faults.LoseReplies(1)
	if _, err := b.engine.Redeem(t.Context(), x); err != nil {
		t.Errorf("a lost reply: %v", err)
	}
}

// TestCancelled: after the client disconnects, there are no tokens, and the error says so.
func TestCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := b.issued()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := b.engine.Redeem(ctx, x); err == nil || got != (engine.Tokens{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if state := b.read(x.Grant.ID).State; state != storage.GrantCode {
		t.Errorf("the code was used up without an answer: %s", state)
	}
}

// TestManyAtOnce runs exchanges of different grants in parallel, for the race detector: the
// handlers are shared, and fosite fills in missing settings on first use.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			x := b.issued()
			if _, err := b.engine.Redeem(context.Background(), x); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
