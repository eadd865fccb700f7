package middleware_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// bounded returns a guard with a clock for tests, which asks so often in an hour.
func (p *provider) bounded(clock *clock, perHour int) *middleware.Guard {
	p.Helper()
	return p.guard(func(_ *middleware.Issuer, asked *middleware.Introspection, c *middleware.Config) {
		asked.PerHour, c.Now = perHour, clock.Now
	})
}

// isStatus checks the answer to a token: its status, Retry-After, and the questions that it caused.
func (p *provider) isStatus(guard *middleware.Guard, token string, status, after, questions int) {
	p.Helper()
	gotStatus, gotAfter := retry(p.T, guard, token)
	if n := p.questions(); gotStatus != status || gotAfter != after || n != questions {
		p.Fatalf("%s: %d, Retry-After %d, %d questions; want %d, %d, %d", token, gotStatus, gotAfter, n, status, after, questions)
	}
}

// TestFloodOfInventedTokens checks that invented tokens of the right form reach the provider a few
// times alone, and that people whose tokens were valid before go on meanwhile.
func TestFloodOfInventedTokens(t *testing.T) {
	for _, profile := range opaqueProviders {
		p, clock := startProvider(t, profile), newClock()
		guard := p.bounded(clock, 800) // 200 for strangers, 4 at once, 2 of them from one network
		good := p.answer
		p.isStatus(guard, p.token(0), 404, 0, 1)
		p.isStatus(guard, p.token(0), 404, 0, 0) // from the cache
		refusal, body := 404, `{}`
		if profile == middleware.Google {
			refusal, body = 400, `{"error":"invalid_token"}`
		}
		p.says(refusal, body)
		p.isStatus(guard, p.token(1), 401, 0, 1)
		p.isStatus(guard, p.token(1), 401, 0, 0) // a refusal is kept, too
		for n := range 200 {
			p.isStatus(guard, p.token(2+n), 503, 9, 0)
		}
		clock.Advance(5*time.Minute + time.Second)
		p.isStatus(guard, p.token(300), 401, 0, 1)
		p.isStatus(guard, p.token(301), 401, 0, 1)
		p.isStatus(guard, p.token(302), 503, 9, 0)
		p.says(http.StatusOK, good)
		p.isStatus(guard, p.token(0), 404, 0, 1) // it was valid before
		clock.Advance(18 * time.Second)
		p.isStatus(guard, p.token(303), 404, 0, 1)
		p.isStatus(guard, p.token(304), 503, 9, 0)
	}
}

// TestStrangersLeaveQuestionsToOthers: a network that invents tokens all the time gets no more of the
// questions than it leaves, so that a new token from another network is looked up at once.
func TestStrangersLeaveQuestionsToOthers(t *testing.T) {
	p, clock := startProvider(t, middleware.GitHub), newClock()
	handler := p.bounded(clock, 800).Protect(http.NotFoundHandler())
	sent, good := 0, p.answer
	ask := func(from string) int {
		r := withToken(p.token(sent))
		r.RemoteAddr = from
		sent++
		return serve(handler, r).StatusCode
	}
	for round := range 10 {
		p.says(http.StatusNotFound, "{}")
		for host := range 10 {
			ask(fmt.Sprintf("192.0.2.%d:443", host))
		}
		p.says(http.StatusOK, good)
		if got := ask("198.51.100.7:443"); got != http.StatusNotFound {
			t.Fatalf("round %d: a person in another network gets %d", round, got)
		}
		clock.Advance(36 * time.Second) // for two more
	}
	if n := p.questions(); n < 10+9 || n > 4+2*9 {
		t.Errorf("%d questions, and 22 are allowed", n)
	}
}

// TestQuestionsOfKnownTokensAreBounded checks that tokens that were valid have an end of questions,
// too.
func TestQuestionsOfKnownTokensAreBounded(t *testing.T) {
	p, clock := startProvider(t, middleware.GitHub), newClock()
	guard := p.bounded(clock, 4) // 3 for known tokens and 1 for others, one at a time
	p.isStatus(guard, p.token(0), 404, 0, 1)
	clock.Advance(6 * time.Minute)
	p.isStatus(guard, p.token(0), 404, 0, 1)
	clock.Advance(6 * time.Minute)
	p.isStatus(guard, p.token(0), 503, 14*60, 0)
	clock.Advance(14 * time.Minute)
	p.isStatus(guard, p.token(0), 404, 0, 1)
}

// TestProviderAsksForAPause checks how long a provider is not asked after it refused to answer.
func TestProviderAsksForAPause(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		header []string
		pause  int
	}{
		"429":                      {429, nil, 60},
		"403":                      {403, nil, 60},
		"500":                      {500, nil, 1},
		"401":                      {401, nil, 1},
		"429 with a time":          {429, []string{"Retry-After", "120"}, 120},
		"503 with a time":          {503, []string{"Retry-After", "7"}, 7},
		"a time of zero":           {429, []string{"Retry-After", "0"}, 1},
		"a time of days":           {429, []string{"Retry-After", "999999"}, 3600},
		"an odd time":              {429, []string{"Retry-After", "soon"}, 60},
		"a limit that is reset":    {403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "+600"}, 600},
		"a limit that is not used": {403, []string{"X-RateLimit-Remaining", "9", "X-RateLimit-Reset", "+600"}, 60},
		"a limit reset long ago":   {403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "+-600"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, clock := startProvider(t, middleware.GitHub), newClock()
			guard := p.bounded(clock, 0)
			for i, value := range tt.header {
				if ahead, ok := strings.CutPrefix(value, "+"); ok {
					seconds, _ := strconv.Atoi(ahead)
					tt.header[i] = strconv.FormatInt(clock.Now().Unix()+int64(seconds)+1, 10)
				}
			}
			good := p.answer
			p.says(tt.status, "{}", tt.header...)
			status, after := retry(t, guard, p.token(0))
			if status != 503 || after < tt.pause || after > tt.pause+1 || p.questions() != 1 {
				t.Fatalf("%d, Retry-After %d", status, after)
			}
			p.says(http.StatusOK, good)
			clock.Advance(time.Duration(tt.pause)*time.Second - 500*time.Millisecond)
			if status, _ = retry(t, guard, p.token(1)); status != 503 || p.questions() != 0 {
				t.Errorf("%d before the end of the pause", status)
			}
			clock.Advance(2 * time.Second)
			p.isStatus(guard, p.token(1), 404, 0, 1)
		})
	}
}

// TestFreshAnswersOfProviders checks when a valid token is asked about again, and how long a token
// without an end counts.
func TestFreshAnswersOfProviders(t *testing.T) {
	p, clock := startProvider(t, middleware.GitHub), newClock()
	p.answer = githubAnswer(claims{"expires_at": nil})
	guard := p.bounded(clock, 0)
	token := wantVerdict(t, guard, githubToken, nil)
	if life := token.Expiry.Sub(clock.Now()); life != time.Hour {
		t.Errorf("the token lives for %s", life)
	}
	clock.Advance(5 * time.Minute)
	wantVerdict(t, guard, githubToken, nil)
	if n := p.questions(); n != 1 {
		t.Errorf("%d questions in five minutes", n)
	}
	clock.Advance(time.Second)
	p.says(http.StatusNotFound, "{}")
	wantVerdict(t, guard, githubToken, middleware.ErrToken)
}

// TestScopeMapOfProviders checks scopes by what the answer of a provider says about the user.
func TestScopeMapOfProviders(t *testing.T) {
	for profile, rule := range map[middleware.Profile]middleware.ScopeRule{
		middleware.GitHub: {Claim: []string{"scopes"}, Value: "repo", Scopes: []string{"notes:write"}},
		middleware.Google: {Claim: []string{"email"}, Value: "reader@example.com", Scopes: []string{"notes:write"}},
	} {
		p := startProvider(t, profile)
		guard := p.guard(func(one *middleware.Issuer, _ *middleware.Introspection, _ *middleware.Config) {
			one.ScopeMap = []middleware.ScopeRule{rule}
		})
		if token := wantVerdict(t, guard, p.token(0), nil); !token.HasScope("notes:write") {
			t.Errorf("%s: %q", profile, token.Scopes)
		}
		p.says(http.StatusOK, strings.NewReplacer(`"repo"`, `"notes:write"`, "reader@", "other@", "openid", "notes:write").Replace(p.answer))
		if token := wantVerdict(t, guard, p.token(1), nil); token.HasScope("notes:write") {
			t.Errorf("%s: %q", profile, token.Scopes)
		}
	}
}

// TestProvidersBesideOtherIssuers checks that JWTs of another issuer go to that issuer, and all other
// tokens to the provider.
func TestProvidersBesideOtherIssuers(t *testing.T) {
	p, issuer := startProvider(t, middleware.GitHub), middlewaretest.NewIssuer(t)
	guard := p.guard(func(_ *middleware.Issuer, _ *middleware.Introspection, c *middleware.Config) {
		c.Issuers = []middleware.Issuer{{URL: issuer.URL()}}
	})
	if token := wantVerdict(t, guard, issuer.Mint(claims{"aud": resource}), nil); token.Issuer != issuer.URL() {
		t.Errorf("%+v", token)
	}
	if token := wantVerdict(t, guard, githubToken, nil); token.Issuer != p.server.URL || p.questions() != 1 {
		t.Errorf("%+v", token)
	}
}

// TestProviderMistakes checks what New says about configurations of providers that cannot work.
func TestProviderMistakes(t *testing.T) {
	type (
		issuer = middleware.Issuer
		asked  = middleware.Introspection
	)
	for want, change := range map[string]func(*issuer, *asked){
		"it needs an entry in Introspection, with Opaque": func(_ *issuer, a *asked) { a.Opaque = false },
		"set InsecureNoAudience, and name the clients":    func(i *issuer, _ *asked) { i.InsecureNoAudience = false },
		"name the clients whose tokens are accepted":      func(i *issuer, _ *asked) { i.Audiences = nil },
		"name its client id, and no other, in Audiences":  func(i *issuer, _ *asked) { i.Audiences = append(i.Audiences, "other") },
		"the client id and the secret of the application": func(_ *issuer, a *asked) { a.ClientSecret = "" },
		"leave out ClientID and ClientSecret":             func(i *issuer, _ *asked) { i.Profile = middleware.Google },
		"below zero or above 1h0m0s":                      func(_ *issuer, a *asked) { a.Fresh = time.Hour + 1 },
		"PerHour is below zero":                           func(_ *issuer, a *asked) { a.PerHour = -1 },
		"it must be https":                                func(_ *issuer, a *asked) { a.Endpoint = "http://api.example.com" },
		"its tokens are no JWTs":                          func(i *issuer, _ *asked) { i.Keys = middleware.KeysAt("https://github.example.com/keys") },
		"leave out Algorithms, Type":                      func(i *issuer, _ *asked) { i.ScopeClaim = "scopes" },
		"PerHour is for the profiles Google and GitHub":   func(i *issuer, a *asked) { *i, a.PerHour = issuer{URL: i.URL}, 1 },
		"for the profiles Cognito, Google and GitHub alo": func(i *issuer, _ *asked) { i.Profile = middleware.Okta },
	} {
		one := issuer{URL: "https://github.example.com", Profile: middleware.GitHub, InsecureNoAudience: true, Audiences: []string{githubClient}}
		a := asked{ClientID: githubClient, ClientSecret: "secret", Opaque: true, Endpoint: "https://github.example.com/api/v3"}
		config := func() middleware.Config {
			return middleware.Config{Resource: resource, Issuers: []issuer{one}, Introspection: map[string]asked{one.URL: a}}
		}
		if _, err := middleware.New(config()); err != nil {
			t.Fatal(err)
		}
		change(&one, &a)
		if _, err := middleware.New(config()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTokensThatAreNotLookedUp checks a provider that looks up opaque tokens alone: where its tokens
// are opaque, a token that it does not look up is none of them; where they are JWTs, its error says
// nothing about the token.
func TestTokensThatAreNotLookedUp(t *testing.T) {
	for body, want := range map[string]error{
		`{"error":"unsupported_token_type"}`: middleware.ErrToken, `{"error":"invalid_request"}`: middleware.ErrUnavailable, "": middleware.ErrUnavailable,
		`{"error":"unsupported_token_type","error":"x"}`: middleware.ErrUnavailable,
	} {
		issuer := middlewaretest.NewIssuer(t)
		issuer.SetDocument(introspectPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(body))
		}))
		token := issuer.Mint(claims{"aud": resource})
		wantVerdict(t, newGuard(t, issuer, introspects(issuer, opaque)), token, want)
		wantVerdict(t, newGuard(t, issuer, introspects(issuer)), token, middleware.ErrUnavailable)
	}
}
