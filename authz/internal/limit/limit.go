// Package limit slows down guessing without locking anybody out, and bounds how often
// somebody may do something.
//
// [Guesses] counts failures per key, such as an account together with the network that
// asks. The first ten cost nothing. From then on attempts for that key stand in line, at
// first a tenth of a second apart, then up to a second, so that a program that guesses
// gets one answer a second and a person who finally remembers still gets in. Whoever
// would have to stand in line too long is turned away with [ErrBusy]. Other keys do not
// notice.
//
// What is refused: an attempt that would wait longer than five seconds. What is kept is
// bounded: keys are forgotten after a quarter of an hour without an attempt, and there
// are never more than ten thousand.
//
//	if err := guesses.Wait(ctx, key); err != nil {
//		return err // limit.ErrBusy, or the context's error
//	}
//	if right { guesses.Forget(key) } else { guesses.Failed(key) }
package limit

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

// ErrBusy says that too many attempts for a key are waiting.
var ErrBusy = errors.New("limit: too many attempts")

const (
	freeFailures = 10                     // before anything slows down
	firstSpacing = 100 * time.Millisecond // after them; doubled every stepFailures
	stepFailures = 5
	lastSpacing  = time.Second
	longestWait  = 5 * time.Second
	forgetAfter  = 15 * time.Minute
	sweepEvery   = time.Minute
	maxKeys      = 10_000
)

// Guesses counts failures per key. It is safe for concurrent use.
type Guesses struct {
	now   func() time.Time
	mu    sync.Mutex
	keys  map[string]*record
	swept time.Time // when old keys were last looked for
}

// record is what is known of a key.
type record struct {
	failures int
	free     time.Time // when the next attempt may begin
	seen     time.Time
}

// NewGuesses returns an empty count that reads the clock now.
func NewGuesses(now func() time.Time) *Guesses {
	return &Guesses{now: now, keys: map[string]*record{}}
}

// Wait returns when it is the caller's turn. The error is [ErrBusy] when that would take
// too long, or the context's.
func (g *Guesses) Wait(ctx context.Context, key string) error {
	wait, err := g.reserve(key)
	if err != nil || wait <= 0 {
		return err
	}
	turn := time.NewTimer(wait)
	defer turn.Stop()
	select {
	case <-turn.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve takes the next place in line.
func (g *Guesses) reserve(key string) (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.keys[key]
	if !ok {
		return 0, nil
	}
	now := g.now()
	r.seen = now
	begin := now
	if r.free.After(now) {
		begin = r.free
	}
	if begin.Sub(now) > longestWait {
		return 0, ErrBusy
	}
	r.free = begin.Add(r.spacing())
	return begin.Sub(now), nil
}

// spacing is how far attempts of a key are apart.
func (r *record) spacing() time.Duration {
	if r.failures < freeFailures {
		return 0
	}
	spacing := firstSpacing << min((r.failures-freeFailures)/stepFailures, 8)
	return min(spacing, lastSpacing)
}

// Failed counts a failure.
func (g *Guesses) Failed(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.keys[key]
	if !ok {
		g.makeRoom()
		r = &record{}
		g.keys[key] = r
	}
	r.failures++
	r.seen = g.now()
}

// Forget ends the count of a key: the right answer was given.
func (g *Guesses) Forget(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.keys, key)
}

// makeRoom keeps the number of keys bounded. Old ones go first; if all are fresh, any
// goes, and its count starts again.
func (g *Guesses) makeRoom() {
	if len(g.keys) < maxKeys {
		return
	}
	if now := g.now(); now.Sub(g.swept) >= sweepEvery {
		g.swept = now
		maps.DeleteFunc(g.keys, func(_ string, r *record) bool { return now.Sub(r.seen) > forgetAfter })
	}
	for key := range g.keys {
		if len(g.keys) < maxKeys {
			return
		}
		delete(g.keys, key)
	}
}
