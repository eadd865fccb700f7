package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/audit/trail"
)

// Trail adds the metrics of an audit trail.
func Trail(m *Registry, figures func() trail.Figures) {
	counter := func(name, help string, value func(trail.Figures) uint64) {
		m.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(figures())) }))
	}
	counter("gatehouse_audit_lines_total", "Lines of the audit trail.", func(f trail.Figures) uint64 { return f.Lines })
	counter("gatehouse_audit_lost_total", "Events that the audit trail lost because it could not be written.", func(f trail.Figures) uint64 { return f.Lost })
	m.gauge("gatehouse_audit_failing", "Whether the audit trail cannot be written: its lines wait in memory.", func() float64 {
		if figures().Failing {
			return 1
		}
		return 0
	})
}
