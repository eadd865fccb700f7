package dcr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

const (
	// spareTime is the time for which an unused client is not removed after it registered, and
	// after it sent a person to the authorization endpoint. It allows for signing in and
	// deciding, and some time to begin.
	spareTime = 15 * time.Minute
	// askStep is the precision of the recorded time at which a client sent a person.
	askStep = 5 * time.Minute
	// fullRetry is the Retry-After of a registration for which there is no place. By then
	// some clients are older than spareTime.
	fullRetry = time.Minute
	// networkPart is the fraction of unused clients that one network may have: a tenth.
	networkPart = 10
	// roomStep is the number of unused clients that are removed at a time while the store is
	// nearly full.
	roomStep = 200
)

// maxNoted bounds the lists, and the clients, that are noted between two calls of
// [Clients.Tend]. Beyond it only the bound on all clients applies.
const maxNoted = 4096

// unusedLists tracks the lists of clients that have never been used, as far as this process
// changed them. Its zero value is ready for use.
type unusedLists struct {
	mu         sync.Mutex
	noted      map[storage.Bound]bool // the lists that became longer
	sentPerson map[string]time.Time   // clients that sent a person here, by id, and when
	full       map[storage.Bound]bool // the lists that have too many, all of which are spared
}

// note records that a client was registered.
func (c *unusedLists) note(of storage.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noted == nil {
		c.noted = map[storage.Bound]bool{}
	}
	// The lists that the client is in until it is used, besides the list of all.
	for _, b := range [...]storage.Bound{{Software: of.Software}, {Network: of.Network}} {
		if len(c.noted) < maxNoted {
			c.noted[b] = true
		}
	}
	c.noted[storage.Bound{}] = true
}

// noteAll notes lists that are still to be bounded.
func (c *unusedLists) noteAll(lists []storage.Bound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noted == nil {
		c.noted = map[storage.Bound]bool{}
	}
	for _, b := range lists {
		c.noted[b] = true
	}
}

// askAgain notes clients that sent a person, and that is still to be written.
func (c *unusedLists) askAgain(sent map[string]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, at := range c.sentPerson {
		if _, again := sent[id]; again || len(sent) < maxNoted {
			sent[id] = at // the later time
		}
	}
	c.sentPerson = sent
}

// take removes and returns what was noted: networks first, then softwares, and the list of
// all clients last.
func (c *unusedLists) take() (noted []storage.Bound, asked map[string]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	noted, asked = slices.SortedFunc(maps.Keys(c.noted), order), c.sentPerson
	c.noted, c.sentPerson = nil, nil
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

// setFull records whether a list is full. A full list is bounded again at the next
// [Clients.Tend].
func (c *unusedLists) setFull(list storage.Bound, full bool) {
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

// hasPlace reports whether neither the list of all clients nor that of the client's network
// is full. The list of a software does not matter: filling it must not keep out other clients
// of the same software.
func (c *unusedLists) hasPlace(of storage.Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.full[storage.Bound{}] && (of.Network == "" || !c.full[storage.Bound{Network: of.Network}])
}

// Asked notes that a client sent a person to the authorization endpoint, so that the client
// is not removed in favour of others while the person signs in. It does nothing for a client
// that stays for a while anyway; otherwise the next [Clients.Tend] writes it to the store, for
// all processes.
func (cs *Clients) Asked(of storage.Client) {
	now := cs.now()
	safe := latest(of.Created.Add(askStep), of.Asked.Add(askStep)) // and spareTime after that
	if of.Source != storage.ClientRegistered || of.Expires.IsZero() || now.Before(safe) {
		return
	}
	c := cs.unused
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sentPerson == nil {
		c.sentPerson = map[string]time.Time{}
	}
	if len(c.sentPerson) < maxNoted {
		c.sentPerson[of.ID] = now
	}
}

// Tend bounds the number of clients that have never been used: in all, and for each software
// and each network from which this process registered clients since the last call. A client
// that registered or sent a person in the last 15 minutes stays; while there are too many of
// those, registrations are refused. Call Tend every few seconds; it does nothing if there was
// no registration. The next call continues after an error.
func (cs *Clients) Tend(ctx context.Context) error {
	noted, asked := cs.unused.take()
	if err := cs.writeAsked(ctx, asked); err != nil && !errors.Is(err, storage.ErrFull) { // if it is full, removing goes on
		cs.unused.noteAll(noted)
		return fmt.Errorf("dcr: tend: %w", err)
	}
	removed := 0
	defer func() {
		if removed > 0 {
			cs.log.InfoContext(ctx, "unused clients were removed in favour of new ones", "clients", removed)
		}
	}()
	for i, list := range noted {
		n, err := cs.bound(ctx, list, noted)
		if removed += n; err != nil {
			cs.unused.noteAll(noted[i:])
			return fmt.Errorf("dcr: tend: %w", err)
		}
	}
	n, err := cs.makeRoom(ctx)
	if removed += n; err != nil {
		return fmt.Errorf("dcr: tend: %w", err)
	}
	return nil
}

// writeAsked writes which clients sent a person. The next call writes those that an error leaves.
func (cs *Clients) writeAsked(ctx context.Context, asked map[string]time.Time) error {
	for id, at := range asked {
		err := cs.store.AskForClient(ctx, id, at)
		if err != nil && !errors.Is(err, storage.ErrRecord) { // a client that cannot be read is not removed for others
			cs.unused.askAgain(asked)
			return err
		}
		delete(asked, id)
	}
	return nil
}

// spared returns the time after which a client must have registered or sent a person to stay.
func (cs *Clients) spared() time.Time { return cs.now().Add(-spareTime - askStep) }

// bound bounds one list and returns how many clients it removed. If there are too many in
// all, clients of the network with most of them are removed first.
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
		cs.unused.setFull(list, full)
	}
	return removed + n, err
}

// levelNetworks removes the excess of the list of all clients from the network with most
// clients, among the networks in noted.
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

// admitted decides whether a client may be stored, or replaced by its owner.
func (cs *Clients) admitted(ctx context.Context, c storage.Client) (undo func(), err error) {
	if cs.store.Room() != storage.RoomEnough {
		return nil, fmt.Errorf("dcr: %w: %w", storage.ErrUnavailable, storage.ErrFull)
	}
	if !cs.unused.hasPlace(c) {
		return nil, &TooMany{RetryAfter: fullRetry}
	}
	return cs.admit(ctx, c, weigh(c))
}

// fromNetwork returns c with the name of the network that registers it.
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
