package sim

import (
	"maps"
	"slices"
)

// must returns the node with a name.
func (w *World) must(name string) *node {
	n := w.nodes[name]
	if n == nil {
		panic("sim: there is no node " + name)
	}
	return n
}

// Do begins a fault now, and ends it after its duration. Its At is ignored.
func (w *World) Do(f Fault) {
	f.At = 0
	w.Run(Schedule{f})
}

// between yields the links between some nodes and all others.
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

// sorted returns the nodes by name.
func (w *World) sorted() []*node {
	var all []*node
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		all = append(all, w.nodes[name])
	}
	return all
}

// View is the visible state of a world.
type View struct {
	Primary string            // named by a majority of the sentinels; "" for none
	Roles   map[string]string // of the running servers: "master", or the name of its primary
	Offsets map[string]int64
}

// View returns the present state, by the names of the nodes.
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

// Addr returns the address of a server or sentinel.
func (w *World) Addr(name string) string { return w.must(name).addr }

// SentinelAddrs returns the addresses of all sentinels.
func (w *World) SentinelAddrs() []string {
	var addrs []string
	for _, s := range w.sentinels {
		addrs = append(addrs, s.addr)
	}
	return addrs
}
