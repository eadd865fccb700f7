package authz

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
	"gatehouse.example/templates/language"
)

// Limits are how many requests are answered in a minute, in each process. Each may come at once after
// a pause. Of an address is meant the address of IPv4, or the /64 of IPv6; the networks around it have
// twice and four times as many. Requests beyond a limit get 429 with Retry-After, before anything else
// is done. Zero is the default, and negative no limit.
//
// Sign-ins and registrations have further limits, which hold for all processes together.
type Limits struct {
	// Token is for the token and revocation endpoints, from one address. Default 600000.
	Token int
	// Introspection is for the introspection endpoint, from one address. Default 1200000.
	Introspection int
	// Registration is for the registration endpoints, from one address, whatever becomes of the
	// requests. Default 600000.
	Registration int
	// Documents is for the metadata and the keys, from one address. Default 6000000.
	Documents int
	// Pages is for everything that browsers open, from one address. Default 600000.
	Pages int
	// Client is for the token endpoint, of one client from one address, and four times as many of a
	// client with credentials from everywhere. Default 600000.
	Client int
}

// limitPeriod is the time for which [Limits] are given.
const limitPeriod = time.Minute

// withDefaults fills in the defaults.
func (l Limits) withDefaults() Limits {
	for of, usual := range map[*int]int{
		&l.Token: 600_000, &l.Introspection: 1_200_000, &l.Registration: 600_000, &l.Documents: 6_000_000, &l.Pages: 600_000, &l.Client: 600_000,
	} {
		if *of == 0 {
			*of = usual
		}
	}
	return l
}

// mistake returns an error if a limit is too high for its arithmetic.
func (l Limits) mistake() error {
	for _, n := range l.byName() {
		if n > math.MaxInt32 {
			return fmt.Errorf("authz: limit %d: it must be at most %d", n, math.MaxInt32)
		}
	}
	return nil
}

// Limit names a limit, in an [Observation].
type Limit string

// The limits. Those before LimitSignIn are of [Limits].
const (
	LimitToken         Limit = "token"
	LimitIntrospection Limit = "introspection"
	LimitRegistration  Limit = "registration"
	LimitDocuments     Limit = "documents"
	LimitPages         Limit = "pages"
	LimitClient        Limit = "client"
	// LimitSignIn is that on wrong passwords and passkeys, LimitCode that on wrong second factors.
	LimitSignIn Limit = "sign_in"
	LimitCode   Limit = "code"
	// LimitSecret is that on wrong secrets of clients and resource servers.
	LimitSecret Limit = "secret"
	// LimitProvider is that on answers and logouts of providers that are not valid.
	LimitProvider Limit = "provider"
	// LimitClients is that on clients that register, of [Config].RegistrationQuota. LimitSoftware is
	// the part of one software in it.
	LimitClients  Limit = "clients"
	LimitSoftware Limit = "software"
	// LimitLarge is that on authorization requests that are too large for a cookie.
	LimitLarge Limit = "large"
)

// LimitNames returns every value of [Limit].
func LimitNames() []Limit {
	return []Limit{
		LimitToken, LimitIntrospection, LimitRegistration, LimitDocuments, LimitPages, LimitClient,
		LimitSignIn, LimitCode, LimitSecret, LimitProvider, LimitClients, LimitSoftware, LimitLarge,
	}
}

func (l Limits) byName() map[Limit]int {
	return map[Limit]int{
		LimitToken: l.Token, LimitIntrospection: l.Introspection, LimitRegistration: l.Registration,
		LimitDocuments: l.Documents, LimitPages: l.Pages, LimitClient: l.Client,
	}
}

// requestLimiter counts requests. Each kind of endpoint has a limiter and places of its own, so that a
// flood at one takes nothing of another.
type requestLimiter struct {
	limiters   map[Limit]*fair.Limiter
	places     map[Limit]*fair.Queue
	precedence precedence
}

// The requests of a kind that are worked on at a time for each processor, and those that wait for
// their turn. Anybody may register, so registrations have fewer. They mostly wait for the store, and
// those that are there together share round trips: with few places each costs more, and a flood of them
// takes more from others. One that waits for its turn holds a connection and several kilobytes, and a
// program comes back by itself.
const (
	placesEach       = 32
	placesClient     = 16
	placesWait       = 1024
	placesWaitClient = 128
)

func newRequestLimiter(now func() time.Time) *requestLimiter {
	l := &requestLimiter{limiters: map[Limit]*fair.Limiter{}, places: map[Limit]*fair.Queue{}}
	for name := range (Limits{}).byName() {
		l.limiters[name] = fair.NewLimiter(now)
	}
	processors := runtime.GOMAXPROCS(0)
	programs := placesEach * processors
	l.places[LimitToken], l.places[LimitIntrospection] = fair.NewQueue(programs, placesWait), fair.NewQueue(programs, placesWait)
	l.places[LimitRegistration] = fair.NewQueue(placesClient*processors, placesWaitClient)
	return l
}

// takeRequest counts a request against a limit of this configuration, and returns how long it has to
// wait.
func (s *Server) takeRequest(name Limit, each int, buckets func(each fair.Limit) []fair.Bucket) time.Duration {
	if each < 0 {
		return 0
	}
	return s.requests.limiters[name].Take(1, buckets(fair.Limit{Burst: int64(each), Per: limitPeriod})...)
}

// ofNetwork returns a function that counts a request for the address that sends it.
func (s *Server) ofNetwork(name Limit) func(r *http.Request) time.Duration {
	each := s.cfg.Limits.byName()[name]
	return func(r *http.Request) time.Duration {
		return s.takeRequest(name, each, func(each fair.Limit) []fair.Bucket {
			return fair.ByNetwork(fair.Requester(r.Context()), "requests", each)
		})
	}
}

// limited returns a handler that answers programs within a limit.
func (s *Server) limited(name Limit, next http.Handler) http.Handler {
	take := s.ofNetwork(name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := take(r); wait > 0 {
			noStore(w.Header())
			if name == LimitDocuments {
				w.Header().Set("Access-Control-Allow-Origin", "*") // as the documents themselves
			}
			s.writeAPIError(w, r, tooManyRequests(name, wait, "too many requests came from your network; try again later"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limitedPage returns a handler that answers browsers within a limit.
func (s *Server) limitedPage(next http.Handler) http.Handler {
	take := s.ofNetwork(LimitPages)
	next = s.yielding(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := take(r); wait > 0 {
			s.pageHeaders(w.Header())
			s.writePageError(w, r, &displayedError{
				status: http.StatusTooManyRequests, code: codeUnavailable, retryAfter: wait, limit: LimitPages,
				title: language.Say("error.busy.title"), message: language.Say("error.busy.message"), steps: []language.Text{language.Say("step.reloadMinute")},
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// placed returns a handler with a bound on the requests of a kind that are worked on at a time. The
// others wait, in turns by network.
func (s *Server) placed(name Limit, next http.Handler) http.Handler {
	queue := s.requests.places[name]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, err := queue.Enter(r.Context(), "", fair.Requester(r.Context()))
		if err != nil {
			noStore(w.Header())
			s.writeAPIError(w, r, errors.Join(fair.ErrBusy, err))
			return
		}
		defer leave()
		next.ServeHTTP(&placedWriter{w, leave}, r)
	})
}

// placedWriter gives the place of a request back before the answer is sent, because how long sending
// takes is up to the client.
type placedWriter struct {
	http.ResponseWriter
	leave func()
}

// Write implements [http.ResponseWriter].
func (p *placedWriter) Write(b []byte) (int, error) {
	p.leave()
	return p.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (p *placedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// unlessFull returns a handler that refuses registrations while the limits on them are known to be
// reached.
func (s *Server) unlessFull(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := s.registering.full(r.Context()); wait > 0 {
			noStore(w.Header())
			s.writeAPIError(w, r, tooManyRequests(LimitClients, wait, "too many clients were registered; try again later"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// clientLimit counts a request of a client at the token endpoint. A public client is whoever says
// so: its requests count for an address only, so that nobody uses up the limit of others.
func (s *Server) clientLimit(r *http.Request, client storage.Client) error {
	wait := s.takeRequest(LimitClient, s.cfg.Limits.Client, func(each fair.Limit) []fair.Bucket {
		buckets := []fair.Bucket{{Key: "client " + client.ID + " from " + fair.Networks(fair.Requester(r.Context()))[0], Limit: each}}
		if !dcr.Public(client) {
			buckets = append(buckets, fair.Bucket{Key: "client " + client.ID, Limit: fair.Limit{Burst: 4 * each.Burst, Per: each.Per}})
		}
		return buckets
	})
	if wait > 0 {
		return tooManyRequests(LimitClient, wait, "this client sends too many requests; try again later")
	}
	return nil
}

func tooManyRequests(name Limit, wait time.Duration, description string) *apiError {
	return &apiError{status: http.StatusTooManyRequests, code: codeUnavailable, retryAfter: wait, limit: name, description: description}
}

// sawLimit reports a request that a limit refused.
func (s *Server) sawLimit(name Limit) {
	if name != "" {
		s.see(Observation{What: LimitReached, Limit: name})
	}
}
