package dcr

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

const (
	// spareTime is how long a client that nobody has used is safe after it registered, and
	// after it sent somebody here: as long as a person may take to sign in and decide, and
	// some time to begin.
	spareTime = 15 * time.Minute
	// askStep is how exact it is on record when a client sent somebody here.
	askStep = 5 * time.Minute
	// fullRetry is when whoever finds no place is to come again. Some of those that are
	// spared are not spared any more by then.
	fullRetry = time.Minute
	// networkPart is which part of all unused clients one network may have.
	networkPart = 10
	// roomStep is how many unused clients make room at a time while the store is nearly full.
	roomStep = 200
)

// maxCrowded bounds how many of each kind are remembered between two times of tending.
// The bound on all clients holds for those that come on top.
const maxCrowded = 4096

// crowd is what this process knows about clients that nobody has used. Its zero value is
// ready for use.
type crowd struct {
	mu    sync.Mutex
	noted map[storage.Bound]bool // the lists that became longer
	asked map[string]time.Time   // who sent somebody here
	full  map[storage.Bound]bool // the lists that have too many, all of which are spared
}

// note remembers that a client was registered.
func (c *crowd) note(of storage.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noted == nil {
		c.noted = map[storage.Bound]bool{}
	}
	for _, b := range lists(of) {
		if len(c.noted) < maxCrowded {
			c.noted[b] = true
		}
	}
	c.noted[storage.Bound{}] = true
}

// lists are the lists that a client is in while nobody has used it, beside that of all.
func lists(of storage.Client) (bounds []storage.Bound) {
	if of.Software != "" {
		bounds = append(bounds, storage.Bound{Software: of.Software})
	}
	if of.Network != "" {
		bounds = append(bounds, storage.Bound{Network: of.Network})
	}
	return bounds
}

// again notes lists that were not done with.
func (c *crowd) again(lists []storage.Bound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noted == nil {
		c.noted = map[storage.Bound]bool{}
	}
	for _, b := range lists {
		c.noted[b] = true
	}
}

// take returns what was noted: networks first, then softwares, and all clients at the end.
func (c *crowd) take() (noted []storage.Bound, asked map[string]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	noted, asked = slices.SortedFunc(maps.Keys(c.noted), order), c.asked
	c.noted, c.asked = nil, nil
	return noted, asked
}

func order(a, b storage.Bound) int {
	rank := func(b storage.Bound) int {
		switch {
		case b.Network != "":
			return 0
		case b.Software != "":
			return 1
		}
		return 2
	}
	return rank(a) - rank(b)
}

// setFull remembers whether a list has no place. One that has none is looked at again.
func (c *crowd) setFull(list storage.Bound, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !full {
		delete(c.full, list)
		return
	}
	if c.full == nil {
		c.full = map[storage.Bound]bool{}
	}
	c.full[list] = true
	if c.noted == nil {
		c.noted = map[storage.Bound]bool{}
	}
	c.noted[list] = true
}

// hasPlace reports whether there is a place for a client. Of a software there always is:
// whoever fills it must not keep others of the same software out.
func (c *crowd) hasPlace(of storage.Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.full[storage.Bound{}] && (of.Network == "" || !c.full[storage.Bound{Network: of.Network}])
}

// Asked notes that a client sent a person here, so that it does not make room for others
// while that person signs in. What is already safe for a while costs nothing; everything
// else is on record when [Clients.Tend] runs next, for all processes.
func (cs *Clients) Asked(of storage.Client) {
	now := cs.now()
	safe := latest(of.Created.Add(askStep), of.Asked.Add(askStep)) // and spareTime after that
	if of.Source != storage.ClientRegistered || of.Expires.IsZero() || now.Before(safe) {
		return
	}
	c := &cs.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]time.Time{}
	}
	if len(c.asked) < maxCrowded {
		c.asked[of.ID] = now
	}
}

// Tend bounds the clients that nobody has used: of each software and each network of which
// this process registered clients since the last time, and in all. One that registered or
// sent somebody here in the last 15 minutes stays in any case; while there are too many of
// those, nobody else registers. It is called every few seconds, and costs nothing when
// nobody registered. What an error leaves is done the next time.
func (cs *Clients) Tend(ctx context.Context) error {
	noted, asked := cs.crowd.take()
	for id, at := range asked {
		if err := cs.store.AskForClient(ctx, id, at); err != nil {
			cs.crowd.again(noted)
			return fmt.Errorf("dcr: tend: %w", err)
		}
	}
	removed := 0
	defer func() {
		if removed > 0 {
			cs.log.InfoContext(ctx, "unused clients made room for new ones", "clients", removed)
		}
	}()
	for i, list := range noted {
		n, err := cs.bound(ctx, list, noted)
		if removed += n; err != nil {
			cs.crowd.again(noted[i:])
			return fmt.Errorf("dcr: tend: %w", err)
		}
	}
	n, err := cs.makeRoom(ctx)
	if removed += n; err != nil {
		return fmt.Errorf("dcr: tend: %w", err)
	}
	return nil
}

// spared is since when a client must have registered or sent somebody here to stay.
func (cs *Clients) spared() time.Time { return cs.now().Add(-spareTime - askStep) }

// bound bounds one list. When there are too many in all, those make room first that came
// from the network of which most came.
func (cs *Clients) bound(ctx context.Context, list storage.Bound, noted []storage.Bound) (removed int, err error) {
	b := list
	b.Spare = cs.spared()
	switch {
	case list.Software != "":
		b.Most = cs.life.maxPerSoftware
	case list.Network != "":
		b.Most = max(1, cs.life.maxUnused/networkPart)
	default:
		b.Most = cs.life.maxUnused
		if removed, err = cs.levelNetworks(ctx, b, noted); err != nil {
			return removed, err
		}
	}
	n, full, err := cs.store.BoundUnused(ctx, b)
	if err == nil && list.Software == "" {
		cs.crowd.setFull(list, full)
	}
	return removed + n, err
}

// levelNetworks takes what is too much in all from the network that has most, of those
// from which clients came since the last time.
func (cs *Clients) levelNetworks(ctx context.Context, all storage.Bound, noted []storage.Bound) (removed int, err error) {
	n, err := cs.store.Unused(ctx, all)
	if err != nil || n <= all.Most {
		return 0, err
	}
	var fullest storage.Bound
	for _, list := range noted {
		if list.Network == "" {
			continue
		}
		has, err := cs.store.Unused(ctx, list)
		if err != nil {
			return 0, err
		}
		if has > fullest.Most {
			fullest = list
			fullest.Most = has
		}
	}
	if fullest.Network == "" {
		return 0, nil
	}
	fullest.Most = max(0, fullest.Most-(n-all.Most))
	fullest.Spare = all.Spare
	removed, _, err = cs.store.BoundUnused(ctx, fullest)
	return removed, err
}

// makeRoom removes some of the oldest unused clients while the store is nearly full.
func (cs *Clients) makeRoom(ctx context.Context) (removed int, err error) {
	if cs.store.Room() != storage.RoomTight {
		return 0, nil
	}
	n, err := cs.store.Unused(ctx, storage.Bound{})
	if err != nil || n == 0 {
		return 0, err
	}
	removed, _, err = cs.store.BoundUnused(ctx, storage.Bound{Most: max(0, n-roomStep), Spare: cs.spared()})
	return removed, err
}

// admitted asks whether a client may be stored, or replaced by something else.
func (cs *Clients) admitted(ctx context.Context, c storage.Client) (undo func(), err error) {
	if cs.store.Room() != storage.RoomEnough {
		return nil, fmt.Errorf("dcr: %w: %w", storage.ErrUnavailable, storage.ErrFull)
	}
	if !cs.crowd.hasPlace(c) {
		return nil, &TooMany{RetryAfter: fullRetry}
	}
	return cs.admit(ctx, c, weigh(c))
}

// fromNetwork notes the network that registers a client.
func (cs *Clients) fromNetwork(ctx context.Context, c storage.Client) (storage.Client, error) {
	from := fair.Requester(ctx)
	if !from.IsValid() {
		return c, nil
	}
	networks := fair.Networks(from)
	var err error
	c.Network, err = cs.store.NetworkName(networks[len(networks)-1])
	return c, err
}
