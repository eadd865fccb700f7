package authz_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/authz"
)

// sightings counts observations by what they say.
type sightings struct {
	ended  func() // waits for the handlers of what was answered
	mu     sync.Mutex
	counts map[string]int
}

func (c *sightings) observe(o authz.Observation) {
	key := map[authz.What]string{
		authz.Answered:     fmt.Sprintf("%s %d", o.Endpoint, o.Status),
		authz.TokensIssued: "issued " + string(o.Grant), authz.Refused: "refused " + string(o.Grant) + " " + o.Code,
		authz.RefreshRepeated: "repeated", authz.RefreshRecovered: "recovered", authz.RefreshReused: "reused", authz.CodeReused: "code reused",
		authz.SignedIn: "signed in " + string(o.Method), authz.SignInRefused: "not signed in " + string(o.Method),
	}[o.What]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[key]++
}

// taken returns the counts since the last call, as sorted lines.
func (c *sightings) taken() string {
	c.ended()
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for key, n := range c.counts {
		lines = append(lines, fmt.Sprintf("%s: %d", key, n))
	}
	slices.Sort(lines)
	c.counts = map[string]int{}
	return strings.Join(lines, "\n")
}

func observed(t *testing.T, issuer string) (*harness, *sightings) {
	t.Helper()
	counts := &sightings{counts: map[string]int{}}
	h := newHarness(t, setup{issuer: issuer, config: func(c *authz.Config) { c.Observe = counts.observe }})
	counts.ended = h.handling.wait
	counts.taken()
	return h, counts
}

// want compares the counts since the last call.
func (c *sightings) want(t *testing.T, what string, lines ...string) {
	t.Helper()
	slices.Sort(lines)
	if got := c.taken(); got != strings.Join(lines, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, strings.Join(lines, "\n"))
	}
}

// TestObservations: each thing that happens is counted once, and nothing else is.
func TestObservations(t *testing.T) {
	t.Parallel()
	for _, issuer := range []string{secureIssuer, "https://example.com/auth"} {
		t.Run(issuer, func(t *testing.T) {
			t.Parallel()
			h, seen := observed(t, issuer)
			c := testClients()["native"]
			held := h.tokens(c)
			seen.want(t, "a code flow", "/authorize 303: 1", "/login 200: 1", "/login 303: 1", "/consent 200: 1", "/consent 303: 1", "/token 200: 1",
				"signed in password: 1", "issued authorization_code: 1")
			next := h.toToken(c, refreshing(c, held.refresh)).member(t, "refresh_token")
			seen.want(t, "a refresh", "/token 200: 1", "issued refresh_token: 1")
			h.toToken(c, refreshing(c, held.refresh))
			seen.want(t, "a refresh that is sent again", "/token 200: 1", "issued refresh_token: 1", "repeated: 1")
			h.toToken(c, refreshing(c, next))
			seen.taken()
			h.toToken(c, refreshing(c, held.refresh))
			seen.want(t, "an old refresh token", "/token 400: 1", "refused refresh_token invalid_grant: 1", "reused: 1")
			h.toToken(c, refreshing(c, held.refresh))
			seen.want(t, "the same after its grant ended", "/token 400: 1", "refused refresh_token invalid_grant: 1")
			again := h.tokens(c)
			seen.taken()
			h.toToken(c, redemption(c, again.code))
			seen.want(t, "a code that was used", "/token 400: 1", "refused authorization_code invalid_grant: 1", "code reused: 1")
			h.toToken(c, form("grant_type", "password"))
			seen.want(t, "a grant type that is not known", "/token 400: 1", "refused  unsupported_grant_type: 1")
		})
	}
}

// TestObservationsOfPeopleAndClients: refused sign-ins and registrations are counted, and answers
// without a handler or a method.
func TestObservationsOfPeopleAndClients(t *testing.T) {
	t.Parallel()
	h, seen := observed(t, "")
	b, c := h.newBrowser(), testClients()["native"]
	b.open("/authorize?" + asks(c).Encode())
	b.follow()
	seen.taken()
	b.submit("username", personName, "password", "wrong password")
	seen.want(t, "a wrong password", "/login 403: 1", "not signed in password: 1")
	h.registration(`{"redirect_uris": ["http://example.com/"]}`)
	seen.want(t, "a registration that is refused", "/register 400: 1", "refused  invalid_redirect_uri: 1")
	h.send(h.newRequest(http.MethodGet, "/nowhere/at/all", nil))
	h.send(h.newRequest("BREW", "/token", nil))
	h.send(h.newRequest(http.MethodGet, "/register/made-up-by-a-client", nil))
	h.send(h.newRequest(http.MethodGet, "/.well-known/oauth-authorization-server", nil))
	seen.want(t, "other requests", "other 404: 1", "/token 405: 1", "/register/{id} 401: 1", "refused  invalid_token: 1", "metadata 200: 1")
}

// TestEveryRouteHasAnEndpoint: every path that a server can have is among the endpoints, so that
// none of its requests is counted as other.
func TestEveryRouteHasAnEndpoint(t *testing.T) {
	t.Parallel()
	paths, err := newHarness(t, setup{}).handler.Load().Paths()
	if err != nil {
		t.Fatal(err)
	}
	paths = append(paths, "/pages/logo", "/login/{provider}/logout")
	for _, path := range paths {
		known := slices.Contains(authz.Endpoints(), authz.Endpoint(path)) || strings.HasPrefix(path, "/.well-known/")
		if !known {
			t.Errorf("%s is not among authz.Endpoints", path)
		}
	}
	for _, endpoint := range authz.Endpoints() {
		if endpoint != authz.EndpointMetadata && endpoint != authz.EndpointOther && !slices.Contains(paths, string(endpoint)) {
			t.Errorf("%s is not a path of the server", endpoint)
		}
	}
}

// TestAnAnswerThatIsCutOffIsObserved: it has no status, and the time that it took.
func TestAnAnswerThatIsCutOffIsObserved(t *testing.T) {
	t.Parallel()
	h, seen := observed(t, "")
	r := httptest.NewRequest(http.MethodGet, h.issuer+"/healthz", nil)
	func() {
		defer func() { _ = recover() }()
		h.handler.Load().ServeHTTP(abortingWriter{httptest.NewRecorder()}, r)
	}()
	seen.want(t, "a request that is cut off", "/healthz 0: 1")
}

// abortingWriter ends the request as a lost connection does.
type abortingWriter struct{ http.ResponseWriter }

func (abortingWriter) WriteHeader(int) { panic(http.ErrAbortHandler) }

// TestObservationsOfProviders: each request to a provider is reported, for its documents and about
// a person.
func TestObservationsOfProviders(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	p := newAtProvider(t, func(c *authz.Config) {
		c.Observe = func(o authz.Observation) {
			mu.Lock()
			defer mu.Unlock()
			if o.What == authz.ProviderAsked {
				asked[fmt.Sprint(o.Provider, " ", o.Status)]++
			}
		}
	})
	p.company.SignIn(personOf("1", "ada@example.com"))
	p.newBrowser().arrive(p.company, "company", asks(testClients()["native"]))
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 1 || asked["company 200"] < 3 { // metadata, keys and the token
		t.Errorf("asked: %v", asked)
	}
}
