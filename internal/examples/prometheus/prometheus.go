// Package prometheus shows metrics of a guard of package middleware for Prometheus. All labels
// are bounded: reasons come from a closed list, issuers and routes from the configuration.
package prometheus

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/middleware"
)

// Watch registers the metrics of a guard, and sets the hooks of its configuration.
func Watch(config *middleware.Config, registry prometheus.Registerer) {
	decisions := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "guard_decision_seconds", Help: "Time of the guard for a request, by reason and route.",
		Buckets: []float64{.0001, .001, .01, .1, 1, 10},
	}, []string{"reason", "route"})
	issuers := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "guard_issuer_seconds", Help: "Time of requests to issuers, by what they were for.",
	}, []string{"work", "issuer", "result"})
	registry.MustRegister(decisions, issuers)

	config.Observe = func(_ *http.Request, e middleware.Event) {
		decisions.WithLabelValues(string(e.Reason), e.Route).Observe(e.Took.Seconds())
	}
	timed := func(work string) middleware.Hook {
		return func(ctx context.Context, issuer string) (context.Context, func(error)) {
			began := time.Now()
			return ctx, func(err error) {
				result := "ok"
				if err != nil {
					result = "failed"
				}
				issuers.WithLabelValues(work, issuer, result).Observe(time.Since(began).Seconds())
			}
		}
	}
	config.ObserveKeyFetch, config.ObserveIntrospection = timed("keys"), timed("introspection")
}
