package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/authz"
)

// otherProvider is the label of a provider that was not configured at the start.
const otherProvider = "other"

// providers counts requests to providers.
type providers struct {
	requests map[[2]string]prometheus.Counter // by provider and outcome
	took     map[string]prometheus.Observer
}

// newProviders adds the metrics of the providers with these ids.
func newProviders(m *Registry, ids []string) providers {
	ids = append([]string{otherProvider}, ids...)
	values := map[[2]string][]string{}
	for _, id := range ids {
		for _, outcome := range outcomes {
			values[[2]string{id, string(outcome)}] = []string{id, string(outcome)}
		}
	}
	return providers{
		requests: counters(m, "gatehouse_provider_requests_total", "Requests to sign-in providers, for their documents and about people; aborted is one without an answer.", []string{"provider", "outcome"}, values),
		took:     histograms(m, "gatehouse_provider_request_duration_seconds", "Time to the header of the answer of a sign-in provider.", "provider", requestBuckets, ids...),
	}
}

// count counts a request.
func (p providers) count(o authz.Observation) {
	id, outcome := o.Provider, string(outcomeOf(o.Status))
	if !add(p.requests, [2]string{id, outcome}) {
		id = otherProvider
		add(p.requests, [2]string{id, outcome})
	}
	p.took[id].Observe(o.Took.Seconds())
}
