package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// record is the acknowledged state of a client and of the family of its tokens.
type record struct {
	client string
	grant  storage.Grant // as it was prepared
	code   string

	// Acknowledged; these only grow.
	registered, consented, redeemed, revoked bool
	generation                               uint32 // of the newest refresh token of the client

	// Sent, and possibly in effect.
	spoiled bool // a code was sent again, so the family may end
	ending  bool // a revocation was sent
	tokens  int  // how often the code gave tokens
	dead    bool // the client has given it up
}

// errRefused stands for invalid_grant.
var errRefused = errors.New("invalid_grant")

// refreshWindow is longer than any outage of a schedule, so that a repeated refresh is never too
// late.
const refreshWindow = 5 * time.Minute

// person registers clients at a process, and uses them at any.
func (r *run) person(at int, rnd *rand.Rand) {
	think := func() { time.Sleep(50*time.Millisecond + time.Duration(rnd.Int64N(int64(200*time.Millisecond)))) }
	for n := 0; !r.ended(); n++ {
		rec := r.begin(at, fmt.Sprintf("client-%d-%d-%d", at, n, rnd.Uint32()))
		if rec == nil {
			think()
			continue
		}
		life{r, rec, rnd, think}.live()
	}
}

// begin registers a client and gives it a code; nil if one of that was not acknowledged.
func (r *run) begin(at int, client string) *record {
	rec := &record{client: client}
	r.mu.Lock()
	r.records = append(r.records, rec)
	r.mu.Unlock()
	if r.register(at, rec) != nil {
		return nil
	}
	if r.consent(at, rec) != nil {
		return nil
	}
	return rec
}

// life is the life of a family.
type life struct {
	*run
	rec   *record
	rnd   *rand.Rand
	think func()
}

func (l life) anywhere() int { return l.rnd.IntN(len(l.stores)) }

// until tries at random processes until there is an answer, and reports whether it was a success.
func (l life) until(do func(int, *record) error) bool {
	for !l.ended() {
		l.think()
		err := do(l.anywhere(), l.rec)
		if err == nil || errors.Is(err, errRefused) {
			return err == nil
		}
	}
	return false
}

// live has a family redeemed, refreshed, introspected and mostly revoked; a call that was
// answered with 503 is tried again at another process.
func (l life) live() {
	if l.rnd.IntN(4) == 0 {
		time.Sleep(time.Duration(l.rnd.Int64N(int64(10 * time.Second)))) // some hesitate
	}
	if !l.until(l.redeem) {
		return
	}
	if l.rnd.IntN(6) == 0 {
		for range 5 { // some send their code again and again
			time.Sleep(time.Duration(l.rnd.Int64N(int64(5 * time.Second))))
			l.replay(l.anywhere(), l.rec)
		}
		return
	}
	for range 2 + l.rnd.IntN(12) {
		if !l.until(l.refresh) {
			return
		}
		l.think()
		l.look(context.Background(), l.anywhere(), l.rec)
	}
	if l.rnd.IntN(4) > 0 { // the others stay
		l.until(l.revoke)
		l.afterEnd()
	}
}

// afterEnd tries operations that a family that has ended must refuse.
func (l life) afterEnd() {
	for range 3 {
		l.think()
		l.look(context.Background(), l.anywhere(), l.rec)
		l.tryRevoked(l.anywhere(), l.rec)
	}
	l.think()
	if l.rnd.IntN(2) == 0 {
		l.replay(l.anywhere(), l.rec)
	}
}

// done counts an operation, and logs it.
func (r *run) done(what string, i int, rec *record, err error) error {
	if err != nil {
		r.note("P%d %s %s: %v", i+1, what, rec.client, err)
	} else {
		r.note("P%d %s %s", i+1, what, rec.client)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && !errors.Is(err, errRefused) {
		r.refused++
		return err
	}
	r.answered++
	if now := time.Now(); err == nil && !strings.HasPrefix(what, "introspect") {
		if !r.written.IsZero() {
			r.silence = max(r.silence, now.Sub(r.written))
		}
		r.written = now
	}
	return err
}

func (r *run) register(i int, rec *record) error {
	err := r.stores[i].CreateClient(context.Background(), storage.Client{
		ID: rec.client, Source: storage.ClientRegistered, Metadata: metadata.Client{}, Created: time.Now(),
		Expires: time.Now().Add(time.Hour),
	})
	if err == nil {
		rec.registered = true
	}
	return r.done("register", i, rec, err)
}

func (r *run) consent(i int, rec *record) error {
	g, code, err := r.stores[i].PrepareGrant(storage.NewGrant{
		ClientID: rec.client, Subject: "person", Resources: []string{"https://rs.example.com"}, Refreshable: true, CodeTTL: time.Hour,
	})
	if err != nil {
		return err
	}
	rec.grant, rec.code = g, code
	if err = r.stores[i].CreateGrant(context.Background(), g); err == nil {
		rec.consented = true
	}
	return r.done("consent", i, rec, err)
}

func lifetime1h() storage.Lifetime {
	until := time.Now().Add(time.Hour)
	return storage.Lifetime{Expires: until, IdleExpires: until, AccessUntil: until}
}

// redeem does what authz/redeem.go does with the code of a record.
func (r *run) redeem(i int, rec *record) error {
	ctx, s := context.Background(), r.stores[i]
	g, err := s.Grant(ctx, rec.grant.ID)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if !rec.ending {
			r.violation("lost: P%d does not know the grant of %s", i+1, rec.client)
		}
		return r.done("redeem", i, rec, errRefused)
	case err != nil:
		return r.done("redeem", i, rec, err)
	case g.State != storage.GrantCode:
		rec.spoiled = true
		if g.State == storage.GrantActive && !g.Unanswered {
			if err = s.Revoke(ctx, g.ID, "the code was used twice"); err != nil {
				return r.done("redeem", i, rec, err)
			}
		}
		return r.done("redeem", i, rec, errRefused)
	}
	g, err = s.Redeem(ctx, g, lifetime1h())
	if errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrLineage) {
		return r.done("redeem", i, rec, errRefused)
	}
	if err == nil {
		rec.redeemed = true
		if rec.tokens++; rec.tokens > 1 {
			r.violation("twice: the code of %s gave tokens twice", rec.client)
		}
	}
	return r.done("redeem", i, rec, err)
}

// refresh does what authz/refresh.go does with the newest refresh token of a record.
func (r *run) refresh(i int, rec *record) error {
	generation := rec.generation
	g, err := r.rotate(i, rec, generation)
	switch {
	case err == nil:
		rec.generation = g.Generation
	case errors.Is(err, errRefused) && !rec.spoiled && !rec.ending:
		r.violation("honest: P%d refuses the newest refresh token of %s, generation %d", i+1, rec.client, generation)
		rec.dead = true
	}
	return r.done(fmt.Sprintf("refresh %d of", generation), i, rec, err)
}

// rotate answers a refresh token of a generation with the grant that has the next one.
func (r *run) rotate(i int, rec *record, generation uint32) (storage.Grant, error) {
	ctx, s := context.Background(), r.stores[i]
	g, err := s.Grant(ctx, rec.grant.ID)
	for range 16 {
		switch {
		case err != nil:
			return g, refusedIfGone(err)
		case g.State != storage.GrantActive:
			return g, errRefused
		case generation > g.Generation:
			var ok bool
			if g, ok, err = s.Remember(ctx, g, generation); err != nil || !ok {
				return g, r.reused(ctx, s, rec.grant.ID, err)
			}
		}
		switch {
		case generation == g.Generation:
			g, err = s.Rotate(ctx, g, lifetime1h())
		case generation+1 == g.Generation && time.Since(g.Rotated) < refreshWindow:
			g, err = s.Confirm(ctx, g) // the earlier answer again
		default:
			return g, r.reused(ctx, s, rec.grant.ID, nil)
		}
		if !errors.Is(err, storage.ErrConflict) {
			return g, refusedIfGone(err)
		}
		err = nil // another caller has changed it
	}
	return g, storage.ErrUnavailable
}

func refusedIfGone(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return errRefused
	}
	return err
}

func (r *run) reused(ctx context.Context, s *storage.Store, id string, err error) error {
	if err == nil {
		err = s.Revoke(ctx, id, "an old refresh token was used again")
	}
	if err == nil {
		err = errRefused
	}
	return err
}

func (r *run) revoke(i int, rec *record) error {
	rec.ending = true
	err := r.stores[i].Revoke(context.Background(), rec.grant.ID, "the person said so")
	if err == nil {
		rec.revoked = true
	}
	return r.done("revoke", i, rec, err)
}

// tryRevoked presents the refresh token of a family that was revoked.
func (r *run) tryRevoked(i int, rec *record) {
	if !rec.revoked {
		return
	}
	_, err := r.rotate(i, rec, rec.generation)
	if err == nil {
		r.violation("revoked: P%d gives tokens for the revoked family of %s", i+1, rec.client)
	}
	_ = r.done("refresh after the end of", i, rec, err)
}

// replay sends a code once more, which ends its family.
func (r *run) replay(i int, rec *record) {
	rec.ending = true
	_ = r.redeem(i, rec)
}

// look checks a read grant against the acknowledged state.
func (r *run) look(ctx context.Context, i int, rec *record) {
	known := *rec
	if known.registered {
		_, err := r.stores[i].Client(ctx, known.client)
		if errors.Is(err, storage.ErrNotFound) {
			r.violation("lost: P%d does not know the client %s", i+1, known.client)
		}
	}
	if !known.consented {
		return
	}
	g, err := r.stores[i].Grant(ctx, known.grant.ID)
	_ = r.done(fmt.Sprintf("introspect (%s %d)", g.State, g.Generation), i, rec, err)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		r.violation("lost: P%d does not know the grant of %s", i+1, known.client)
	case err != nil || g.State == storage.GrantRevoked:
	case known.revoked:
		r.violation("revoked: at P%d the revoked family of %s is alive", i+1, known.client)
	case known.redeemed && g.State == storage.GrantCode:
		r.violation("lost: P%d does not know that the code of %s was redeemed", i+1, known.client)
	case g.Generation < known.generation:
		r.violation("lost: P%d knows generation %d of %s, and %d was acknowledged", i+1, g.Generation, known.client, known.generation)
	}
}

// everything runs one life of a family at a process, without an error.
func (r *run) everything(i int) error {
	rec := r.begin(i, fmt.Sprintf("after-%d-%d", i, time.Now().UnixNano()))
	if rec == nil {
		return errors.New("nobody can register")
	}
	for _, do := range []func(int, *record) error{r.redeem, r.refresh, r.revoke} {
		if err := do(i, rec); err != nil {
			return err
		}
	}
	r.look(context.Background(), i, rec)
	return nil
}
