package authz

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/storage"
)

// Paths returns the paths of all endpoints.
func (s *Server) Paths() ([]string, error) {
	router, err := s.routes()
	if err != nil {
		return nil, err
	}
	return router.templates(), nil
}

// OnCompare makes compare replace the comparison of a password with a hash. It is called with
// the original comparison while the sign-in holds a place.
func (s *Server) OnCompare(compare func(hash, password string, matches func(hash, password string) bool) bool) {
	matches := s.passwords.matches
	s.passwords.matches = func(hash, password string) bool { return compare(hash, password, matches) }
}

// KeepHashes keeps the hashes of passwords as they are, which may be cheap in tests.
func (s *Server) KeepHashes() { s.passwords.outdated = func(string) bool { return false } }

// SignInsWaiting returns the number of sign-ins that wait for a place.
func (s *Server) SignInsWaiting() int { return s.passwords.queue.Waiting() }

// Hashing returns the number of passwords that are compared at a time.
func Hashing() int { return hashing() }

// SignInsMost returns the greatest number of sign-ins that wait.
func SignInsMost() int { return maxWaiting }

// WaitLong makes sign-ins wait for their places for longer than any test takes, so that a slow
// machine ends no wait.
func (s *Server) WaitLong() {
	s.passwords.wait = time.Hour
	for _, p := range s.providers.ordered {
		p.wait = time.Hour
	}
}

// AtProviderWaiting returns the number of sign-ins that wait for a place at a provider.
func (s *Server) AtProviderWaiting(id string) int { return s.providers.byID[id].places.Waiting() }

// AtProviderMost returns the greatest number of sign-ins for which one provider is asked at a time.
func AtProviderMost() int { return providerPlaces }

// finishing is a provider that calls a function around each [upstream.Client.Finish].
type finishing struct {
	speaker
	around func() (done func())
}

func (f finishing) Finish(ctx context.Context, a upstream.Attempt, b upstream.Callback) (upstream.Arrival, error) {
	defer f.around()()
	return f.speaker.Finish(ctx, a, b)
}

// OnFinish makes a provider call around while it is asked who came back, and the function that it
// returns afterwards. The sign-in holds a place meanwhile.
func (s *Server) OnFinish(id string, around func() (done func())) {
	p := s.providers.byID[id]
	p.client = finishing{p.client, around}
}

// LookOut checks for access to the public web, as Run does periodically.
func (s *Server) LookOut(ctx context.Context) { s.egress.look(ctx) }

// NextLook returns the time that Run would wait before the next check.
func (s *Server) NextLook() time.Duration { return s.egress.wait() }

// SetProviders makes c one with these providers.
func (c *Config) SetProviders(ids ...string) {
	for _, id := range ids {
		c.Providers = append(c.Providers, upstream.Provider{
			ID: id, Issuer: "https://login.example.com", ClientID: "gatehouse", ClientSecret: "secret", Allow: upstream.Allow{Anybody: true},
		})
	}
}

// RecheckDue asks the providers about everybody who is due, as Run does periodically.
func (s *Server) RecheckDue(ctx context.Context) error { return s.latest.Load().recheckDue(ctx) }

// RecheckPause returns the interval at which Run calls it, and whether it does.
func (s *Server) RecheckPause() (time.Duration, bool) { return s.providers.recheckPause() }

// DoChores does the work that requests left behind, as Run does periodically.
func (s *Server) DoChores(ctx context.Context) { s.chores.runOnce(ctx) }

// RememberHolder lets the server believe that a session is that of a person.
func (s *Server) RememberHolder(session string, u storage.User) {
	s.holders.put(session, holder{u.Name, u.Subject})
}

// HoldersAfter remembers that many sessions, and returns how many are left, and whether the last is.
func HoldersAfter(n int) (left int, last bool) {
	var h holders
	for i := range n {
		h.put(strconv.Itoa(i), holder{"u", "s"})
	}
	_, last = h.of(strconv.Itoa(n - 1))
	return len(h.young) + len(h.old), last
}

// ReapClients removes the clients that nobody uses, as Run does periodically.
func (s *Server) ReapClients(ctx context.Context) error {
	_, err := s.chores.latest().Reap(ctx)
	return err
}

// First counts a request with precedence until the function that it returns is called.
func (s *Server) First() (end func()) { return s.requests.precedence.begin() }

// Firsts returns the number of requests with precedence.
func (s *Server) Firsts() int {
	s.requests.precedence.mu.Lock()
	defer s.requests.precedence.mu.Unlock()
	return s.requests.precedence.first
}

// TokenAnswer returns an answer of the token endpoint as the server writes it, and as encoding/json does.
func TokenAnswer(access, refresh, scope string, expires int64) (own, library []byte, err error) {
	t := tokenResponse{AccessToken: access, TokenType: "Bearer", ExpiresIn: expires, RefreshToken: refresh, Scope: scope}
	library, err = json.Marshal(t)
	return t.append(nil), library, err
}

// CookieNamed returns what the server reads of the cookies of a request.
func CookieNamed(r *http.Request, name string) (first string, n int) { return cookieNamed(r, name) }

// SetCookie sets a cookie as the server does.
func SetCookie(w http.ResponseWriter, name, value string, seconds int, secure bool) {
	setCookie(w, name, value, seconds, secure)
}
