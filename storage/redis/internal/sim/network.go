package sim

import "time"

// pair is the names of two nodes, in order.
type pair struct{ a, b string }

// link is the connection between two machines.
type link struct {
	cuts int    // how many faults cut it
	seed uint64 // of its randomness
	held []*end // ends with messages to send again when it is healed
}

func (w *World) link(a, b *node) *link {
	p := pair{min(a.name, b.name), max(a.name, b.name)}
	l := w.links[p]
	if l == nil {
		l = &link{seed: mix(w.cfg.Seed, hash(p.a+" "+p.b))}
		w.links[p] = l
	}
	return l
}

// chance returns a random duration below a bound. It depends on the time and on the purpose of
// the connection, and not on other messages: events of the same time may come in any order.
func (w *World) chance(l *link, e *end, below time.Duration) time.Duration {
	return time.Duration(mix(mix(l.seed, uint64(w.now)), e.label) % uint64(below))
}

// hash is FNV-1a.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// mix combines two numbers to one that looks random, as SplitMix64 does.
func mix(a, b uint64) uint64 {
	z := a + 0x9e3779b97f4a7c15*(b+1)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// retransmission bounds how long after a link was healed a lost message is sent again.
const retransmission = time.Second

func (w *World) heal(l *link) {
	if l.cuts--; l.cuts > 0 {
		return
	}
	held := l.held
	l.held = nil
	for _, e := range held {
		w.at(w.now+w.chance(l, e, retransmission), func() { e.sendAgain(l) })
	}
}

// end is one end of a connection. Messages arrive in order, or not at all.
type end struct {
	id      uint64
	node    *node
	life    int
	peer    *end
	label   uint64 // the purpose
	closed  bool
	last    time.Duration // when the last message arrives
	held    []func()      // messages sent while the link was cut, and after that
	onClose func()        // the other side has closed or died
}

// connect opens a connection to a node, for the purpose in label. Its own end is usable at once.
// If no program listens there, the peer closes.
func (n *node) connect(to *node, label uint64) (own, theirs *end) {
	n.w.order++
	own = &end{id: n.w.order, node: n, life: n.life, label: label, onClose: func() {}}
	theirs = &end{id: n.w.order, node: to, life: to.life, peer: own, label: label + 1, onClose: func() {}}
	own.peer = theirs
	n.ends[own] = true
	if to.up {
		to.ends[theirs] = true
	} else {
		theirs.closed = true
		transmit(theirs, own.shut)
	}
	return own, theirs
}

// send runs f at the other end when the message has arrived there.
func (e *end) send(f func()) {
	if !e.closed {
		transmit(e, f)
	}
}

// transmit runs f at the peer of an end, after all earlier messages.
func transmit(from *end, f func()) {
	l := from.node.w.link(from.node, from.peer.node)
	if l.cuts == 0 && len(from.held) == 0 {
		from.deliver(l, f)
		return
	}
	if from.held = append(from.held, f); len(from.held) == 1 {
		l.held = append(l.held, from)
	}
}

// deliver runs f at the peer after the latency of a message.
func (e *end) deliver(l *link, f func()) {
	w, to := e.node.w, e.peer
	e.last = max(e.last+1, w.now+w.cfg.Latency+w.chance(l, e, w.cfg.Latency))
	w.at(e.last, func() {
		if to.life == to.node.life {
			to.node.do(to, func() {
				if !to.closed {
					f()
				}
			})
		}
	})
}

// sendAgain sends the held messages.
func (e *end) sendAgain(l *link) {
	if l.cuts > 0 {
		l.held = append(l.held, e)
		return
	}
	held := e.held
	e.held = nil
	for _, f := range held {
		e.deliver(l, f)
	}
}

// close closes this end, and the other one a message later.
func (e *end) close() {
	if e.closed {
		return
	}
	e.closed = true
	delete(e.node.ends, e)
	transmit(e, e.peer.shut)
}

// shut is called on an end whose peer has closed.
func (e *end) shut() {
	e.closed = true
	delete(e.node.ends, e)
	e.onClose()
}

// The purposes of connections between servers and sentinels.
const (
	forReplication = iota * 2 // the other end has the next number
	forCommands
	forMessages
)

// abandon ends an idle connection without a message.
func (e *end) abandon() {
	for _, e := range []*end{e, e.peer} {
		e.closed = true
		delete(e.node.ends, e)
	}
}
