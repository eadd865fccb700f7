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

// chores is background work on the store that requests cause and do not wait for: it records
// the last use of clients and what happened to people, keeps lists of grants short, and removes unused clients. After a
// crash, the next use of a client or grant makes up for the lost work.
type chores struct {
	store    *storage.Store
	latest   func() *dcr.Clients // those of the configuration in force
	activity *activity
	log      *slog.Logger
	now      func() time.Time

	mu       sync.Mutex
	used     map[string]time.Time          // by client id
	software map[string]time.Time          // of which clients were used
	seen     map[string]storage.Session    // by session id, with the last use to record
	granted  map[grantLists]struct{}       // the lists that grew
	deferred []func(context.Context) error // the remaining work of requests

	room           storage.Room // as logged last
	lastRoomReport time.Time    // the time of that line
}

// grantLists identifies the lists that a new grant lengthens: those of its person and its
// client.
type grantLists struct{ subject, clientID string }

// maxChores is the greatest number of items of each kind that wait; further ones are dropped.
const maxChores = 4096

func newChores(cfg Config, k *lasting) *chores {
	return &chores{
		store: cfg.Store, latest: func() *dcr.Clients { return k.latest.Load().clients }, activity: k.activity, log: cfg.Logger, now: cfg.Now,
		used: map[string]time.Time{}, software: map[string]time.Time{}, seen: map[string]storage.Session{}, granted: map[grantLists]struct{}{},
	}
}

// clientUsed schedules the recording of a client's use if the last recorded use is old
// enough. Most calls cost one comparison.
func (c *chores) clientUsed(client storage.Client) {
	now := c.now()
	if client.Source != storage.ClientRegistered || now.Sub(client.LastUsed) < storage.UseStep {
		return
	}
	c.softwareUsed(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.used) < maxChores {
		c.used[client.ID] = now
	}
}

// grantCreated schedules the tidying of the lists that a new grant lengthened.
func (c *chores) grantCreated(g storage.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.granted) < maxChores {
		c.granted[grantLists{g.Subject, g.ClientID}] = struct{}{}
	}
}

// deferWork schedules the remaining work of a request. rest may be nil.
func (c *chores) deferWork(rest func(context.Context) error) {
	if rest == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.deferred) < maxChores {
		c.deferred = append(c.deferred, rest)
	}
}

func (c *chores) take() (map[string]time.Time, map[grantLists]struct{}, []func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used, made, rest := c.used, c.granted, c.deferred
	c.used, c.granted, c.deferred = map[string]time.Time{}, map[grantLists]struct{}{}, nil
	return used, made, rest
}

// choreInterval is the interval between runs. lastChoresTimeout limits the run at the end of
// the server.
const (
	choreInterval     = 5 * time.Second
	lastChoresTimeout = time.Second
)

// run does the chores every choreInterval until ctx ends, and then once more.
func (c *chores) run(ctx context.Context) {
	ticker := time.NewTicker(choreInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.runOnce(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastChoresTimeout)
			defer cancel()
			c.runOnce(last)
			return
		}
	}
}

// roomReportInterval is the interval between log lines about a store that is short of room.
const roomReportInterval = time.Minute

// reportRoom logs when the store becomes short of room, from time to time while it is, and
// when it has room again.
func (c *chores) reportRoom(ctx context.Context) {
	room, now := c.store.Room(), c.now()
	if room == storage.RoomEnough && room == c.room || room <= c.room && now.Sub(c.lastRoomReport) < roomReportInterval {
		return
	}
	c.room, c.lastRoomReport = room, now
	switch room {
	case storage.RoomNone:
		c.log.ErrorContext(ctx, "the store is full: it refuses writes, so sign-ins, refreshes and revocations fail; give it more memory, or its disk more space")
	case storage.RoomTight:
		c.log.WarnContext(ctx, "the store is nearly full: clients cannot register, so that all other requests still succeed; give it more memory, or its disk more space")
	default:
		c.log.InfoContext(ctx, "the store has room again")
	}
}

// takeSeen returns the sessions whose last use is to be recorded.
func (c *chores) takeSeen() map[string]storage.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = map[string]storage.Session{}
	return seen
}

// runOnce does the work that is scheduled. Failed work is dropped; the next use schedules it
// again. A client that does not exist any more needs no work.
func (c *chores) runOnce(ctx context.Context) {
	c.reportRoom(ctx)
	if err := c.recordSeen(ctx, c.takeSeen()); err != nil {
		c.log.WarnContext(ctx, "the last use of sessions cannot be recorded", "error", err)
	}
	if err := c.activity.write(ctx); err != nil {
		c.log.WarnContext(ctx, "what happened to people cannot be recorded yet", "error", err)
	}
	used, made, rest := c.take()
	for _, finish := range rest {
		if err := finish(ctx); err != nil {
			c.log.WarnContext(ctx, "lists cannot be tidied", "error", err)
			return
		}
	}
	for id, at := range used {
		if err := c.store.UseClient(ctx, id, at); err != nil && !errors.Is(err, storage.ErrNotFound) {
			c.log.WarnContext(ctx, "the last use of clients cannot be recorded", "error", err)
			return
		}
	}
	if err := c.recordSoftware(ctx, c.takeSoftware()); err != nil {
		c.log.WarnContext(ctx, "software in use cannot be recorded", "error", err)
		return
	}
	for g := range made {
		if err := c.store.TidyGrants(ctx, g.subject, g.clientID); err != nil {
			c.log.WarnContext(ctx, "lists of grants cannot be tidied", "error", err)
			return
		}
	}
	if err := c.latest().Tend(ctx); err != nil {
		c.log.WarnContext(ctx, "unused clients cannot make room for others", "error", err)
	}
}

// reapInterval is the interval between searches for idle clients. Every process searches,
// because a client that is already removed costs nothing.
const reapInterval = time.Hour

// reap removes clients that have not been used for long, until ctx ends.
func (c *chores) reap(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(reapInterval):
		}
		if _, err := c.latest().Reap(ctx); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "idle clients cannot be removed", "error", err)
		}
	}
}

// resealInterval is the interval between searches for records that are sealed under a master
// key other than the first.
const resealInterval = time.Hour

// reseal seals records under the first master key, repeatedly while other keys are
// configured.
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
		case <-time.After(resealInterval):
		}
	}
}

// sealInterval is the interval between checks whether unsealed records must be sealed.
const sealInterval = time.Minute

// seal seals the records that a version without seals wrote, once the operator has requested
// it, until every record is sealed.
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
		case <-time.After(sealInterval):
		}
	}
}

// sealed seals the records if that was requested, and returns the form that the store then
// has.
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
