package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/authz"
	"gatehouse.example/safefetch"
)

type (
	answer  struct{ endpoint, outcome string }
	refusal struct{ grant, code string }
	signIn  struct {
		method  authz.SignInMethod
		refused bool
	}
)

// Server counts what an authorization server does.
type Server struct {
	answers   map[answer]prometheus.Counter
	durations map[authz.Endpoint]prometheus.Observer
	issued    map[authz.GrantType]prometheus.Counter
	refused   map[refusal]prometheus.Counter
	replays   map[authz.What]prometheus.Counter
	signIns   map[signIn]prometheus.Counter
	fetches   map[error]prometheus.Counter
	fetching  prometheus.Observer
	limited   map[authz.Limit]prometheus.Counter
	providers *providers
}

// noGrant and otherCode are the labels of refusals that are not of the token endpoint, and of
// codes that are not among [authz.Codes].
const (
	noGrant   = "none"
	otherCode = "other"
)

// NewServer adds the metrics of an authorization server, where people sign in at the providers with
// these ids.
func NewServer(m *Registry, ids ...string) *Server {
	s := &Server{
		providers: newProviders(m, ids),
		durations: histograms(m, "gatehouse_request_duration_seconds", "Time from the header of a request to the end of its answer.", "endpoint", requestBuckets, authz.Endpoints()...),
		issued: counters(m, "gatehouse_tokens_issued_total", "Answers with tokens.", []string{"grant_type"}, map[authz.GrantType][]string{
			authz.GrantCode: {string(authz.GrantCode)}, authz.GrantRefresh: {string(authz.GrantRefresh)},
		}),
		replays: counters(m, "gatehouse_replays_total", "Tokens and codes that were used again: harmless ones (refresh_repeated, refresh_recovered), and those that ended a grant (refresh_reused, code_reused).",
			[]string{"kind"}, map[authz.What][]string{
				authz.RefreshRepeated: {"refresh_repeated"}, authz.RefreshRecovered: {"refresh_recovered"},
				authz.RefreshReused: {"refresh_reused"}, authz.CodeReused: {"code_reused"},
			}),
	}
	s.addAnswers(m)
	s.addRefusals(m)
	s.addSignIns(m)
	s.addFetches(m)
	s.limited = limitCounters(m)
	return s
}

// Providers adds series for the providers with these ids, which a reload brought.
func (s *Server) Providers(ids ...string) { s.providers.add(ids) }

func (s *Server) addAnswers(m *Registry) {
	values := map[answer][]string{}
	for _, endpoint := range authz.Endpoints() {
		for _, outcome := range outcomes {
			values[answer{string(endpoint), string(outcome)}] = []string{string(endpoint), string(outcome)}
		}
	}
	s.answers = counters(m, "gatehouse_requests_total", "Requests by endpoint and outcome.", []string{"endpoint", "outcome"}, values)
}

func (s *Server) addRefusals(m *Registry) {
	values := map[refusal][]string{}
	for _, grant := range []string{noGrant, string(authz.GrantCode), string(authz.GrantRefresh)} {
		for _, code := range append(authz.Codes(), otherCode) {
			values[refusal{grant, code}] = []string{grant, code}
		}
	}
	s.refused = counters(m, "gatehouse_refused_total", "Requests that got an error code, with the grant type of those to the token endpoint.", []string{"grant_type", "code"}, values)
}

func (s *Server) addSignIns(m *Registry) {
	values := map[signIn][]string{}
	for _, method := range []authz.SignInMethod{authz.SignInPassword, authz.SignInCode, authz.SignInPasskey, authz.SignInProvider} {
		values[signIn{method, true}] = []string{string(method), "refused"}
		if method != authz.SignInCode { // it is the end of a sign-in with a password
			values[signIn{method, false}] = []string{string(method), "signed_in"}
		}
	}
	s.signIns = counters(m, "gatehouse_sign_ins_total", "Sign-ins of people by method and outcome; those that had to wait are requests with the outcome limited.", []string{"method", "outcome"}, values)
}

func (s *Server) addFetches(m *Registry) {
	s.fetches = counters(m, "gatehouse_fetches_total", "Documents, keys and logos that were fetched for clients, by outcome.", []string{"outcome"}, map[error][]string{
		nil: {"ok"}, safefetch.ErrRefused: {"refused"}, safefetch.ErrBusy: {"busy"}, safefetch.ErrStatus: {"status"},
		safefetch.ErrMediaType: {"media_type"}, safefetch.ErrTooLarge: {"too_large"}, safefetch.ErrMalformed: {"malformed"}, errOther: {"other"},
	})
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gatehouse_fetch_duration_seconds", Help: "Time of a fetch for a client.", Buckets: requestBuckets})
	m.MustRegister(duration)
	s.fetching = duration
}

// Observe counts an observation. It is an [authz.Config] Observe.
func (s *Server) Observe(o authz.Observation) {
	switch o.What {
	case authz.Answered:
		add(s.answers, answer{string(o.Endpoint), string(outcomeOf(o.Status))})
		if duration := s.durations[o.Endpoint]; duration != nil {
			duration.Observe(o.Took.Seconds())
		}
	case authz.TokensIssued:
		add(s.issued, o.Grant)
	case authz.Refused:
		s.countRefusal(o)
	case authz.SignedIn, authz.SignInRefused:
		add(s.signIns, signIn{o.Method, o.What == authz.SignInRefused})
	case authz.LimitReached:
		add(s.limited, o.Limit)
	case authz.ProviderAsked:
		s.providers.count(o)
	default:
		add(s.replays, o.What)
	}
}

func (s *Server) countRefusal(o authz.Observation) {
	grant := string(o.Grant)
	if grant == "" {
		grant = noGrant
	}
	if !add(s.refused, refusal{grant, o.Code}) {
		add(s.refused, refusal{grant, otherCode})
	}
}

// add counts one, and reports whether there is such a series.
func add[K comparable](all map[K]prometheus.Counter, key K) bool {
	one, ok := all[key]
	if ok {
		one.Inc()
	}
	return ok
}

// errOther stands for an error that is none of the sentinels of safefetch.
var errOther = errors.New("other")

// Fetched counts a fetch. It is a [safefetch.Config] Observe.
func (s *Server) Fetched(err error, took time.Duration) {
	var known *safefetch.Error
	switch {
	case err == nil:
	case errors.As(err, &known):
		err = known.Err
	default:
		err = errOther
	}
	if !add(s.fetches, err) {
		add(s.fetches, errOther)
	}
	if !errors.Is(err, safefetch.ErrBusy) {
		s.fetching.Observe(took.Seconds())
	}
}
