package main

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gatehouse.example/internal/quietlog"
	"gatehouse.example/registry/mirror"
)

// metrics answers Prometheus: how the catalogue is kept, and how the process does.
func (st *site) metrics(keeper *mirror.Mirror) http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&catalogueMetrics{status: keeper.Status, log: st.log},
	)
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorLog: quietlog.ServerLog(st.log.Handler())})
}

// catalogueMetrics reads the status of the catalogue whenever it is asked. It is the same in
// every process over one store.
type catalogueMetrics struct {
	status func(context.Context) (mirror.Status, error)
	log    *slog.Logger
}

// measure reads a value.
type measure func(mirror.Status) float64

// metric is one value of the status, with the value of its label if it has one.
type metric struct {
	*prometheus.Desc
	value measure
	label []string
}

func gauge(name, help string, value measure) metric {
	return metric{prometheus.NewDesc("gatehouse_registry_"+name, help, nil, nil), value, nil}
}

// labelled makes gauges that differ in a label.
func labelled(name, help, label string, values map[string]measure) (out []metric) {
	desc := prometheus.NewDesc("gatehouse_registry_"+name, help, []string{label}, nil)
	for text, value := range values {
		out = append(out, metric{desc, value, []string{text}})
	}
	return out
}

var readable = prometheus.NewDesc("gatehouse_registry_up", "Whether the store told how the catalogue is kept: the other metrics are missing if not.", nil, nil)

// statusMetrics are all of them. A time that never was is 0.
var statusMetrics = slices.Concat([]metric{
	gauge("servers", "Servers with a version that is not deleted.", func(s mirror.Status) float64 { return float64(s.Servers) }),
	gauge("own_servers", "Servers of our own.", func(s mirror.Status) float64 { return float64(s.Own) }),
	gauge("last_sync_timestamp_seconds", "When a round with the upstream ended well last.", func(s mirror.Status) float64 { return unix(s.LastSync) }),
	gauge("last_change_timestamp_seconds", "When readers were shown something new last.", func(s mirror.Status) float64 { return unix(s.CommittedAt) }),
	gauge("sync_running", "Whether a round is under way or was interrupted.", func(s mirror.Status) float64 { return whether(s.Running != nil) }),
	gauge("sync_failures", "How many rounds in a row did not end well.", func(s mirror.Status) float64 {
		if s.Failure == nil {
			return 0
		}
		return float64(s.Failure.Times)
	}),
	gauge("shrunken", "Whether nothing is removed until somebody says that the upstream may have lost so much.", func(s mirror.Status) float64 { return whether(s.Shrink != nil) }),
}, labelled("versions", "Versions of servers.", "state", map[string]measure{
	"listed":  func(s mirror.Status) float64 { return float64(s.Rows) },
	"deleted": func(s mirror.Status) float64 { return float64(s.Deleted) },
}), labelled("flagged_versions", "Versions of servers that somebody should look at.", "flag", map[string]measure{
	mirror.FlagChanged:  func(s mirror.Status) float64 { return float64(s.Changed) },
	mirror.FlagConflict: func(s mirror.Status) float64 { return float64(s.Conflicts) },
	mirror.FlagVanished: func(s mirror.Status) float64 { return float64(s.Vanished) },
	mirror.FlagShadowed: func(s mirror.Status) float64 { return float64(s.Shadowed) },
	mirror.FlagStatus:   func(s mirror.Status) float64 { return float64(s.UnknownStatus) },
}))

// unix is a time in seconds, 0 for the zero time.
func unix(t time.Time) float64 { return float64(max(t.Unix(), 0)) }

func whether(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Describe lists what there is.
func (c *catalogueMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- readable
	for _, m := range statusMetrics {
		descs <- m.Desc
	}
}

// Collect reads the status.
func (c *catalogueMetrics) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	status, err := c.status(ctx)
	metrics <- prometheus.MustNewConstMetric(readable, prometheus.GaugeValue, whether(err == nil))
	if err != nil {
		c.log.Warn("no metrics of the catalogue", "error", err)
		return
	}
	for _, m := range statusMetrics {
		metrics <- prometheus.MustNewConstMetric(m.Desc, prometheus.GaugeValue, m.value(status), m.label...)
	}
}
