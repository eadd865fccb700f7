package metrics

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/middleware"
)

// Gateway counts what a gateway does for one resource.
type Gateway struct {
	decisions map[decision]prometheus.Counter
	answers   map[Outcome]prometheus.Counter
	duration  prometheus.Observer
}

// decision is a status and an error code. An allowed request has neither.
type decision struct {
	status int
	code   string
}

// decided are the decisions of a guard. Others count as the code other under their class.
var decided = []decision{
	{0, ""}, {http.StatusUnauthorized, ""}, {http.StatusUnauthorized, "invalid_token"}, {http.StatusForbidden, ""},
	{http.StatusUnauthorized, "invalid_dpop_proof"}, {http.StatusUnauthorized, "use_dpop_nonce"},
	{http.StatusForbidden, "insufficient_scope"}, {http.StatusBadRequest, ""}, {http.StatusBadRequest, "invalid_request"},
	{http.StatusServiceUnavailable, ""},
}

// otherStatuses are those of decisions that are not among decided.
const (
	otherRefusal = 400
	otherFailure = 500
)

// Gateways are the metrics of all resources of a gateway.
type Gateways struct {
	// Client asks issuers, and counts that.
	Client *http.Client

	decisions, answers *prometheus.CounterVec
	durations          *prometheus.HistogramVec
	keys               *prometheus.GaugeVec
}

// NewGateways adds the metrics of a gateway.
func NewGateways(m *Registry) *Gateways {
	g := &Gateways{
		Client: &http.Client{Transport: newAsking(m, http.DefaultTransport)},
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_gateway_decisions_total", Help: "Requests that were allowed (status and code are empty) or refused, by status and error code.",
		}, []string{"resource", "status", "code"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_gateway_upstream_answers_total", Help: "Answers of the upstream; aborted is a request without one.",
		}, []string{"resource", "outcome"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gatehouse_gateway_upstream_duration_seconds", Help: "Time from sending a request to the header of the answer of the upstream.", Buckets: requestBuckets,
		}, []string{"resource"}),
	}
	g.keys = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gatehouse_gateway_keys_fetched_timestamp_seconds", Help: "When the keys of an issuer were last fetched, 0 for not yet.",
	}, []string{"issuer"})
	m.MustRegister(g.decisions, g.answers, g.durations, g.keys)
	return g
}

// Resource adds the series of one resource. Its name comes from the configuration.
func (g *Gateways) Resource(name string) *Gateway {
	r := &Gateway{decisions: map[decision]prometheus.Counter{}, answers: map[Outcome]prometheus.Counter{}, duration: g.durations.WithLabelValues(name)}
	for _, d := range decided {
		status := ""
		if d.status != 0 {
			status = strconv.Itoa(d.status)
		}
		r.decisions[d] = g.decisions.WithLabelValues(name, status, d.code)
	}
	for _, status := range []int{otherRefusal, otherFailure} {
		r.decisions[decision{status, otherCode}] = g.decisions.WithLabelValues(name, strconv.Itoa(status)[:1]+"xx", otherCode)
	}
	for _, outcome := range outcomes {
		r.answers[outcome] = g.answers.WithLabelValues(name, string(outcome))
	}
	return r
}

// Issuer adds the series of an issuer. Its URL comes from the configuration.
func (g *Gateways) Issuer(url string) { g.keys.WithLabelValues(url) }

// FetchedKeys notes when the keys of an issuer were fetched. It is a [middleware.Config]
// ObserveKeyFetch, so the issuer is one of the configuration.
func (g *Gateways) FetchedKeys(ctx context.Context, issuer string) (context.Context, func(error)) {
	return ctx, func(err error) {
		if err == nil {
			g.keys.WithLabelValues(issuer).SetToCurrentTime()
		}
	}
}

// Decided counts a decision. It is a [middleware.Config] Observe.
func (g *Gateway) Decided(_ *http.Request, e middleware.Event) {
	if add(g.decisions, decision{e.Status, e.Code}) {
		return
	}
	class := otherRefusal
	if e.Status >= otherFailure {
		class = otherFailure
	}
	add(g.decisions, decision{class, otherCode})
}

// Forwarded counts a request to the upstream by the status of its answer, 0 for none.
func (g *Gateway) Forwarded(status int, took time.Duration) {
	add(g.answers, outcomeOf(status))
	g.duration.Observe(took.Seconds())
}
