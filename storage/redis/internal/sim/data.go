package sim

import (
	"maps"
	"slices"
)

// data is the data of a server.
type data struct {
	strings map[string]string
	sets    map[string]map[string]bool // sorted sets whose members all have score 0
	changes map[string]int             // counts changes of each key, for connections that watch it
}

func newData() *data {
	return &data{strings: map[string]string{}, sets: map[string]map[string]bool{}, changes: map[string]int{}}
}

func (d *data) clone() *data {
	c := &data{strings: maps.Clone(d.strings), sets: make(map[string]map[string]bool, len(d.sets)), changes: map[string]int{}}
	for key, set := range d.sets {
		c.sets[key] = maps.Clone(set)
	}
	return c
}

// effect is one command of the replication stream.
type effect struct{ op, key, value string }

const (
	opSet    = "SET"
	opDel    = "DEL"
	opAdd    = "ZADD"
	opRemove = "ZREM"
	opPing   = "PING"
	opGetAck = "REPLCONF"
)

// size is the number of bytes in the stream: about the command's length in the protocol.
func (e effect) size() int64 {
	switch e.op {
	case opPing:
		return 14
	case opGetAck:
		return 37
	}
	return int64(29 + len(e.op) + len(e.key) + len(e.value))
}

func (d *data) apply(e effect) {
	d.changes[e.key]++
	switch e.op {
	case opSet:
		d.strings[e.key] = e.value
	case opDel:
		delete(d.strings, e.key)
		delete(d.sets, e.key)
	case opAdd:
		if d.sets[e.key] == nil {
			d.sets[e.key] = map[string]bool{}
		}
		d.sets[e.key][e.value] = true
	case opRemove:
		delete(d.sets[e.key], e.value)
	}
}

func (d *data) exists(key string) bool {
	_, ok := d.strings[key]
	return ok || len(d.sets[key]) > 0
}

// members returns the members of a sorted set in order.
func (d *data) members(key string) []string {
	return slices.Sorted(maps.Keys(d.sets[key]))
}
