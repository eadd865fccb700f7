package dcr

import (
	"context"
	"fmt"

	"gatehouse.example/storage"
)

// Current is [Clients.Resolve] without the cache: changes that another process made take
// effect at once. Use it for pages, where the extra read of the store does not matter.
func (cs *Clients) Current(ctx context.Context, id string) (storage.Client, error) {
	read := cs.store.Reading()
	client := cs.CurrentWith(read, id)
	if err := read.Read(ctx); err != nil {
		return storage.Client{}, fmt.Errorf("dcr: client: %w", err)
	}
	return client(ctx)
}

// CurrentWith is [Clients.Current] for a client that is read together with other records. It asks
// read for the record, if the client has one in the store; the function that it returns is to be
// called after [storage.Reading.Read].
func (cs *Clients) CurrentWith(read *storage.Reading, id string) func(context.Context) (storage.Client, error) {
	if !cs.stored(id) {
		return func(ctx context.Context) (storage.Client, error) { return cs.Resolve(ctx, id) }
	}
	record, asked := read.Client(id), cs.now()
	return func(context.Context) (storage.Client, error) {
		client, err := record()
		if err != nil {
			return storage.Client{}, fmt.Errorf("dcr: client: %w", err)
		}
		return cs.cache.keep(&client, asked), nil
	}
}

// Use records that a person is about to give a client a grant. After it returned without an
// error, the client does not expire by itself and does not count as unused. The error is
// [storage.ErrNotFound] if the client is gone. rest, if not nil, finishes the record and may
// be called later.
func (cs *Clients) Use(ctx context.Context, c storage.Client) (rest func(context.Context) error, err error) {
	if !cs.stored(c.ID) {
		return nil, nil
	}
	if rest, err = cs.store.BeginUse(ctx, c, cs.now()); err != nil {
		return nil, fmt.Errorf("dcr: client: %w", err)
	}
	return rest, nil
}

// stored reports whether a client with this id has its record in the store.
func (cs *Clients) stored(id string) bool {
	_, static := cs.static[id]
	return !static && validID(id)
}
