package dcr

import (
	"context"
	"fmt"

	"gatehouse.example/storage"
)

// Current is [Clients.Resolve] as of now: a client that was changed, disabled or removed
// elsewhere is seen so at once. It is for pages, where a person waits anyway.
func (cs *Clients) Current(ctx context.Context, id string) (storage.Client, error) {
	if !cs.stored(id) {
		return cs.Resolve(ctx, id)
	}
	client, err := cs.store.Client(ctx, id)
	if err != nil {
		return storage.Client{}, fmt.Errorf("dcr: client: %w", err)
	}
	client = detached(client)
	cs.cache.put(client, cs.now())
	return client, nil
}

// Use records that a person is about to give a client a grant. When it returns nil the
// client does not end by itself, and is not taken for unused before its grant is listed.
// One that is gone is [storage.ErrNotFound]. What is left to do, if anything, may be done
// later.
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
