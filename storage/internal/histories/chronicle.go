package histories

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"gatehouse.example/storage"
)

// never is later than any time: a call that may take effect at any later time may as well do so
// after all others, which is the same as not at all.
const never = int64(1) << 62

// Chronicle is the calls of some clients of one backend, with their answers. It is safe for
// concurrent use.
type Chronicle struct {
	// Keys are the keys that the clients share.
	Keys []string

	backend storage.Backend
	epoch   time.Time

	mu      sync.Mutex
	history []porcupine.Operation
	known   map[string]storage.Version // the last version read under a key
	count   Count
}

// Count is how many calls were answered, are uncertain ([storage.ErrUncertain]), and certainly
// failed.
type Count struct{ Answered, Uncertain, Failed int }

// New returns an empty chronicle of a backend, with a number of new keys.
func New(b storage.Backend, keys int) *Chronicle {
	c := &Chronicle{backend: b, epoch: time.Now(), known: map[string]storage.Version{}}
	for range keys {
		c.Keys = append(c.Keys, rand.Text())
	}
	return c
}

// Count returns how the calls ended.
func (c *Chronicle) Count() Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Check returns the error that there is no order of all calls in which all answers are correct, with
// a readable history. An uncertain call took effect once, at some time after it began, or never; one
// that certainly failed took none.
func (c *Chronicle) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := check(c.history); got != porcupine.Ok {
		return fmt.Errorf("the history is %s:\n%s", got, transcript(c.history))
	}
	return nil
}

// Do makes one call of a client, and returns the error of the backend unless it is a plain answer:
// a conflict or a key with nothing under it.
func (c *Chronicle) Do(ctx context.Context, client int, a Call) error {
	begin := time.Since(c.epoch).Nanoseconds()
	out, err := c.ask(ctx, a)
	end := time.Since(c.epoch).Nanoseconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, storage.ErrUncertain):
		c.count.Uncertain++
		out, end = Answer{Unknown: true}, never
	case err != nil: // it certainly had no effect
		c.count.Failed++
		return err
	default:
		c.count.Answered++
		if !a.Delete {
			c.known[a.Key] = out.Version
		}
	}
	c.history = append(c.history, porcupine.Operation{ClientId: client, Input: a, Call: begin, Output: out, Return: end})
	return err
}

func (c *Chronicle) ask(ctx context.Context, a Call) (Answer, error) {
	var item storage.Item
	var err error
	switch {
	case a.Delete:
		return Answer{}, c.backend.Delete(ctx, a.Key)
	case a.writes():
		item, err = c.backend.Put(ctx, a.Put)
	default:
		item, err = c.backend.Get(ctx, a.Key)
	}
	out := Answer{Version: item.Version, Data: string(item.Data), Conflict: errors.Is(err, storage.ErrConflict)}
	if out.Conflict || errors.Is(err, storage.ErrNotFound) {
		err = nil
	}
	return out, err
}

// Choose draws the next call of a client.
func (c *Chronicle) Choose() Call {
	a := Call{Key: c.Keys[mathrand.IntN(len(c.Keys))]}
	c.mu.Lock()
	known := c.known[a.Key]
	c.mu.Unlock()
	switch n := mathrand.IntN(20); {
	case n < 6:
		return a
	case n < 7:
		a.Delete = true
		return a
	case n < 9:
		a.Put.If = storage.Always
	default:
		a.Put.If = storage.Unchanged(known)
	}
	a.Put.Key, a.Put.TTL = a.Key, time.Hour
	_, _ = rand.Read(a.Put.Operation[:]) // never fails
	a.Put.Data = fmt.Appendf(nil, "%x", a.Put.Operation[:4])
	return a
}
