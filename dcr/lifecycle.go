package dcr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse.example/storage"
)

// lifetimes bounds how long registered clients are kept, and how many.
type lifetimes struct {
	unused, idle              time.Duration
	maxUnused, maxPerSoftware int
}

func lifetimesOf(c Config) lifetimes {
	return lifetimes{
		unused: cmp.Or(c.UnusedFor, 7*24*time.Hour), idle: cmp.Or(c.IdleFor, 90*24*time.Hour),
		maxUnused: cmp.Or(c.MaxUnused, 100_000), maxPerSoftware: cmp.Or(c.MaxUnusedPerSoftware, 1000),
	}
}

func (l lifetimes) validate() error {
	var errs []error
	if l.unused < time.Minute {
		errs = append(errs, fmt.Errorf("dcr: UnusedFor %s: it must be at least 1m", l.unused))
	}
	if l.idle < 2*storage.UseStep {
		// Uses are recorded with the precision of UseStep.
		errs = append(errs, fmt.Errorf("dcr: IdleFor %s: it must be at least %s", l.idle, 2*storage.UseStep))
	}
	if l.maxUnused < 1 || l.maxPerSoftware < 1 {
		errs = append(errs, errors.New("dcr: MaxUnused and MaxUnusedPerSoftware must be at least 1"))
	}
	return errors.Join(errs...)
}

// Reap removes the registered clients that have not been used for [Config.IdleFor] and have
// no live grant, and returns their number. A client that is used at the same time stays: a
// consent records the use before it stores a grant, and then the removal fails, because the
// client was read before its grants were listed. A disabled client stays, so that it remains
// disabled. Call Reap about once an hour.
func (cs *Clients) Reap(ctx context.Context) (reaped int, err error) {
	if err := cs.dropExpired(ctx); err != nil {
		return 0, err
	}
	var unreadable error
	for c, err := range cs.store.UsedClients(ctx) {
		switch {
		case errors.Is(err, storage.ErrRecord):
			unreadable = err
			continue
		case err != nil:
			return reaped, fmt.Errorf("dcr: reap: %w", err)
		case cs.now().Sub(latest(c.LastUsed, c.Created)) < cs.life.idle:
			return reaped, unreadable // all that follow were used later
		case c.Source != storage.ClientRegistered || c.Disabled:
			continue
		}
		gone, err := cs.reap(ctx, c)
		if err != nil {
			return reaped, err
		}
		if gone {
			reaped++
		}
	}
	return reaped, unreadable
}

// dropExpired removes expired clients from the list of all clients: iterating over them has
// that effect.
func (cs *Clients) dropExpired(ctx context.Context) error {
	for _, err := range cs.store.Clients(ctx) {
		if err == nil {
			return nil // it has not expired, and all that follow are younger
		}
		if !errors.Is(err, storage.ErrRecord) {
			return fmt.Errorf("dcr: reap: %w", err)
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reap removes an idle client unless it has a live grant, and reports whether it did.
func (cs *Clients) reap(ctx context.Context, c storage.Client) (bool, error) {
	live, err := cs.hasLiveGrant(ctx, c.ID)
	if err != nil || live {
		return false, err
	}
	because := fmt.Sprintf("it was not used for %d days", cs.life.idle/(24*time.Hour))
	switch err := cs.store.RemoveClient(ctx, c, because); {
	case errors.Is(err, storage.ErrConflict): // it was used or changed meanwhile
		return false, nil
	case err != nil:
		return false, fmt.Errorf("dcr: reap: %w", err)
	}
	cs.cache.drop(c.ID)
	cs.log.InfoContext(ctx, "idle client removed", "client_id", c.ID, "client_name", c.Metadata.ClientName, "last_used", c.LastUsed)
	cs.onRemove(ctx, c)
	if err := cs.store.RevokeClient(ctx, c.ID, "its client was removed"); err != nil {
		return true, fmt.Errorf("dcr: reap: %w", err)
	}
	return true, nil
}

// hasLiveGrant reports whether a code, refresh token or access token of a client may still
// be valid. Expired grants have no record. A record that cannot be read counts as live.
func (cs *Clients) hasLiveGrant(ctx context.Context, id string) (bool, error) {
	for g, err := range cs.store.ClientGrants(ctx, id) {
		switch {
		case errors.Is(err, storage.ErrRecord):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("dcr: reap: %w", err)
		case g.State != storage.GrantRevoked:
			return true, nil
		}
	}
	return false, nil
}
