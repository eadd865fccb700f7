package dcr

import "sync"

// generations is a map that is bounded by the number and the weight of its entries. New
// entries go into the young generation, and an old entry moves there when it is read; when
// the young generation is full it becomes the old one, and the old one is dropped. So entries
// in use stay without any search or sort, and entries that are never read again displace only
// others of that kind.
type generations[V any] struct {
	most, heaviest int // bounds of one generation

	mu         sync.RWMutex
	young, old map[string]weighed[V]
	weight     int // of the young generation
}

type weighed[V any] struct {
	value  V
	weight int
}

func newGenerations[V any](most, heaviest int) *generations[V] {
	return &generations[V]{most: most, heaviest: heaviest, young: map[string]weighed[V]{}}
}

func (g *generations[V]) get(key string) (V, bool) {
	g.mu.RLock()
	entry, young := g.young[key]
	g.mu.RUnlock()
	if young {
		return entry.value, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if entry, young = g.young[key]; young {
		return entry.value, true
	}
	entry, old := g.old[key]
	if old {
		delete(g.old, key)
		g.add(key, entry)
	}
	return entry.value, old
}

func (g *generations[V]) put(key string, value V, weight int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(key)
	g.add(key, weighed[V]{value, weight})
}

func (g *generations[V]) drop(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(key)
}

// remove is called with the lock held.
func (g *generations[V]) remove(key string) {
	delete(g.old, key)
	g.weight -= g.young[key].weight
	delete(g.young, key)
}

// add is called with the lock held, for a key that is in neither generation.
func (g *generations[V]) add(key string, entry weighed[V]) {
	if len(g.young) >= g.most || g.weight+entry.weight > g.heaviest {
		g.old, g.young, g.weight = g.young, map[string]weighed[V]{}, 0
	}
	g.young[key] = entry
	g.weight += entry.weight
}
