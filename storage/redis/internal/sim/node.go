package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// node is a machine with one program on it.
type node struct {
	w          *World
	name, addr string
	rnd        *rand.Rand

	up    bool
	life  int // the number of starts of the program
	awake bool
	wakes time.Duration // the end of a stall, if it is stalled
	inbox []arrival     // what arrived meanwhile
	due   []func()      // timers that expired meanwhile
	ends  map[*end]bool // of its connections

	crashed   func() // has the program lose its memory
	restarted func()
}

func (w *World) newNode(name, addr string) *node {
	n := &node{
		w: w, name: name, addr: addr, up: true, awake: true, ends: map[*end]bool{},
		rnd:     rand.New(rand.NewPCG(w.cfg.Seed, uint64(len(w.nodes)))),
		crashed: func() {}, restarted: func() {},
	}
	w.nodes[name], w.addrs[addr] = n, n
	return n
}

// arrival is a message that arrived on a connection.
type arrival struct {
	on *end
	do func()
}

// do runs f for a message on a connection, when the program is awake.
func (n *node) do(on *end, f func()) {
	switch {
	case !n.up:
	case n.awake:
		f()
	default:
		n.inbox = append(n.inbox, arrival{on, f})
	}
}

// after runs f later, unless the program crashes before.
func (n *node) after(d time.Duration, f func()) {
	life := n.life
	n.w.at(n.w.now+d, func() {
		switch {
		case n.life != life:
		case n.awake:
			f()
		default:
			n.due = append(n.due, f)
		}
	})
}

// every runs f again and again, at intervals that differ a little.
func (n *node) every(period time.Duration, f func()) {
	n.after(period-time.Duration(n.rnd.Int64N(int64(period)/100)), func() {
		f()
		n.every(period, f)
	})
}

// stall stops the program. A second stall may make the first one longer.
func (n *node) stall(d time.Duration) {
	if !n.up {
		return
	}
	n.awake, n.wakes = false, max(n.wakes, n.w.now+d)
	n.w.at(n.wakes, n.wake)
}

// wake lets the program go on. It reads the messages that arrived before its timers run, one
// connection after the other, in any order.
func (n *node) wake() {
	if n.awake || n.w.now < n.wakes {
		return
	}
	n.awake = true
	n.w.log("%s wakes", n.name)
	missed := append(n.shuffled(), n.due...)
	n.inbox, n.due = nil, nil
	life := n.life
	for _, f := range missed {
		if n.life == life {
			f()
		}
	}
}

func (n *node) shuffled() []func() {
	var order []*end
	arrived := map[*end][]func(){}
	for _, a := range n.inbox {
		if arrived[a.on] == nil {
			order = append(order, a.on)
		}
		arrived[a.on] = append(arrived[a.on], a.do)
	}
	n.rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var all []func()
	for _, on := range order {
		all = append(all, arrived[on]...)
	}
	return all
}

// crash ends the program. The machine resets its connections.
func (n *node) crash() {
	if !n.up {
		return
	}
	n.up, n.awake, n.inbox, n.due = false, true, nil, nil
	n.life++
	n.crashed()
	for _, e := range n.open() {
		e.close()
	}
}

// restart starts the program again.
func (n *node) restart() {
	if n.up {
		return
	}
	n.up = true
	n.restarted()
}

// open returns the ends of the open connections in the order in which these were opened.
func (n *node) open() []*end {
	ends := make([]*end, 0, len(n.ends))
	for e := range n.ends {
		ends = append(ends, e)
	}
	slices.SortFunc(ends, func(a, b *end) int { return cmp.Compare(a.id, b.id) })
	return ends
}
