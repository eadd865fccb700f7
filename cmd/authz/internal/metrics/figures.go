package metrics

import (
	"context"
	"errors"
	"log/slog"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/storage"
)

// Records are the records that are counted at each scrape.
type Records interface {
	// Counts counts records by their lists.
	Counts(ctx context.Context) (storage.Counts, error)
	// KeySet returns the signing keys.
	KeySet(ctx context.Context) (storage.KeySet, error)
	// Retries counts the writes that were sent again.
	Retries() int64
}

// figures reads the store at each scrape.
type figures struct {
	records Records
	log     *slog.Logger
	counted func() (n int, counted bool) // grants

	up, grants, clients, people, keys, activated *prometheus.Desc
}

// Figures adds what a scrape reads from the store, and the number of sign-ins that wait for a
// place to have a password checked. grants says how many there are.
func Figures(m *Registry, records Records, waiting func() int, grants func() (n int, counted bool)) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gatehouse_"+name, help, labels, nil)
	}
	m.MustRegister(&figures{
		records: records, log: m.log, counted: grants,
		grants:    desc("grants", "Grants in the lists of people, by the last round of a count that goes on in the background; no number before its end."),
		up:        desc("store_up", "Whether the store answered this scrape: clients, people and signing keys are missing if not."),
		clients:   desc("clients", "Clients on record: unused ones end by themselves.", "state"),
		people:    desc("people", "People on record."),
		keys:      desc("signing_keys", "Signing keys on record.", "state"),
		activated: desc("signing_key_activated_timestamp_seconds", "When the key that signs began to do so."),
	})
	m.counter("gatehouse_store_retries_total", "Writes that were sent again because nobody knew what became of them.", func() float64 { return float64(records.Retries()) })
	m.gauge("gatehouse_password_checks_waiting", "Sign-ins that wait for a place to have a password checked.", func() float64 { return float64(waiting()) })
}

// Describe implements [prometheus.Collector].
func (f *figures) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{f.up, f.grants, f.clients, f.people, f.keys, f.activated} {
		descs <- desc
	}
}

// Collect implements [prometheus.Collector].
func (f *figures) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	counts, err := f.records.Counts(ctx)
	grants, counted := f.counted()
	listed := math.NaN()
	if counted {
		listed = float64(grants)
	}
	set, keysErr := f.records.KeySet(ctx)
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(f.grants, listed)
	if err = errors.Join(err, keysErr); err != nil {
		f.log.Warn("metrics could not be read from the store", "error", err)
		gauge(f.up, 0)
		return
	}
	gauge(f.up, 1)
	gauge(f.clients, float64(counts.UnusedClients), "unused")
	gauge(f.clients, float64(counts.UsedClients), "used")
	gauge(f.people, float64(counts.People))
	states := map[storage.KeyState]int{storage.KeyPending: 0, storage.KeyActive: 0, storage.KeyRetired: 0}
	for _, key := range set.Keys {
		if _, known := states[key.State]; known {
			states[key.State]++
		}
		if key.State == storage.KeyActive {
			gauge(f.activated, float64(key.Activated.Unix()))
		}
	}
	for state, n := range states {
		gauge(f.keys, float64(n), string(state))
	}
}
