package dcr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse.example/storage"
)

// Add stores a client for an operator, under the rules for configured clients. A client that
// authenticates with a secret gets one, which is returned and cannot be read again: the store
// has only its hash. A client without an ID gets one, and one without an authentication method
// is public.
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

// Disable permanently keeps a client in the store from being used, and revokes its grants.
// Running servers that have it in memory notice within 5 seconds. The error is
// [storage.ErrNotFound] if there is no such client; after any other error, call Disable again.
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

// Vouch vouches for a registered client as it is now, or takes that back. A client that changes
// what it states about itself is not vouched for any more. The errors are those of [Disable].
func Vouch(ctx context.Context, store *storage.Store, id string, vouched bool) error {
	return changed(ctx, store, id, func(c storage.Client) error {
		digest := ""
		if vouched {
			digest = Digest(c)
		}
		if c.Vouched == digest {
			return nil
		}
		c.Vouched = digest
		return store.UpdateClient(ctx, c)
	})
}

// Remove removes a client from the store and revokes its grants. After an error, call Remove
// again: it then finishes the revocation for a client that was removed recently.
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

// changed reads a client and changes it, and repeats both if a concurrent change conflicts.
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
