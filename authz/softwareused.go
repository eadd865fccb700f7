package authz

import (
	"context"
	"errors"
	"sync"
	"time"

	"gatehouse.example/storage"
)

// usedSoftware is the purpose of the values by which software is known of which a client was used,
// and softwareKept the time for which it stays known after that.
const (
	usedSoftware = "software in use"
	softwareKept = 90 * 24 * time.Hour
)

// recordSoftware records that clients of software were used. What is on record stays as it is, so
// most calls write nothing.
func (c *chores) recordSoftware(ctx context.Context, used map[string]time.Time) error {
	for software, at := range used {
		err := c.store.TakeOnce(ctx, usedSoftware, software, at.Add(softwareKept))
		if err != nil && !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return nil
}

// softwareUsed schedules the recording that a client of a software is used, if the last use that is
// on record with the client is old enough.
func (c *chores) softwareUsed(client storage.Client) {
	now := c.now()
	if client.Software == "" || now.Sub(client.LastUsed) < storage.UseStep {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.software) < maxChores {
		c.software[client.Software] = now
	}
}

// takeSoftware returns what is to be recorded.
func (c *chores) takeSoftware() map[string]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.software
	c.software = map[string]time.Time{}
	return used
}

// knownSoftware tells of which software a client was used, and remembers the answers for a while, so
// that a flood of equal registrations asks the store no more than that.
type knownSoftware struct {
	store *storage.Store
	now   func() time.Time

	mu      sync.Mutex
	answers map[string]bool
	since   time.Time
}

// knownFor is the time after which software is asked for again that became known elsewhere, and
// maxKnown the greatest number of answers. Those who are asked for have half of a limit, so there are
// few.
const (
	knownFor = 10 * time.Second
	maxKnown = 64
)

// ask reports whether a client of software was used, as of at most knownFor ago.
func (k *knownSoftware) ask(ctx context.Context, software string) (bool, error) {
	if known, ok := k.remembered(software); ok {
		return known, nil
	}
	known, err := k.store.Taken(ctx, usedSoftware, software)
	if err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[software] = known
	return known, nil
}

func (k *knownSoftware) remembered(software string) (known, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); k.answers == nil || now.Sub(k.since) >= knownFor || now.Before(k.since) || len(k.answers) >= maxKnown {
		k.answers, k.since = map[string]bool{}, now
	}
	known, ok = k.answers[software]
	return known, ok
}
