package authz_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
)

// TestConfigRefused: an invalid configuration is refused, and the error names the setting.
func TestConfigRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	for name, mistake := range map[string]struct {
		change func(*authz.Config)
		says   string
	}{
		"everything missing":       {func(c *authz.Config) { *c = authz.Config{} }, "issuer"},
		"no issuer":                {func(c *authz.Config) { c.Issuer = "" }, "issuer"},
		"a slash at its end":       {func(c *authz.Config) { c.Issuer = "https://auth.example.com/" }, "slash"},
		"http beyond this machine": {func(c *authz.Config) { c.Issuer = "http://auth.example.com" }, "https"},
		"capital letters":          {func(c *authz.Config) { c.Issuer = "https://Auth.example.com" }, "canonical"},
		"a default port":           {func(c *authz.Config) { c.Issuer = "https://auth.example.com:443" }, "canonical"},
		"a query":                  {func(c *authz.Config) { c.Issuer = "https://auth.example.com?x" }, "query"},
		"no store":                 {func(c *authz.Config) { c.Store = nil }, "store"},
		"the store of another":     {func(c *authz.Config) { c.Issuer = "https://other.example.com" }, "another issuer"},
		"a relative resource":      {func(c *authz.Config) { c.Resources = []authz.Resource{{URI: "/mcp"}} }, "/mcp"},
		"a resource not canonical": {func(c *authz.Config) { c.Resources = []authz.Resource{{URI: "https://Notes.example.com"}} }, "canonical"},
		"a fragment":               {func(c *authz.Config) { c.Resources = []authz.Resource{{URI: notes + "#x"}} }, "fragment"},
		"twice the same resource":  {func(c *authz.Config) { c.Resources = []authz.Resource{{URI: notes}, {URI: notes}} }, "twice"},
		"two defaults":             {func(c *authz.Config) { c.Resources[1].Default = true }, "default"},
		"a scope with a space":     {func(c *authz.Config) { c.Resources[0].Scopes = []authz.Scope{{Name: "a b"}} }, "a b"},
		"a scope with a quote":     {func(c *authz.Config) { c.Resources[0].Scopes = []authz.Scope{{Name: `a"b`}} }, "scope"},
		"a scope that is too long": {func(c *authz.Config) {
			c.Resources[0].Scopes = []authz.Scope{{Name: strings.Repeat("a", 129)}}
		}, "not a usable scope name"},
		"an empty scope":  {func(c *authz.Config) { c.Resources[0].Scopes = []authz.Scope{{}} }, "scope"},
		"offline_access":  {func(c *authz.Config) { c.Resources[0].Scopes = []authz.Scope{{Name: "offline_access"}} }, "offline_access"},
		"one scope twice": {func(c *authz.Config) { c.Resources[0].Scopes = []authz.Scope{{Name: "a"}, {Name: "a"}} }, "meaning"},
		"one name, two meanings": {func(c *authz.Config) {
			c.Resources[1].Scopes = []authz.Scope{{Name: "notes:read", Description: "Other"}}
		}, "meaning"},
		"a default scope unknown":    {func(c *authz.Config) { c.Resources[0].DefaultScopes = []string{"x"} }, "default scope"},
		"introspection, no secret":   {func(c *authz.Config) { c.Resources[0].Introspection = &authz.IntrospectionClient{ID: "n"} }, "secret"},
		"introspection without id":   {func(c *authz.Config) { c.Resources[0].Introspection = &authz.IntrospectionClient{Secret: notesSecret} }, "client_id"},
		"one introspection id twice": {func(c *authz.Config) { c.Resources[1].Introspection = c.Resources[0].Introspection }, "twice"},
		"an unknown registration":    {func(c *authz.Config) { c.Registration = "everybody" }, "registration"},
		"an unknown algorithm":       {func(c *authz.Config) { c.SigningAlgorithm = "HS256" }, "HS256"},
		"a long access token":        {func(c *authz.Config) { c.AccessTokenTTL = 2 * time.Hour }, "access-token-ttl"},
		"a negative access token":    {func(c *authz.Config) { c.AccessTokenTTL = -1 }, "access-token-ttl"},
		"a long code":                {func(c *authz.Config) { c.CodeTTL = time.Hour }, "code-ttl"},
		"a long window":              {func(c *authz.Config) { c.RefreshWindow = time.Hour }, "refresh-window"},
		"a negative idle time":       {func(c *authz.Config) { c.RefreshIdle = -1 }, "refresh-idle"},
		"a negative lifetime":        {func(c *authz.Config) { c.RefreshMax = -1 }, "refresh-max"},
		"nobody can sign in":         {func(c *authz.Config) { c.Issuer, c.NoPasswords = "https://192.0.2.1", true }, "its host is an address"},
		"nobody on this machine":     {func(c *authz.Config) { c.Issuer, c.NoPasswords = "http://[::1]:8080", true }, "leave passwords on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := h.cfg
			cfg.Resources = bothResources()
			mistake.change(&cfg)
			server, err := authz.New(t.Context(), cfg)
			if err == nil || server != nil {
				t.Fatalf("it starts: %v", err)
			}
			if !strings.Contains(err.Error(), mistake.says) || !strings.HasPrefix(err.Error(), "authz: ") {
				t.Errorf("%q does not say %q", err, mistake.says)
			}
			if strings.Contains(err.Error(), notesSecret) {
				t.Errorf("the error holds a secret: %v", err)
			}
		})
	}
}

// TestConfigReportsAll: the error contains every mistake, not only the first.
func TestConfigReportsAll(t *testing.T) {
	t.Parallel()
	_, err := authz.New(t.Context(), authz.Config{Issuer: "http://auth.example.com", CodeTTL: time.Hour, RefreshMax: -1})
	for _, part := range []string{"issuer", "store", "code-ttl", "refresh-max"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

// TestSameScopeOfTwo: two resources may share a scope with one meaning; it is listed once and
// is valid at either.
func TestSameScopeOfTwo(t *testing.T) {
	t.Parallel()
	shared := authz.Scope{Name: "profile", Description: "See your name"}
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.Resources[0].Scopes, c.Resources[1].Scopes = []authz.Scope{shared}, []authz.Scope{shared}
		c.Resources[1].DefaultScopes = nil
	}})
	c := testClients()["native"]
	request := asks(c)
	request.Add("resource", tasks)
	code := h.newBrowser().code(request)
	answer := h.toToken(c, replaced(redemption(c, code), "resource", tasks))
	if got := answer.member(t, "scope"); got != "profile" {
		t.Errorf("scope %q", got)
	}
}

// TestResourceGone: a resource that is no longer configured gets no new tokens from old
// grants, and the other resources of the grant still do.
func TestResourceGone(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	request := asks(c)
	request.Add("resource", tasks)
	both := h.toToken(c, naming(redemption(c, h.newBrowser().code(request)), notes, tasks)).member(t, "refresh_token")
	only := h.newBrowser().tokens(c, replaced(asks(c), "resource", tasks))
	h.cfg.Resources = h.cfg.Resources[:1]
	h.restart()
	answer := h.toToken(c, refreshing(c, both))
	if got := claims(t, answer.member(t, "access_token"))["aud"]; got != notes {
		t.Errorf("aud %v", got)
	}
	mustRefuse(t, h.toToken(c, refreshing(c, only.refresh)), http.StatusBadRequest, "invalid_target")
}

// TestPanic: a panic is answered with a plain 500 without internals, and the server
// continues.
func TestPanic(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{})
	c := testClients()["native"]
	held := h.tokens(c)
	real := h.cfg.Now
	broken := true
	h.cfg.Now = func() time.Time {
		if broken {
			panic("storage: the secret is 42")
		}
		return real()
	}
	broken = false
	h.restart()
	broken = true
	mustRefuse(t, h.toToken(c, refreshing(c, held.refresh)), http.StatusInternalServerError, "server_error")
	broken = false
	if !strings.Contains(h.log.String(), "the secret is 42") {
		t.Error("the panic is not in the log")
	}
	if r := h.toToken(c, refreshing(c, held.refresh)); r.status != http.StatusOK {
		t.Errorf("afterwards: %s", r)
	}
}

// TestLogHoldsNoSecrets: after all kinds of requests the log contains no code, token,
// password, secret or cookie.
func TestLogHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}})
	c := testClients()["post"]
	b := h.newBrowser()
	b.open(h.issuer + "/authorize?" + asks(c).Encode())
	b.follow()
	b.submit("username", personName, "password", "a wrong password")
	held := b.tokens(c, asks(c))
	second := h.toToken(c, refreshing(c, held.refresh)).member(t, "refresh_token")
	h.toToken(c, replaced(refreshing(c, second), "client_secret", "a wrong secret"))
	h.toToken(c, replaced(refreshing(c, second), "scope", "x"))
	h.introspect(held.access)
	h.introspectAs(notes, "a wrong introspection secret", held.access)
	h.toToken(c, redemption(c, held.code))
	h.toToken(c, refreshing(c, second))
	h.faults.SetDown(true)
	h.toToken(c, refreshing(c, second))
	for name, cookie := range cookiesOf(t, b.last) {
		if cookie.Value != "" || !strings.HasPrefix(name, "__Host-authz_transaction_") {
			t.Errorf("the last answer sets %s", cookie)
		}
	}
	secrets := []string{held.access, held.refresh, held.code, second, verifier, c.secret, notesSecret, personPassword,
		"a wrong password", "a wrong secret", "a wrong introspection secret", "gate_se_", "gate_br_", "gate_ac_", "gate_rt_"}
	for _, secret := range secrets {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	for _, event := range []string{"signed in", "consent given", "sign-in refused", "authorization code replayed", "refused"} {
		if !strings.Contains(log.String(), event) {
			t.Errorf("the log does not know %q", event)
		}
	}
}

// TestSignInMistake: passwords can be off where there is another way to sign in, for the issuer or
// with a provider.
func TestSignInMistake(t *testing.T) {
	t.Parallel()
	with := authz.Config{Issuer: "https://192.0.2.1", NoPasswords: true}
	with.SetProviders("company")
	for _, c := range []authz.Config{
		{Issuer: "https://192.0.2.1"}, {Issuer: "https://auth.example.com", NoPasswords: true}, {Issuer: "http://localhost:8080", NoPasswords: true}, with,
	} {
		if err := c.SignInMistake(); err != nil {
			t.Error(err)
		}
	}
}
