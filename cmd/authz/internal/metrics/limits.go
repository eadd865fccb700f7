package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/authz"
)

// limitCounters returns a counter for each limit.
func limitCounters(m *Registry) map[authz.Limit]prometheus.Counter {
	values := map[authz.Limit][]string{}
	for _, name := range authz.LimitNames() {
		values[name] = []string{string(name)}
	}
	return counters(m, "gatehouse_limited_total", "Requests that a limit refused, by the limit.", []string{"limit"}, values)
}
