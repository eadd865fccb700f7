package authz_test

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/internal/quietlog"
)

// TestAPasswordInTheNameField is not logged, whether it could be a name or not. The name of
// an existing person is logged, and other names can be distinguished.
func TestAPasswordInTheNameField(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: behindProxy})
	h.countComparisons()
	f := h.newBrowser().signInForm()
	for _, typed := range []string{"correct horse battery staple", "hunter22", "Tr0ub4dor&3", "hunter22"} {
		if r := f.send("192.0.2.1", typed, personName); r.status != http.StatusForbidden {
			t.Errorf("%q: %s", typed, r)
		}
	}
	f.send("192.0.2.1", " READER", "a wrong password")
	log := strings.ToLower(h.log.String())
	for _, secret := range []string{"horse", "hunter22", "tr0ub4dor", "a wrong password"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q:\n%s", secret, log)
		}
	}
	hashes := regexp.MustCompile(`unknown_name_hash=(\w+)`).FindAllStringSubmatch(log, -1)
	if len(hashes) != 4 || hashes[1][1] != hashes[3][1] || hashes[0][1] == hashes[1][1] {
		t.Errorf("names that are nobody's cannot be told apart: %q", hashes)
	}
	if !strings.Contains(log, "user=reader from=192.0.2.1") {
		t.Errorf("the log does not say at whom somebody guesses, and from where:\n%s", log)
	}
	h.restart()
	h.newBrowser().signInForm().send("192.0.2.1", "hunter22", "x")
	if strings.Count(h.log.String(), hashes[1][1]) != 2 {
		t.Error("the hash is the same in another process: it can be computed")
	}
}

// TestWhoHangsUp: a client that disconnects while the store is read, or makes the server
// panic, causes no line at the level error.
func TestWhoHangsUp(t *testing.T) {
	t.Parallel()
	panics := false
	h := newHarness(t, setup{})
	now := h.cfg.Now
	h.cfg.Now = func() time.Time {
		if panics {
			panic("hostile")
		}
		return now()
	}
	h.restart()
	c := testClients()["native"]
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	for _, path := range []string{"/token", "/revoke", "/introspect", "/login"} {
		r := h.newRequest(http.MethodPost, h.issuer+path, identified(c, form("grant_type", "refresh_token", "refresh_token", "x", "token", "x")))
		h.handler.Load().ServeHTTP(discard{}, r.WithContext(ctx))
	}
	for _, path := range []string{"/authorize?" + asks(c).Encode(), "/login?transaction=0123456789012345678901", "/register/x"} {
		h.handler.Load().ServeHTTP(discard{}, h.newRequest(http.MethodGet, h.issuer+path, nil).WithContext(ctx))
	}
	h.faults.SetDown(true)
	h.toToken(c, refreshing(c, "x"))
	h.get("/authorize?" + asks(c).Encode())
	h.faults.SetDown(false)
	panics = true
	h.get("/authorize?" + asks(c).Encode())
	panics = false
	if strings.Contains(h.log.String(), "level=ERROR") {
		t.Errorf("requests caused errors:\n%s", h.log.String())
	}
	if !strings.Contains(h.log.String(), "level=WARN msg=panic") {
		t.Error("the panic is not in the log")
	}
}

// discard is a response writer that drops the answer.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return 0, context.Canceled }
func (discard) WriteHeader(int)             {}

// TestActsOfPeopleAreAlwaysLogged, even after a flood of lines of all kinds.
func TestActsOfPeopleAreAlwaysLogged(t *testing.T) {
	t.Parallel()
	log := &syncBuffer{}
	h := newHarness(t, setup{config: func(c *authz.Config) { c.Logger = slog.New(quietlog.New(slog.NewTextHandler(log, nil))) }})
	c := testClients()["native"]
	const people = 30
	for range people {
		held := h.tokens(c)
		if r := h.as(c, "/revoke", identified(c, form("token", held.refresh))); r.status != http.StatusOK {
			t.Fatal(r)
		}
		for range 10 {
			h.toToken(c, refreshing(c, "x"))
		}
	}
	for line, want := range map[string]int{`msg="signed in"`: people, `msg="consent given"`: people, `msg="grant revoked by the client"`: people, "msg=refused": 20} {
		if n := strings.Count(log.String(), line); n != want {
			t.Errorf("%s: %d lines, want %d", line, n, want)
		}
	}
}
