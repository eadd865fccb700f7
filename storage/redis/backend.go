package redis

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// backend is a [storage.Backend]. Reads go through process, writes through send.
type backend struct {
	client      goredis.UniversalClient // nil behind Sentinel
	group       *group                  // nil without Sentinel
	standby     *standby                // nil until watch, and behind Sentinel
	ring        *ring                   // nil if this is no cluster
	lanesMu     sync.Mutex
	lanes       map[string]*lanes // by the address of a server
	unshared    bool              // each job goes alone, in models that must repeat
	withoutMGet atomic.Bool       // the user may not
	room        room
	pools       *storage.Pools // of this process, where the user may not count in the server
	onRoundTrip func()
	flights     atomic.Int64 // round trips, which calls share
}

// Flights returns the number of round trips to servers since the start. It is less than that of the calls
// that needed one, because those at the same time share them.
func (b *backend) Flights() int64 { return b.flights.Load() }

// begin counts a round trip, or returns an error if the context is over.
func (b *backend) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return certain(err)
	}
	if b.onRoundTrip != nil {
		b.onRoundTrip()
	}
	return nil
}

// process sends one command, with those of other callers, and waits for its reply.
func (b *backend) process(ctx context.Context, cmd goredis.Cmder) error {
	return b.read(ctx, func(client goredis.UniversalClient) error {
		if cluster, ok := client.(*goredis.ClusterClient); ok {
			return b.processCluster(ctx, cluster, cmd)
		}
		if err := b.share(ctx, &job{server: client.(*goredis.Client), cmds: []goredis.Cmder{cmd}}); err != nil {
			return err
		}
		return cmd.Err()
	})
}

// read runs commands on the server, behind Sentinel on the primary, and makes sure that the
// replies are those of a primary.
func (b *backend) read(ctx context.Context, run func(goredis.UniversalClient) error) error {
	if b.group != nil {
		return b.group.read(ctx, run)
	}
	return run(b.client)
}

// each calls look for each primary.
func (b *backend) each(ctx context.Context, look func(context.Context, *goredis.Client) error) error {
	if b.group != nil {
		v, err := b.group.primary(ctx)
		if err != nil {
			return err
		}
		return look(ctx, v.client)
	}
	if cluster, ok := b.client.(*goredis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, look)
	}
	return look(ctx, b.client.(*goredis.Client))
}

// Get implements [storage.Backend].
func (b *backend) Get(ctx context.Context, key string) (storage.Item, error) {
	cmd := goredis.NewStringCmd(ctx, "get", key)
	if err := b.process(ctx, cmd); err != nil {
		return storage.Item{}, readError("get", err)
	}
	return decodeItem(cmd.Val())
}

// Delete implements [storage.Backend].
func (b *backend) Delete(ctx context.Context, key string) error {
	return b.send(ctx, &change{what: "delete", key: key, cmd: goredis.NewCmd(ctx, "del", key)})
}

// IndexAdd implements [storage.Backend].
func (b *backend) IndexAdd(ctx context.Context, index, entry string) error {
	return b.send(ctx, &change{what: "index add", key: index, cmd: indexAdd(ctx, index, entry)})
}

func indexAdd(ctx context.Context, index, entry string) *goredis.Cmd {
	return goredis.NewCmd(ctx, "zadd", index, "0", entry)
}

// IndexRemove implements [storage.Backend]. It waits for no replica: an entry that comes back
// names no record.
func (b *backend) IndexRemove(ctx context.Context, index, entry string) error {
	return b.send(ctx, &change{what: "index remove", key: index, cmd: goredis.NewCmd(ctx, "zrem", index, entry), forgettable: true})
}

// IndexPage implements [storage.Backend]. Members of equal score are in byte order.
func (b *backend) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	if limit <= 0 {
		return nil, nil // Redis reads a negative count as all
	}
	// The next string in byte order. The exclusive form "(" would be shorter, but some
	// servers take "(+" and "(-" for the ends of the range.
	first := "[" + after + "\x00"
	cmd := goredis.NewStringSliceCmd(ctx, "zrangebylex", index, first, "+", "limit", "0", strconv.Itoa(limit))
	if err := b.process(ctx, cmd); err != nil {
		return nil, readError("index page", err)
	}
	return cmd.Val(), nil
}

// IndexPageBefore implements [storage.Backend]. It asks from the next string after before, for the
// reason that IndexPage has, and drops the two entries that may be there too many.
func (b *backend) IndexPageBefore(ctx context.Context, index, before string, limit int) ([]string, error) {
	if limit <= 0 {
		return nil, nil
	}
	last, n := "+", limit
	if before != "" {
		last, n = "["+before+"\x00", limit+2
	}
	cmd := goredis.NewStringSliceCmd(ctx, "zrevrangebylex", index, last, "-", "limit", "0", strconv.Itoa(n))
	if err := b.process(ctx, cmd); err != nil {
		return nil, readError("index page", err)
	}
	page := cmd.Val()
	for before != "" && len(page) > 0 && page[0] >= before {
		page = page[1:]
	}
	return page[:min(len(page), limit)], nil
}

// IndexLen implements [storage.Backend].
func (b *backend) IndexLen(ctx context.Context, index string) (int, error) {
	cmd := goredis.NewIntCmd(ctx, "zcard", index)
	if err := b.process(ctx, cmd); err != nil {
		return 0, readError("index len", err)
	}
	return int(cmd.Val()), nil
}

// Close implements [storage.Backend].
func (b *backend) Close() error {
	b.standby.close()
	b.ring.close()
	shut := func() error { return b.client.Close() }
	if b.group != nil {
		shut = b.group.close
	}
	if err := shut(); err != nil {
		return fmt.Errorf("storage/redis: close: %w", err)
	}
	return nil
}

// versionLen is the length of the operation id in front of an item's data.
const versionLen = len(storage.Version{})

func decodeItem(value string) (storage.Item, error) {
	if len(value) < versionLen {
		return storage.Item{}, fmt.Errorf("storage/redis: %w: a value of %d bytes is not an item", storage.ErrRecord, len(value))
	}
	return storage.Item{Data: []byte(value[versionLen:]), Version: storage.Version([]byte(value[:versionLen]))}, nil
}
