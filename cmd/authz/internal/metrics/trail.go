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
	counter("gatehouse_audit_disturbed_total", "Changes of the file of the audit trail by somebody else.", func(f trail.Figures) uint64 { return f.Disturbed })
	whether := func(name, help string, is func(trail.Figures) bool) {
		m.gauge(name, help, func() float64 {
			if is(figures()) {
				return 1
			}
			return 0
		})
	}
	whether("gatehouse_audit_failing", "Whether the audit trail cannot be written: its lines wait in memory.", func(f trail.Figures) bool { return f.Failing })
	whether("gatehouse_audit_head_failing", "Whether the last line of the audit trail cannot be kept outside its file, or another process keeps one.", func(f trail.Figures) bool { return f.HeadFailing })
}
