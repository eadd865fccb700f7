package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// lookup is the introspection of one token. Its other fields do not change once done is closed.
type lookup struct {
	done   chan struct{}
	asked  time.Time
	answer answer
	err    error // a challenge for a token that is not valid
}

// ask returns the response of the issuer about a valid token, and the time until which it may
// be used. The error is a [challenge] when the token is not valid, and wraps errIntrospection
// when the token cannot be looked up. Concurrent calls for one token share a lookup, which goes
// on when some of them are cancelled.
func (i *introspector) ask(ctx context.Context, token string) (*answer, time.Time, error) {
	l := i.lookup(ctx, i.id(token), token)
	select {
	case <-l.done:
		return &l.answer, l.asked.Add(i.Fresh), l.err
	case <-ctx.Done():
		return nil, time.Time{}, i.fault(ctx.Err())
	}
}

// id identifies a lookup. It covers the issuer, the resource and the token, each with its length
// before it, so that different lists of them have different ids.
func (i *introspector) id(token string) digest {
	h := sha256.New()
	for _, part := range [...]string{i.issuer.name, i.issuer.accepted[0], token} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return digest(h.Sum(nil))
}

// lookup returns a cached lookup, joins the one in progress, or starts one.
func (i *introspector) lookup(ctx context.Context, id digest, token string) *lookup {
	if l := i.cached(id); l != nil {
		return l
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if l := i.lookups[id]; l != nil {
		return l
	}
	if l := i.cached(id); l != nil {
		return l // it was added while this request waited for the lock
	}
	l := &lookup{done: make(chan struct{}), asked: i.issuer.now()}
	if len(i.lookups) >= maxLookups {
		l.err = i.fault(fmt.Errorf("%d lookups are in progress", len(i.lookups)))
		i.warn(l.err)
		close(l.done)
		return l
	}
	if err := i.budget.take(id, l.asked); err != nil {
		l.err = i.fault(err)
		i.warn(l.err)
		close(l.done)
		return l
	}
	i.lookups[id] = l
	go i.resolve(i.watch.outlived(ctx), l, id, token)
	return l
}

func (i *introspector) cached(id digest) *lookup {
	now := i.issuer.now()
	if l := i.active.get(id, now); l != nil {
		return *l
	}
	if l := i.inactive.get(id, now); l != nil {
		return *l
	}
	return nil
}

// resolve runs a lookup and caches the response. It does not cache failures.
func (i *introspector) resolve(ctx context.Context, l *lookup, id digest, token string) {
	l.answer, l.err = i.watchedRequest(ctx, token)
	if l.err == nil {
		l.err = l.answer.check(i.issuer, i.issuer.now())
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now, until := i.issuer.now(), l.asked.Add(i.Fresh)
	switch {
	case l.err == nil:
		if end := l.answer.Expiry.Add(i.issuer.rules.leeway); end.Before(until) {
			until = end
		}
		i.active.put(id, l, now, until)
		i.budget.know(id, now)
	case isRefusal(l.err):
		i.inactive.put(id, l, now, until)
	default:
		i.budget.pause(l.err, now)
		l.err = i.fault(l.err)
		i.warn(l.err)
	}
	delete(i.lookups, id)
	close(l.done)
}
