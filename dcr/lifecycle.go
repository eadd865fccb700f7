package dcr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse.example/storage"
)

// lifetimes are how long registered clients are kept, and how many.
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
		// Uses are recorded with that step.
		errs = append(errs, fmt.Errorf("dcr: IdleFor %s: it must be at least %s", l.idle, 2*storage.UseStep))
	}
	if l.maxUnused < 1 || l.maxPerSoftware < 1 {
		errs = append(errs, errors.New("dcr: MaxUnused and MaxUnusedPerSoftware must be at least 1"))
	}
	return errors.Join(errs...)
}

// Reap removes the registered clients that were used once, but not for a long time, and
// have no live grant. It returns how many. One that is used meanwhile stays: a consent
// records the use before it stores a grant, and then the removal fails, because the
// client was read before its grants were listed. A client that was disabled stays, so that
// nobody forgets it. Reap is called every hour or so.
func (cs *Clients) Reap(ctx context.Context) (reaped int, err error) {
	// Walking over clients that have ended removes them from the list.
	for _, err := range cs.store.Clients(ctx) {
		if err != nil && !errors.Is(err, storage.ErrRecord) {
			return 0, fmt.Errorf("dcr: reap: %w", err)
		}
		if err == nil {
			break // it has not ended, and all that follow are younger
		}
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
			return reaped, unreadable // and so are all that follow
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

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reap removes an idle client unless it has a live grant.
func (cs *Clients) reap(ctx context.Context, c storage.Client) (bool, error) {
	live, err := cs.hasLiveGrant(ctx, c.ID)
	if err != nil || live {
		return false, err
	}
	because := fmt.Sprintf("nobody had used it for %d days", cs.life.idle/(24*time.Hour))
	switch err := cs.store.RemoveClient(ctx, c, because); {
	case errors.Is(err, storage.ErrConflict): // it was used or changed
		return false, nil
	case err != nil:
		return false, fmt.Errorf("dcr: reap: %w", err)
	}
	cs.cache.drop(c.ID)
	cs.log.InfoContext(ctx, "idle client removed", "client_id", c.ID, "client_name", c.Metadata.ClientName, "last_used", c.LastUsed)
	if err := cs.store.RevokeClient(ctx, c.ID, "its client was removed"); err != nil {
		return true, fmt.Errorf("dcr: reap: %w", err)
	}
	return true, nil
}

// hasLiveGrant reports whether a code of a client may still be redeemed, a refresh token
// used, or an access token shown. What has ended is not on record any more. A record that
// cannot be read may be a live one.
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
