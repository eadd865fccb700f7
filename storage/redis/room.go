package redis

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// room is how much a server may still take before it refuses to write (maxmemory with the policy
// noeviction). It is measured every second; what this process creates in between is subtracted,
// so that a flood does not use the reserve up between two measurements. The zero room is
// unlimited.
type room struct{ left atomic.Pointer[left] }

type left struct {
	free    atomic.Int64 // bytes until the server refuses
	reserve int64        // bytes that are kept for what exists already
}

// The reserve is a tenth of maxmemory, at most maxReserve. With a tenth of the reserve left there
// is no room any more: buffers grow and shrink, and some writes are refused already.
const (
	reservePart = 10
	maxReserve  = 64 << 20
	lastPart    = 10
)

// itemCost is the memory of a new item in Redis beside its data, with its entries in lists.
const itemCost = 512

func (r *room) is() storage.Room {
	l := r.left.Load()
	switch {
	case l == nil:
		return storage.RoomEnough
	case l.free.Load() < l.reserve/lastPart:
		return storage.RoomNone
	case l.free.Load() < l.reserve:
		return storage.RoomTight
	}
	return storage.RoomEnough
}

// subtract subtracts what a write may have created.
func (r *room) subtract(put storage.Put) {
	if l := r.left.Load(); l != nil && put.If == storage.Absent {
		l.free.Add(-int64(itemCost + len(put.Data)*5/4)) // the allocator rounds up
	}
}

// refused records that the server had no room for a write. It counts until the next measurement.
func (r *room) refused() {
	full := &left{reserve: lastPart}
	if l := r.left.Load(); l != nil {
		full.reserve = l.reserve
	}
	r.left.Store(full)
}

// Room implements [storage.Backend].
func (b *backend) Room() storage.Room { return b.room.is() }

// eachPrimary calls a function for each primary.
type eachPrimary func(context.Context, func(context.Context, *goredis.Client) error) error

// measure asks each primary how much it may still take. The one with the least counts. If one
// does not answer, the last measurement stays.
func (b *backend) measure(ctx context.Context, each eachPrimary) {
	var mu sync.Mutex
	var least *left
	answered := false
	look := func(ctx context.Context, server *goredis.Client) error {
		info, err := server.Info(ctx, "memory").Result()
		if err != nil {
			return err
		}
		l := leftOf(info)
		mu.Lock()
		defer mu.Unlock()
		answered = true
		if l != nil && (least == nil || l.free.Load()-l.reserve < least.free.Load()-least.reserve) {
			least = l
		}
		return nil
	}
	err := each(ctx, look)
	if answered && err == nil {
		b.room.left.Store(least)
	}
}

// leftOf reads the answer to INFO memory; nil if the server has no bound. Redis does not count
// the buffers of replicas and of its log on disk.
func leftOf(info string) *left {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(strings.TrimSpace(infoField(info, name)), 10, 64)
		return n
	}
	most := number("maxmemory")
	if most <= 0 {
		return nil
	}
	l := &left{reserve: min(most/reservePart, maxReserve)}
	l.free.Store(most - number("used_memory") + number("mem_not_counted_for_evict"))
	return l
}

// isFull reports whether a server refused a write because its memory is full, also when
// the command was part of a script.
func isFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "OOM command not allowed")
}
