package redis

import (
	"context"
	"errors"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// vouch returns nil if a majority of the primaries lists the server at an address as one, by a
// look that began at most vouchTime before a time, or by one that is made now. An address that no
// answer has named is not judged: the cluster lists that server by another address.
func (r *ring) vouch(ctx context.Context, addr string, at time.Time) error {
	if _, known := r.named.Load(addr); !known || r.last.Load().vouches(addr, at) {
		return nil
	}
	select {
	case r.looking <- struct{}{}:
		defer func() { <-r.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if last := r.last.Load(); last == nil || last.began.Before(at) { // otherwise another goroutine has looked since
		_, _ = r.lookNow(ctx)
	}
	if r.last.Load().vouches(addr, at) {
		return nil
	}
	r.client.ReloadState(ctx) // another server may have taken over
	return errUnvouched
}

func (v *ringView) vouches(addr string, at time.Time) bool {
	return v != nil && v.primaries[addr] && at.Sub(v.began) <= vouchTime
}

// vouchHook has each answer of a server about keys checked by [ring.vouch]. It is a hook of the
// client of one server, because only there the answering server is certain.
type vouchHook struct {
	ring *ring
	addr string
}

// aboutKeys are the commands whose answers are checked.
var aboutKeys = []string{"get", "set", "del", "eval", "evalsha", "zadd", "zrem", "zrangebylex", "zrevrangebylex", "zcard", "scan"}

// DialHook implements goredis.Hook.
func (vouchHook) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements goredis.Hook.
func (h vouchHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, cmd)
		if !answered(cmd, err) {
			return err
		}
		if unvouched := h.ring.vouch(ctx, h.addr, time.Now()); unvouched != nil {
			return unvouched
		}
		return err
	}
}

// ProcessPipelineHook implements goredis.Hook. An answer that a majority does not vouch for
// becomes an error: a read counts as unanswered, the outcome of a write is unknown.
func (h vouchHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		err := next(ctx, cmds)
		at := time.Now()
		for _, cmd := range cmds {
			if !answered(cmd, cmd.Err()) {
				continue
			}
			if unvouched := h.ring.vouch(ctx, h.addr, at); unvouched != nil {
				cmd.SetErr(unvouched)
			}
		}
		return err
	}
}

// answered reports whether a command was answered with something about keys.
func answered(cmd goredis.Cmder, err error) bool {
	return (err == nil || errors.Is(err, goredis.Nil)) && slices.Contains(aboutKeys, cmd.Name())
}
