package dcr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse.example/storage"
)

// Add stores a client for an operator, under the rules for clients in the configuration.
// One that authenticates with a secret gets one, which is returned once; the store has
// its hash. Without an ID it gets one, and without a method it is public.
func Add(ctx context.Context, store *storage.Store, c storage.Client) (added storage.Client, secret string, err error) {
	if c.ID == "" {
		if c.ID, err = store.NewID(); err != nil {
			return storage.Client{}, "", err
		}
	}
	if c.Created.IsZero() {
		c.Created = time.Now().UTC()
	}
	c.Secret = nil
	if c, secret, err = withSecret(store, c); err != nil {
		return storage.Client{}, "", err
	}
	if c, err = staticClient(c); err != nil {
		return storage.Client{}, "", fmt.Errorf("dcr: client %q: %w", c.ID, err)
	}
	err = store.CreateClient(ctx, c)
	if errors.Is(err, storage.ErrConflict) {
		return storage.Client{}, "", fmt.Errorf("dcr: client %q: %w: the id is taken", c.ID, err)
	}
	if err != nil {
		return storage.Client{}, "", fmt.Errorf("dcr: client %q: %w", c.ID, err)
	}
	return c, secret, nil
}

// Disable keeps a client in the store from being used, for good, and revokes its grants.
// Servers that have it in memory notice within 5 seconds. The error is
// [storage.ErrNotFound] if there is no such client; after any other, repeat it.
func Disable(ctx context.Context, store *storage.Store, id string) error {
	err := changed(ctx, store, id, func(c storage.Client) error {
		if c.Disabled {
			return nil
		}
		c.Disabled = true
		return store.UpdateClient(ctx, c)
	})
	if err != nil {
		return err
	}
	return revokeGrants(ctx, store, id, "its client was disabled")
}

// Remove removes a client from the store and revokes its grants. It is repeated after an
// error, and finishes then what is left of a client that was removed not long ago.
func Remove(ctx context.Context, store *storage.Store, id string) error {
	var removed *storage.RemovedError
	err := changed(ctx, store, id, func(c storage.Client) error {
		return store.RemoveClient(ctx, c, "the people who run this server removed it")
	})
	if err != nil && !errors.As(err, &removed) {
		return err
	}
	return revokeGrants(ctx, store, id, "its client was removed")
}

// changed reads a client and changes it, again and again while others do too.
func changed(ctx context.Context, store *storage.Store, id string, change func(storage.Client) error) error {
	for range changeAttempts {
		c, err := store.Client(ctx, id)
		if err == nil {
			err = change(c)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, storage.ErrConflict) {
			return fmt.Errorf("dcr: client %q: %w", id, err)
		}
	}
	return fmt.Errorf("dcr: client %q: %w: it keeps changing", id, storage.ErrUnavailable)
}

func revokeGrants(ctx context.Context, store *storage.Store, id, because string) error {
	if err := store.RevokeClient(ctx, id, because); err != nil {
		return fmt.Errorf("dcr: client %q: %w", id, err)
	}
	return nil
}
