package sim

import (
	"maps"
	"slices"
)

// must returns the node of a name.
func (w *World) must(name string) *node {
	n := w.nodes[name]
	if n == nil {
		panic("sim: there is no node " + name)
	}
	return n
}

// Do has a fault begin now, and end in its time. Its At does not count.
func (w *World) Do(f Fault) {
	f.At = 0
	w.Run(Schedule{f})
}

// between yields the links from some nodes to all others.
func (w *World) between(names []string) func(yield func(*link) bool) {
	return func(yield func(*link) bool) {
		for _, inside := range names {
			for _, outside := range w.sorted() {
				if !slices.Contains(names, outside.name) && !yield(w.link(w.must(inside), outside)) {
					return
				}
			}
		}
	}
}

// sorted are the nodes by name.
func (w *World) sorted() []*node {
	var all []*node
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		all = append(all, w.nodes[name])
	}
	return all
}

// View is what can be seen of a world from outside.
type View struct {
	Primary string            // the server that a majority of the sentinels names; "" if none
	Roles   map[string]string // of the servers that run: "master", or whom they follow
	Offsets map[string]int64
}

// View tells what is going on, by the names of the nodes.
func (w *World) View() View {
	defer w.enter()()
	v := View{Roles: map[string]string{}, Offsets: map[string]int64{}}
	votes := map[string]int{}
	for _, s := range w.sentinels {
		if name := s.current().name; s.up {
			if votes[name]++; votes[name] > len(w.sentinels)/2 {
				v.Primary = name
			}
		}
	}
	for _, s := range w.servers {
		if !s.up {
			continue
		}
		v.Offsets[s.name] = s.offset
		v.Roles[s.name] = "master"
		if s.following != nil {
			v.Roles[s.name] = w.nameOf(s.following.primary)
		}
	}
	return v
}

// Addr is the address of a server or sentinel.
func (w *World) Addr(name string) string { return w.must(name).addr }

// SentinelAddrs are the addresses of all sentinels.
func (w *World) SentinelAddrs() []string {
	var addrs []string
	for _, s := range w.sentinels {
		addrs = append(addrs, s.addr)
	}
	return addrs
}
