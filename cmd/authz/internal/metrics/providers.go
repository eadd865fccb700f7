package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/authz"
)

// otherProvider is the label of a provider beyond mostProviders.
const otherProvider = "other"

// mostProviders bounds the providers with series of their own, those that were taken out by a reload
// included: Prometheus keeps what it has seen.
const mostProviders = 64

// providers counts requests to providers.
type providers struct {
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec

	adding sync.Mutex
	known  atomic.Pointer[map[string]providerSeries] // never changed, but replaced
}

// providerSeries are the series of one provider.
type providerSeries struct {
	requests map[Outcome]prometheus.Counter
	took     prometheus.Observer
}

// newProviders adds the metrics of the providers with these ids.
func newProviders(m *Registry, ids []string) *providers {
	p := &providers{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_provider_requests_total", Help: "Requests to sign-in providers, for their documents and about people; aborted is one without an answer.",
		}, []string{"provider", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gatehouse_provider_request_duration_seconds", Help: "Time to the header of the answer of a sign-in provider.", Buckets: requestBuckets,
		}, []string{"provider"}),
	}
	m.MustRegister(p.requests, p.took)
	p.known.Store(&map[string]providerSeries{})
	p.add(append([]string{otherProvider}, ids...))
	return p
}

// add gives providers series of their own, while there is room for more.
func (p *providers) add(ids []string) {
	p.adding.Lock()
	defer p.adding.Unlock()
	known := maps.Clone(*p.known.Load())
	for _, id := range ids {
		if _, there := known[id]; there || len(known) > mostProviders {
			continue
		}
		one := providerSeries{requests: map[Outcome]prometheus.Counter{}, took: p.took.WithLabelValues(id)}
		for _, outcome := range outcomes {
			one.requests[outcome] = p.requests.WithLabelValues(id, string(outcome))
		}
		known[id] = one
	}
	p.known.Store(&known)
}

// count counts a request.
func (p *providers) count(o authz.Observation) {
	known := *p.known.Load()
	one, ok := known[o.Provider]
	if !ok {
		one = known[otherProvider]
	}
	one.requests[outcomeOf(o.Status)].Inc()
	one.took.Observe(o.Took.Seconds())
}
