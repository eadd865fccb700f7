package metrics

import "github.com/prometheus/client_golang/prometheus"

// Reloads are what became of reloads of the settings since the start. A reload that is Refused has
// changed nothing, and Failing says that the last one was.
type Reloads struct {
	Done, Refused uint64
	Failing       bool
}

// CountReloads adds the figures of reloads.
func CountReloads(m *Registry, read func() Reloads) {
	const name, help = "gatehouse_reloads_total", "Reloads of the settings; a refused one changed nothing."
	for outcome, value := range map[string]func(Reloads) uint64{
		"done": func(r Reloads) uint64 { return r.Done }, "refused": func(r Reloads) uint64 { return r.Refused },
	} {
		opts := prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"outcome": outcome}}
		m.MustRegister(prometheus.NewCounterFunc(opts, func() float64 { return float64(value(read())) }))
	}
	m.gauge("gatehouse_reload_failing", "Whether the last reload of the settings was refused, so that other settings are in force than those in the file.",
		func() float64 {
			if read().Failing {
				return 1
			}
			return 0
		})
}
