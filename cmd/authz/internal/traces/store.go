package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"gatehouse.example/cmd/authz/internal/metrics"
	"gatehouse.example/storage"
)

// backend is a backend whose calls are spans, where they are part of a request. Keys and records
// are in none.
type backend struct {
	storage.Backend
	t *Traces
}

// Store returns the backend to use in place of one.
func (t *Traces) Store(of storage.Backend) storage.Backend {
	if t == nil {
		return of
	}
	return &backend{of, t}
}

// call begins a call, and returns a function for its end.
func (b *backend) call(ctx context.Context, name string) (context.Context, func(error)) {
	ctx, span := b.t.child(ctx, "store "+name, trace.WithSpanKind(trace.SpanKindClient))
	if span == nil {
		return ctx, func(error) {}
	}
	return ctx, func(err error) {
		outcome := metrics.StoreOutcome(err)
		finish(span, outcome == "failed" || outcome == "uncertain", attribute.String("gatehouse.outcome", outcome))
	}
}

// Get implements [storage.Backend].
func (b *backend) Get(ctx context.Context, key string) (item storage.Item, err error) {
	ctx, end := b.call(ctx, "get")
	defer func() { end(err) }()
	return b.Backend.Get(ctx, key)
}

// GetMany implements [storage.Backend].
func (b *backend) GetMany(ctx context.Context, keys []string) (items []storage.Item, err error) {
	ctx, end := b.call(ctx, "get_many")
	defer func() { end(err) }()
	return b.Backend.GetMany(ctx, keys)
}

// Put implements [storage.Backend].
func (b *backend) Put(ctx context.Context, put storage.Put) (item storage.Item, err error) {
	ctx, end := b.call(ctx, "put")
	defer func() { end(err) }()
	return b.Backend.Put(ctx, put)
}

// Lineage implements [storage.Backend].
func (b *backend) Lineage(ctx context.Context) (lineage storage.Lineage, err error) {
	ctx, end := b.call(ctx, "lineage")
	defer func() { end(err) }()
	return b.Backend.Lineage(ctx)
}

// Delete implements [storage.Backend].
func (b *backend) Delete(ctx context.Context, key string) (err error) {
	ctx, end := b.call(ctx, "delete")
	defer func() { end(err) }()
	return b.Backend.Delete(ctx, key)
}

// IndexAdd implements [storage.Backend].
func (b *backend) IndexAdd(ctx context.Context, index, entry string) (err error) {
	ctx, end := b.call(ctx, "index_add")
	defer func() { end(err) }()
	return b.Backend.IndexAdd(ctx, index, entry)
}

// IndexRemove implements [storage.Backend].
func (b *backend) IndexRemove(ctx context.Context, index, entry string) (err error) {
	ctx, end := b.call(ctx, "index_remove")
	defer func() { end(err) }()
	return b.Backend.IndexRemove(ctx, index, entry)
}

// IndexPage implements [storage.Backend].
func (b *backend) IndexPage(ctx context.Context, index, after string, limit int) (entries []string, err error) {
	ctx, end := b.call(ctx, "index_page")
	defer func() { end(err) }()
	return b.Backend.IndexPage(ctx, index, after, limit)
}

// IndexPageBefore implements [storage.Backend].
func (b *backend) IndexPageBefore(ctx context.Context, index, before string, limit int) (entries []string, err error) {
	ctx, end := b.call(ctx, "index_page")
	defer func() { end(err) }()
	return b.Backend.IndexPageBefore(ctx, index, before, limit)
}

// IndexLen implements [storage.Backend].
func (b *backend) IndexLen(ctx context.Context, index string) (n int, err error) {
	ctx, end := b.call(ctx, "index_len")
	defer func() { end(err) }()
	return b.Backend.IndexLen(ctx, index)
}

// Count implements [storage.Backend].
func (b *backend) Count(ctx context.Context, c storage.Counting) (counted storage.Counted, err error) {
	ctx, end := b.call(ctx, "count")
	defer func() { end(err) }()
	return b.Backend.Count(ctx, c)
}
