package main

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/registry/mirror"
)

// catalogueMetrics reads the status of the catalogue at each scrape. The status is the same in
// every process over one store.
type catalogueMetrics struct {
	status func(context.Context) (mirror.Status, error)
	log    *slog.Logger
}

// measure returns one value of the status.
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

// labelled returns gauges of one name that differ in a label.
func labelled(name, help, label string, values map[string]measure) (out []metric) {
	desc := prometheus.NewDesc("gatehouse_registry_"+name, help, []string{label}, nil)
	for text, value := range values {
		out = append(out, metric{desc, value, []string{text}})
	}
	return out
}

var up = prometheus.NewDesc("gatehouse_registry_up", "Whether the status could be read from the store: the other metrics are missing if not.", nil, nil)

// statusMetrics are the metrics of the status. A time is 0 for an event that never happened.
var statusMetrics = slices.Concat([]metric{
	gauge("servers", "Servers with a version that is not deleted.", func(s mirror.Status) float64 { return float64(s.Servers) }),
	gauge("own_servers", "The operator's own servers.", func(s mirror.Status) float64 { return float64(s.Own) }),
	gauge("last_sync_timestamp_seconds", "When a round with the upstream last succeeded.", func(s mirror.Status) float64 { return unix(s.LastSync) }),
	gauge("last_change_timestamp_seconds", "When the catalogue last changed for readers.", func(s mirror.Status) float64 { return unix(s.CommittedAt) }),
	gauge("sync_running", "Whether a round is running or was interrupted.", func(s mirror.Status) float64 { return whether(s.Running != nil) }),
	gauge("sync_failures", "Number of consecutive rounds that failed.", func(s mirror.Status) float64 {
		if s.Failure == nil {
			return 0
		}
		return float64(s.Failure.Times)
	}),
	gauge("shrunken", "Whether removals wait until an operator accepts that the upstream has lost so many records.", func(s mirror.Status) float64 { return whether(s.Shrink != nil) }),
}, labelled("versions", "Versions of servers.", "state", map[string]measure{
	"listed":  func(s mirror.Status) float64 { return float64(s.Rows) },
	"deleted": func(s mirror.Status) float64 { return float64(s.Deleted) },
}), labelled("flagged_versions", "Versions of servers that an operator should examine.", "flag", map[string]measure{
	mirror.FlagChanged:  func(s mirror.Status) float64 { return float64(s.Changed) },
	mirror.FlagConflict: func(s mirror.Status) float64 { return float64(s.Conflicts) },
	mirror.FlagVanished: func(s mirror.Status) float64 { return float64(s.Vanished) },
	mirror.FlagShadowed: func(s mirror.Status) float64 { return float64(s.Shadowed) },
	mirror.FlagStatus:   func(s mirror.Status) float64 { return float64(s.UnknownStatus) },
}))

// unix returns a time in seconds since 1970, 0 for the zero time.
func unix(t time.Time) float64 { return float64(max(t.Unix(), 0)) }

func whether(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Describe implements [prometheus.Collector].
func (c *catalogueMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- up
	for _, m := range statusMetrics {
		descs <- m.Desc
	}
}

// Collect implements [prometheus.Collector].
func (c *catalogueMetrics) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	status, err := c.status(ctx)
	metrics <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, whether(err == nil))
	if err != nil {
		c.log.Warn("metrics of the catalogue could not be read", "error", err)
		return
	}
	for _, m := range statusMetrics {
		metrics <- prometheus.MustNewConstMetric(m.Desc, prometheus.GaugeValue, m.value(status), m.label...)
	}
}
