package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"gatehouse.example/internal/fair"
)

// lookup is the introspection of one token. Its first four fields do not change once done is closed.
type lookup struct {
	done   chan struct{}
	asked  time.Time
	answer answer
	err    error // a challenge for a token that is not valid

	// The rest is guarded by the lock of the introspector.
	from  map[string]bool // the networks in whose turn it may begin
	turns int             // those that wait
	begun bool
	waits context.Context // of the turns: it ends when one has begun it, or none can
	ends  context.CancelFunc
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

// lookup returns a cached lookup, joins the one in progress, or starts one. One in progress that waits
// for its turn also gets one in the network of this request: nobody waits for the turn of another
// network.
func (i *introspector) lookup(ctx context.Context, id digest, token string) *lookup {
	if l := i.cached(id); l != nil {
		return l
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.lookups[id]
	if l == nil {
		if l := i.cached(id); l != nil {
			return l // it was added while this request waited for the lock
		}
		l = &lookup{done: make(chan struct{}), from: map[string]bool{}}
		l.waits, l.ends = context.WithTimeout(context.Background(), totalTimeout)
		i.lookups[id] = l
	}
	addr := fair.Requester(ctx)
	network := fair.Networks(addr)[0]
	if !l.begun && !l.from[network] {
		l.from[network] = true
		l.turns++
		go i.turn(i.watch.outlived(ctx), l, addr, id, token)
	}
	return l
}

// turn runs a lookup when the network of a requester has its turn, unless it is run by then.
func (i *introspector) turn(ctx context.Context, l *lookup, addr netip.Addr, id digest, token string) {
	leave, err := i.places.Enter(l.waits, "", addr)
	if i.begin(l, addr, id, err) {
		i.resolve(ctx, l, id, token)
	}
	if err == nil {
		leave()
	}
}

// begin reports whether a turn is the one that runs a lookup. One that is refused, by the queue or by the
// budget of its network, leaves it to the others. It ends a lookup that none can run.
func (i *introspector) begin(l *lookup, addr netip.Addr, id digest, busy error) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if l.turns--; l.begun {
		return false
	}
	if l.asked = i.issuer.now(); busy == nil {
		busy = i.budget.take(id, addr, l.asked)
	}
	if busy != nil && l.turns > 0 {
		delete(l.from, fair.Networks(addr)[0]) // the next request from there gets another turn
		return false
	}
	l.begun = true
	l.ends()
	if busy != nil {
		l.err = i.fault(busy)
		i.warn(l.err)
		delete(i.lookups, id)
		close(l.done)
	}
	return busy == nil
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
