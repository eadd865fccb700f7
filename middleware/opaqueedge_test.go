package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestAnswersThatOnlySeemToBeAnswers checks what a guard does not take for an answer of a provider.
func TestAnswersThatOnlySeemToBeAnswers(t *testing.T) {
	p := startProvider(t, middleware.Google)
	for name, c := range map[string]struct {
		status int
		answer string
		header []string
	}{
		"a failure about the token": {500, `{"error":"invalid_token"}`, nil},
		"success with an error":     {200, `{"error":"invalid_token"}`, nil},
		"an issuer":                 {200, googleAnswer(claims{"iss": "https://accounts.google.com"}), nil},
		"a nonce":                   {200, googleAnswer(claims{"nonce": "n"}), nil},
		"another type":              {200, googleAnswer(nil), []string{"Content-Type", "text/plain"}},
		"an odd type":               {200, googleAnswer(nil), []string{"Content-Type", ";"}},
		"too large, cut off":        {200, googleAnswer(nil) + strings.Repeat(" ", 64<<10), nil},
	} {
		p.says(c.status, c.answer, c.header...)
		if _, err := p.guard().Verify(t.Context(), p.token(0)); err == nil {
			t.Errorf("%s is accepted", name)
		}
		wantVerdict(t, p.guard(), p.token(0), middleware.ErrUnavailable)
	}
	p.says(http.StatusOK, googleAnswer(nil))
	wantVerdict(t, p.guard(), "ya29.a.b-c_d.0000000000000000000000", nil) // dots are a part of tokens
}

// TestAddressesOfProviders checks that a client id stays one segment of the path.
func TestAddressesOfProviders(t *testing.T) {
	const odd = "a/../b?c"
	p := startProvider(t, middleware.GitHub)
	p.says(http.StatusOK, githubAnswer(claims{"app": claims{"client_id": odd}}))
	guard := p.guard(func(i *middleware.Issuer, a *middleware.Introspection, _ *middleware.Config) {
		i.Audiences, a.ClientID, a.Endpoint = []string{odd}, odd, a.Endpoint+"/api/"
	})
	wantVerdict(t, guard, githubToken, nil)
	if got := p.requests[0].RequestURI; got != "/api/applications/a%2F..%2Fb%3Fc/token" {
		t.Errorf("the provider was asked at %s", got)
	}
}

// TestLimitsOfQuestions makes a guard that may ask once in an hour, and lets a provider name a time
// that does not exist.
func TestLimitsOfQuestions(t *testing.T) {
	p, clock := startProvider(t, middleware.GitHub), newClock()
	p.isStatus(p.bounded(clock, 1), p.token(0), http.StatusNotFound, 0, 1)
	p.says(http.StatusForbidden, "{}", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "9223372036854775807")
	if status, after := retry(t, p.bounded(clock, 0), p.token(1)); status != http.StatusServiceUnavailable || after < 3600 || after > 3601 {
		t.Errorf("%d, Retry-After %d", status, after)
	}
	for name, change := range map[string]func(*middleware.Issuer, *middleware.Introspection){
		"Algorithms":       func(i *middleware.Issuer, _ *middleware.Introspection) { i.Algorithms = []string{"ES256"} },
		"Type":             func(i *middleware.Issuer, _ *middleware.Introspection) { i.Type = "JWT" },
		"ClientClaim":      func(i *middleware.Issuer, _ *middleware.Introspection) { i.ClientClaim = "azp" },
		"answers are fres": func(_ *middleware.Issuer, a *middleware.Introspection) { a.Fresh = -1 },
	} {
		one := middleware.Issuer{URL: "https://github.example.com", Profile: middleware.GitHub, InsecureNoAudience: true, Audiences: []string{githubClient}}
		asked := middleware.Introspection{ClientID: githubClient, ClientSecret: "secret", Opaque: true}
		change(&one, &asked)
		c := middleware.Config{Resource: resource, Issuers: []middleware.Issuer{one}, Introspection: map[string]middleware.Introspection{one.URL: asked}}
		if _, err := middleware.New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChosenIssuersHaveTheClock judges a token by the clock of the shared issuers that some are chosen
// from.
func TestChosenIssuersHaveTheClock(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	some, err := newIssuers(t, issuer, func(c *middleware.IssuersConfig) { c.Now = clock.Now }).Only(issuer.URL())
	if err != nil {
		t.Fatal(err)
	}
	guard, token := sharing(t, some, resource), issuer.Mint(claims{"aud": resource})
	passes(t, guard, withToken(token))
	clock.Advance(24 * time.Hour)
	refusedAs(t, guard, token, http.StatusUnauthorized)
}
