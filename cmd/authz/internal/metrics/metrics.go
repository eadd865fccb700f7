// Package metrics counts what the servers do, for Prometheus.
//
// Every series exists from the start, under labels of closed sets: none has a value that a client,
// a person or a provider chose, so nobody makes series. A count is one addition to a number that
// is found without a lock. A scrape reads these numbers, the lengths of three lists and the set of
// keys, whatever the store holds; few scrapes run at a time.
package metrics

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gatehouse.example/internal/certificate"
	"gatehouse.example/internal/listener"
	"gatehouse.example/internal/quietlog"
)

// Registry is the metrics of one process. It is safe for concurrent use.
type Registry struct {
	*prometheus.Registry
	log *slog.Logger
}

// readTime bounds what a scrape waits for the store.
const readTime = time.Second

// scrapesAtATime bounds how many scrapes run at once; others get 503.
const scrapesAtATime = 4

// New returns the metrics that every process has. The version is that of the program, with the Go
// release behind it.
func New(version, goVersion string, log *slog.Logger) *Registry {
	all := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "gatehouse_build_info", Help: "The value is 1: the labels are the version of the program and of Go.",
		ConstLabels: prometheus.Labels{"version": version, "go": goVersion},
	})
	build.Set(1)
	all.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Registry{all, log}
}

// Handler answers scrapes.
func (m *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{
		ErrorLog: quietlog.ServerLog(m.log.Handler()), ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapesAtATime,
	})
}

// counters registers a counter for each combination of labels and returns them by their key.
func counters[K comparable](m *Registry, name, help string, labels []string, values map[K][]string) map[K]prometheus.Counter {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.MustRegister(vec)
	out := make(map[K]prometheus.Counter, len(values))
	for key, value := range values {
		out[key] = vec.WithLabelValues(value...)
	}
	return out
}

// histograms registers a histogram for each value of one label and returns them by it.
func histograms[K ~string](m *Registry, name, help, label string, buckets []float64, values ...K) map[K]prometheus.Observer {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label})
	m.MustRegister(vec)
	out := make(map[K]prometheus.Observer, len(values))
	for _, value := range values {
		out[value] = vec.WithLabelValues(string(value))
	}
	return out
}

// requestBuckets are for answers to clients, storeBuckets for single calls of the store, in
// seconds.
var (
	requestBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}
	storeBuckets   = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2}
)

// counter registers one counter that is read at each scrape.
func (m *Registry) counter(name, help string, read func() float64) {
	m.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
}

// gauge registers one gauge that is read at each scrape.
func (m *Registry) gauge(name, help string, read func() float64) {
	m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Listener adds the figures of the public listener.
func (m *Registry) Listener(figures func() listener.Figures) {
	m.gauge("gatehouse_connections_open", "Places of the public listener that are taken, by connections and by further requests of HTTP/2.",
		func() float64 { return float64(figures().Open) })
	m.gauge("gatehouse_connections_limit", "Places of the public listener.", func() float64 { return float64(figures().Places) })
	m.counter("gatehouse_connections_refused_total", "Connections that were closed because there were too many, in all or from one network.",
		func() float64 { return float64(figures().Refused) })
	m.counter("gatehouse_streams_refused_total", "Requests of HTTP/2 that got 503 because there were too many, in all or from one network.",
		func() float64 { return float64(figures().StreamsRefused) })
}

// Certificate adds the figures of the certificate of the public listener.
func (m *Registry) Certificate(source certificate.Source) {
	m.gauge("gatehouse_certificate_expiry_timestamp_seconds", "When the certificate in use ends that ends first; 0 while one is missing.",
		func() float64 { return float64(source.Expires().Unix()) })
	m.counter("gatehouse_certificate_loads_total", "Certificates that were taken, the first one included.",
		func() float64 { taken, _ := source.Loads(); return float64(taken) })
	m.counter("gatehouse_certificate_load_failures_total", "Looks that found no usable pair in the files, or that the authority issues no certificate.",
		func() float64 { _, failed := source.Loads(); return float64(failed) })
}

// Outcome is how a request ended.
type Outcome string

// The outcomes. Aborted is an answer that was cut off.
const (
	OK          Outcome = "ok"
	Redirected  Outcome = "redirected"
	Refused     Outcome = "refused"
	Limited     Outcome = "limited"
	Failed      Outcome = "failed"
	Unavailable Outcome = "unavailable"
	Aborted     Outcome = "aborted"
)

var outcomes = []Outcome{OK, Redirected, Refused, Limited, Failed, Unavailable, Aborted}

// outcomeOf returns the outcome of a request by its status, 0 for an answer that was cut off.
func outcomeOf(status int) Outcome {
	switch {
	case status == http.StatusTooManyRequests:
		return Limited
	case status == http.StatusServiceUnavailable:
		return Unavailable
	case status >= 500:
		return Failed
	case status >= 400:
		return Refused
	case status >= 300:
		return Redirected
	case status >= 200:
		return OK
	}
	return Aborted
}
