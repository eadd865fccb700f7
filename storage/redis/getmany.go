package redis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// GetMany implements [storage.Backend].
func (b *backend) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var values []any // strings, nil for what is not there
	err := b.read(ctx, func(client goredis.UniversalClient) (err error) {
		if server, one := client.(*goredis.Client); one && !b.withoutMGet.Load() {
			values, err = b.getAtOnce(ctx, server, keys)
			if !goredis.HasErrorPrefix(err, "NOPERM") {
				return err
			}
			b.withoutMGet.Store(true)
		}
		values, err = b.getEach(ctx, client, keys)
		return err
	})
	if err != nil {
		return nil, readError("get many", err)
	}
	items := make([]storage.Item, len(keys))
	for i, value := range values {
		if value, found := value.(string); found {
			if items[i], err = decodeItem(value); err != nil {
				return nil, err
			}
		}
	}
	return items, nil
}

// getAtOnce gets values of one server with one command.
func (b *backend) getAtOnce(ctx context.Context, server *goredis.Client, keys []string) ([]any, error) {
	args := make([]any, 1, 1+len(keys))
	args[0] = "mget"
	for _, key := range keys {
		args = append(args, key)
	}
	cmd := goredis.NewSliceCmd(ctx, args...) // nil for a list or another kind too
	if err := b.share(ctx, &job{server: server, cmds: []goredis.Cmder{cmd}}); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// getEach gets values with one GET for each key: a cluster has no command for keys of several slots, and
// a user of Redis from before may lack the right to MGET. In a cluster the client sends each server its
// part and follows keys that move. A GET that failed may be repeated: it changes nothing.
func (b *backend) getEach(ctx context.Context, client goredis.UniversalClient, keys []string) ([]any, error) {
	cmds := make([]goredis.Cmder, len(keys))
	for i, key := range keys {
		cmds[i] = goredis.NewStringCmd(ctx, "get", key)
	}
	if server, one := client.(*goredis.Client); one {
		if err := b.share(ctx, &job{server: server, cmds: cmds}); err != nil {
			return nil, err
		}
	} else {
		if err := b.begin(ctx); err != nil {
			return nil, err
		}
		together(ctx, client, cmds...)
	}
	values := make([]any, len(keys))
	for i, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil:
			values[i] = cmd.(*goredis.StringCmd).Val()
		case !errors.Is(err, goredis.Nil):
			return nil, err
		}
	}
	return values, nil
}
