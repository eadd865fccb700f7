package authz

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// chores is work on the store that requests cause and none waits for: the last use of
// clients is recorded, the lists of grants are kept short, clients that nobody uses make
// room. What a crash loses of it is caught up with the next use.
type chores struct {
	store   *storage.Store
	clients *dcr.Clients
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	used    map[string]time.Time // by client id
	granted map[granted]struct{}
	rest    []func(context.Context) error // of what requests have begun

	room storage.Room // that the log was told about last
	said time.Time    // when
}

// granted is whose lists a new grant made longer.
type granted struct{ subject, clientID string }

// maxChores bounds what is remembered of each kind; what comes on top is dropped.
const maxChores = 4096

func newChores(cfg Config, clients *dcr.Clients) *chores {
	return &chores{
		store: cfg.Store, clients: clients, log: cfg.Logger, now: cfg.Now,
		used: map[string]time.Time{}, granted: map[granted]struct{}{},
	}
}

// clientUsed notes the use of a client, if that is to be recorded. Most uses cost a
// comparison.
func (c *chores) clientUsed(client storage.Client) {
	now := c.now()
	if client.Source != storage.ClientRegistered || now.Sub(client.LastUsed) < storage.UseStep {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.used) < maxChores {
		c.used[client.ID] = now
	}
}

// grantCreated notes that a person gave a client a grant.
func (c *chores) grantCreated(g storage.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.granted) < maxChores {
		c.granted[granted{g.Subject, g.ClientID}] = struct{}{}
	}
}

// later notes the rest of something, if there is any.
func (c *chores) later(rest func(context.Context) error) {
	if rest == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rest) < maxChores {
		c.rest = append(c.rest, rest)
	}
}

func (c *chores) take() (map[string]time.Time, map[granted]struct{}, []func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used, made, rest := c.used, c.granted, c.rest
	c.used, c.granted, c.rest = map[string]time.Time{}, map[granted]struct{}{}, nil
	return used, made, rest
}

// choreTime is how often chores are done, lastChores how long those may take that are
// left when the server ends.
const (
	choreTime  = 5 * time.Second
	lastChores = time.Second
)

// run does the chores until ctx ends, and then those that are left.
func (c *chores) run(ctx context.Context) {
	ticker := time.NewTicker(choreTime)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.do(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastChores)
			defer cancel()
			c.do(last)
			return
		}
	}
}

// saysTime is how often the log hears that the store is still short of room.
const saysTime = time.Minute

// tellRoom tells the log when the store gets short of room, now and then while it is, and
// when it has room again.
func (c *chores) tellRoom(ctx context.Context) {
	room, now := c.store.Room(), c.now()
	if room == storage.RoomEnough && room == c.room || room <= c.room && now.Sub(c.said) < saysTime {
		return
	}
	c.room, c.said = room, now
	switch room {
	case storage.RoomNone:
		c.log.ErrorContext(ctx, "the store is full: it refuses to write, so nobody can sign in, refresh or revoke; give it more memory")
	case storage.RoomTight:
		c.log.WarnContext(ctx, "the store is nearly full: no clients can register, so that everybody else can go on; give it more memory")
	default:
		c.log.InfoContext(ctx, "the store has room again")
	}
}

// do does what was noted. What fails is left to the next use. A client that is gone needs
// nothing.
func (c *chores) do(ctx context.Context) {
	c.tellRoom(ctx)
	used, made, rest := c.take()
	for _, finish := range rest {
		if err := finish(ctx); err != nil {
			c.log.WarnContext(ctx, "lists of clients cannot be tidied", "error", err)
			return
		}
	}
	for id, at := range used {
		if err := c.store.UseClient(ctx, id, at); err != nil && !errors.Is(err, storage.ErrNotFound) {
			c.log.WarnContext(ctx, "the last use of clients cannot be recorded", "error", err)
			return
		}
	}
	for g := range made {
		if err := c.store.TidyGrants(ctx, g.subject, g.clientID); err != nil {
			c.log.WarnContext(ctx, "lists of grants cannot be tidied", "error", err)
			return
		}
	}
	if err := c.clients.Tend(ctx); err != nil {
		c.log.WarnContext(ctx, "unused clients cannot make room for others", "error", err)
	}
}

// reapTime is how often idle clients are looked for. Every process does, because what is
// gone costs nothing.
const reapTime = time.Hour

// reap removes clients that nobody uses any more, until ctx ends.
func (c *chores) reap(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(reapTime):
		}
		if _, err := c.clients.Reap(ctx); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "idle clients cannot be removed", "error", err)
		}
	}
}

// resealTime is how often it is made sure that nothing is sealed under a master key that is
// not the first.
const resealTime = time.Hour

// reseal seals records under the first master key, again and again while there are others.
func (c *chores) reseal(ctx context.Context) {
	if c.store.MasterKeys() < 2 {
		return
	}
	for {
		done, err := c.store.Reseal(ctx, nil)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.log.WarnContext(ctx, "not every record could be sealed under the first master key", "error", err)
		case done.Unreadable > 0:
			c.log.ErrorContext(ctx, "records are sealed under none of the master keys", "records", done.Unreadable)
		default:
			c.log.InfoContext(ctx, "every record is sealed under the first master key", "records", done.Looked, "sealed", done.Sealed)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(resealTime):
		}
	}
}

// switchTime is how often a server looks whether records are to be sealed.
const switchTime = time.Minute

// seal seals the records of a store from before there were seals, when somebody has thrown
// the switch, until all of them are.
func (c *chores) seal(ctx context.Context) {
	for {
		form, err := c.sealed(ctx)
		switch {
		case ctx.Err() != nil || form == storage.FormSealed:
			return
		case err != nil:
			c.log.WarnContext(ctx, "not every record could be sealed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(switchTime):
		}
	}
}

// sealed does what is to be done now.
func (c *chores) sealed(ctx context.Context) (storage.Form, error) {
	form, _, err := c.store.Form(ctx)
	if err != nil || form != storage.FormSealing {
		return form, err
	}
	done, err := c.store.SealRecords(ctx, nil)
	if err != nil {
		return form, err
	}
	c.log.InfoContext(ctx, "records are sealed", "form", done.Form, "records", done.Looked, "sealed", done.Sealed, "unreadable", done.Unreadable)
	return done.Form, nil
}
