package redis

import (
	"context"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// backend is a [storage.Backend]. What reads goes through process, what changes something
// through send.
type backend struct {
	client      goredis.UniversalClient
	embedded    *embedded // nil for a real server
	standby     *standby  // nil for the embedded one
	onRoundTrip func()
}

// begin counts a round trip, or refuses one whose context is over.
func (b *backend) begin(ctx context.Context) (context.Context, error) {
	if err := ctx.Err(); err != nil {
		return nil, certain(err)
	}
	if b.embedded != nil {
		b.embedded.tick()
		// Nothing can hang in here. What has begun is finished: on a busy machine a
		// deadline would turn slowness into a fault.
		ctx = context.WithoutCancel(ctx)
	}
	if b.onRoundTrip != nil {
		b.onRoundTrip()
	}
	return ctx, nil
}

// process sends one command and waits for its reply.
func (b *backend) process(ctx context.Context, cmd goredis.Cmder) error {
	ctx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	return b.client.Process(ctx, cmd)
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
	return b.send(ctx, change{what: "delete", key: key, cmd: goredis.NewCmd(ctx, "del", key)})
}

// IndexAdd implements [storage.Backend].
func (b *backend) IndexAdd(ctx context.Context, index, entry string) error {
	return b.send(ctx, change{what: "index add", key: index, cmd: indexAdd(ctx, index, entry)})
}

func indexAdd(ctx context.Context, index, entry string) *goredis.Cmd {
	return goredis.NewCmd(ctx, "zadd", index, "0", entry)
}

// IndexRemove implements [storage.Backend]. It waits for no replica: an entry too many
// names nothing.
func (b *backend) IndexRemove(ctx context.Context, index, entry string) error {
	return b.send(ctx, change{what: "index remove", key: index, cmd: goredis.NewCmd(ctx, "zrem", index, entry), forgettable: true})
}

// IndexPage implements [storage.Backend]. Members of equal score are in byte order.
func (b *backend) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	if limit <= 0 {
		return nil, nil // Redis reads a negative count as all
	}
	// The next string in byte order. The exclusive form "(" would be shorter, but the
	// embedded server takes "(+" and "(-" for the ends of the range.
	first := "[" + after + "\x00"
	cmd := goredis.NewStringSliceCmd(ctx, "zrangebylex", index, first, "+", "limit", "0", strconv.Itoa(limit))
	if err := b.process(ctx, cmd); err != nil {
		return nil, readError("index page", err)
	}
	return cmd.Val(), nil
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
	err := b.client.Close()
	if b.embedded != nil {
		b.embedded.close()
	}
	if err != nil {
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
