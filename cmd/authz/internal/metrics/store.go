package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gatehouse.example/storage"
)

// operation is a method of a backend.
type operation string

const (
	opGet         operation = "get"
	opGetMany     operation = "get_many"
	opPut         operation = "put"
	opDelete      operation = "delete"
	opLineage     operation = "lineage"
	opIndexAdd    operation = "index_add"
	opIndexRemove operation = "index_remove"
	opIndexPage   operation = "index_page"
	opIndexLen    operation = "index_len"
	opScan        operation = "scan"
	opCount       operation = "count"
)

var operations = []operation{opGet, opGetMany, opPut, opDelete, opLineage, opIndexAdd, opIndexRemove, opIndexPage, opIndexLen, opScan, opCount}

// storeOutcome is how a call of the store ended: it has an answer, the record is not there or has
// changed, another copy answers, nobody knows, or there was no answer.
type storeOutcome string

const (
	storeOK        storeOutcome = "ok"
	storeAbsent    storeOutcome = "absent"
	storeConflict  storeOutcome = "conflict"
	storeLineage   storeOutcome = "lineage"
	storeUncertain storeOutcome = "uncertain"
	storeFailed    storeOutcome = "failed"
)

func storeOutcomeOf(err error) storeOutcome {
	switch {
	case err == nil:
		return storeOK
	case errors.Is(err, storage.ErrUncertain):
		return storeUncertain
	case errors.Is(err, storage.ErrNotFound):
		return storeAbsent
	case errors.Is(err, storage.ErrConflict):
		return storeConflict
	case errors.Is(err, storage.ErrLineage):
		return storeLineage
	}
	return storeFailed
}

// StoreOutcome returns the word for how a call of the store ended, by its error.
func StoreOutcome(err error) string { return string(storeOutcomeOf(err)) }

type storeCall struct {
	operation operation
	outcome   storeOutcome
}

// backend is a backend whose calls are counted.
type backend struct {
	storage.Backend
	calls    map[storeCall]prometheus.Counter
	took     map[operation]prometheus.Observer
	lineages prometheus.Counter
	lineage  atomic.Pointer[storage.Lineage] // that answered last
}

// Store adds the metrics of a store, and returns the backend to use in place of one.
func Store(m *Registry, of storage.Backend) storage.Backend {
	values := map[storeCall][]string{}
	for _, o := range operations {
		for _, outcome := range []storeOutcome{storeOK, storeAbsent, storeConflict, storeLineage, storeUncertain, storeFailed} {
			values[storeCall{o, outcome}] = []string{string(o), string(outcome)}
		}
	}
	b := &backend{
		Backend: of,
		calls:   counters(m, "gatehouse_store_calls_total", "Calls of the store. One with the outcome uncertain is sent again.", []string{"operation", "outcome"}, values),
		took:    histograms(m, "gatehouse_store_call_duration_seconds", "Time of a call of the store.", "operation", storeBuckets, operations...),
		lineages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_store_lineage_changes_total", Help: "Times that another copy of the database was found to answer.",
		}),
	}
	m.MustRegister(b.lineages)
	m.counter("gatehouse_store_round_trips_total", "Round trips to Redis. Calls at the same time share them; a store in this process has none.",
		func() float64 {
			if shares, ok := of.(interface{ Flights() int64 }); ok {
				return float64(shares.Flights())
			}
			return 0
		})
	m.gauge("gatehouse_store_room", "Room that the store has: 2 enough, 1 for what is there already, 0 none.",
		func() float64 { return float64(storage.RoomNone - of.Room()) })
	return b
}

// done counts a call that began at a time.
func (b *backend) done(o operation, began time.Time, err error) {
	b.took[o].Observe(time.Since(began).Seconds())
	b.calls[storeCall{o, storeOutcomeOf(err)}].Inc()
}

// Get implements [storage.Backend].
func (b *backend) Get(ctx context.Context, key string) (item storage.Item, err error) {
	defer func(began time.Time) { b.done(opGet, began, err) }(time.Now())
	return b.Backend.Get(ctx, key)
}

// GetMany implements [storage.Backend].
func (b *backend) GetMany(ctx context.Context, keys []string) (items []storage.Item, err error) {
	defer func(began time.Time) { b.done(opGetMany, began, err) }(time.Now())
	return b.Backend.GetMany(ctx, keys)
}

// Put implements [storage.Backend].
func (b *backend) Put(ctx context.Context, put storage.Put) (item storage.Item, err error) {
	defer func(began time.Time) { b.done(opPut, began, err) }(time.Now())
	return b.Backend.Put(ctx, put)
}

// Lineage implements [storage.Backend].
func (b *backend) Lineage(ctx context.Context) (lineage storage.Lineage, err error) {
	defer func(began time.Time) { b.done(opLineage, began, err) }(time.Now())
	lineage, err = b.Backend.Lineage(ctx)
	if err != nil {
		return lineage, err
	}
	if last := b.lineage.Load(); last == nil || *last != lineage {
		if b.lineage.CompareAndSwap(last, &lineage) && last != nil {
			b.lineages.Inc()
		}
	}
	return lineage, nil
}

// Delete implements [storage.Backend].
func (b *backend) Delete(ctx context.Context, key string) (err error) {
	defer func(began time.Time) { b.done(opDelete, began, err) }(time.Now())
	return b.Backend.Delete(ctx, key)
}

// IndexAdd implements [storage.Backend].
func (b *backend) IndexAdd(ctx context.Context, index, entry string) (err error) {
	defer func(began time.Time) { b.done(opIndexAdd, began, err) }(time.Now())
	return b.Backend.IndexAdd(ctx, index, entry)
}

// IndexRemove implements [storage.Backend].
func (b *backend) IndexRemove(ctx context.Context, index, entry string) (err error) {
	defer func(began time.Time) { b.done(opIndexRemove, began, err) }(time.Now())
	return b.Backend.IndexRemove(ctx, index, entry)
}

// IndexPage implements [storage.Backend].
func (b *backend) IndexPage(ctx context.Context, index, after string, limit int) (entries []string, err error) {
	defer func(began time.Time) { b.done(opIndexPage, began, err) }(time.Now())
	return b.Backend.IndexPage(ctx, index, after, limit)
}

// IndexPageBefore implements [storage.Backend].
func (b *backend) IndexPageBefore(ctx context.Context, index, before string, limit int) (entries []string, err error) {
	defer func(began time.Time) { b.done(opIndexPage, began, err) }(time.Now())
	return b.Backend.IndexPageBefore(ctx, index, before, limit)
}

// IndexLen implements [storage.Backend].
func (b *backend) IndexLen(ctx context.Context, index string) (n int, err error) {
	defer func(began time.Time) { b.done(opIndexLen, began, err) }(time.Now())
	return b.Backend.IndexLen(ctx, index)
}

// Scan implements [storage.Backend].
func (b *backend) Scan(ctx context.Context, prefix, cursor string, limit int) (keys []string, next string, err error) {
	defer func(began time.Time) { b.done(opScan, began, err) }(time.Now())
	return b.Backend.Scan(ctx, prefix, cursor, limit)
}

// Count implements [storage.Backend].
func (b *backend) Count(ctx context.Context, c storage.Counting) (counted storage.Counted, err error) {
	defer func(began time.Time) { b.done(opCount, began, err) }(time.Now())
	return b.Backend.Count(ctx, c)
}
