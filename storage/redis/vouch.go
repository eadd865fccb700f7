package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// primary returns the trusted primary. If there is none or its lease is over, it waits for
// another look. A primary without a lease may be used, but its answers have to be confirmed.
func (g *group) primary(ctx context.Context) (*standing, error) {
	v := g.now.Load()
	if !v.Holds(v.Lineage, time.Now()) {
		v = g.after(ctx, time.Now())
	}
	if v.Doubt != nil {
		return nil, certain(v.doubt())
	}
	return v, nil
}

func (v *standing) doubt() error {
	return fmt.Errorf("storage/redis: %w: %w", errPrimary, errors.Join(v.Doubt, v.err))
}

// errPrimary is the error while no answer would be certain.
var errPrimary = errors.New("it is not certain which server is primary")

// vouch makes sure that the primary of a standing was the only one when it answered: its lease
// lasts, or a look that begins now finds it in the same term with a lease, or all other servers
// follow it.
func (g *group) vouch(ctx context.Context, v *standing) error {
	if g.now.Load().Holds(v.Lineage, time.Now()) {
		return nil
	}
	now := g.after(ctx, time.Now())
	switch {
	case now.Holds(v.Lineage, time.Now()):
		return nil
	case now.Doubt != nil:
		return now.doubt()
	case now.Lineage != v.Lineage:
		return fmt.Errorf("storage/redis: %w: another server was promoted", errPrimary)
	}
	return g.allFollow(ctx, now)
}

// beatScript writes the mark KEYS[1] once more, so that replicas have a write to confirm.
const beatScript = `local mark = redis.call('GET', KEYS[1]); if mark then redis.call('SET', KEYS[1], mark) end`

// allFollow has all other servers confirm that they follow the primary: then none of them is a
// primary.
func (g *group) allFollow(ctx context.Context, v *standing) error {
	if v.Listed == 0 {
		return fmt.Errorf("storage/redis: %w: the sentinels do not confirm it", errPrimary)
	}
	get := goredis.NewCmd(ctx, "eval", beatScript, "1", termKey)
	wait := goredis.NewIntCmd(ctx, "wait", strconv.Itoa(v.Listed), milliseconds(within(ctx, waitTime)))
	together(ctx, v.client, get, wait)
	if err := errors.Join(unlessNil(get.Err()), wait.Err()); err != nil {
		return fmt.Errorf("storage/redis: %w: the sentinels do not confirm it: %w", errPrimary, err)
	}
	if int(wait.Val()) < v.Listed {
		return fmt.Errorf("storage/redis: %w: the sentinels do not confirm it, and %d of %d servers follow", errPrimary, wait.Val(), v.Listed)
	}
	return nil
}

// read runs commands on the primary that change nothing.
func (g *group) read(ctx context.Context, run func(goredis.UniversalClient) error) error {
	v, err := g.primary(ctx)
	if err != nil {
		return err
	}
	if err = run(v.client); err != nil && !isReply(err) {
		g.lookAgain()
		return err
	}
	if doubt := g.vouch(ctx, v); doubt != nil {
		return doubt
	}
	return err
}

// confirmations returns how many replicas have to confirm a write. If fewer follow when ctx ends,
// or after commandTime, the error means that nothing is written.
func (g *group) confirmations(ctx context.Context, v *standing) (int, *standing, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	for {
		need := v.Confirm
		if !v.Holds(v.Lineage, time.Now()) {
			need = v.Listed
		}
		if need <= len(v.Following) {
			return need, v, nil
		}
		rest(ctx, restTime)
		again := g.after(ctx, time.Now())
		if again.Doubt != nil {
			return 0, nil, certain(again.doubt())
		}
		if v = again; ctx.Err() != nil {
			return 0, nil, certain(fmt.Errorf("storage/redis: %w: %d replicas follow the primary", errAlone, len(v.Following)))
		}
	}
}

// errAlone is the error of a write that no replica could confirm.
var errAlone = errors.New("no other server would have the write")
