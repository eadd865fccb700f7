package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// Scan implements [storage.Backend] with SCAN, in a cluster on one primary after the other. A
// cursor is the cursor of the server and, in a cluster, the address of the primary. Keys whose
// slot moves meanwhile may be missed.
func (b *backend) Scan(ctx context.Context, prefix, cursor string, limit int) (keys []string, next string, err error) {
	keys, next, err = b.scan(ctx, "string", prefix, cursor, limit)
	return slices.DeleteFunc(keys, func(key string) bool { return key == termKey || strings.HasPrefix(key, countPrefix) }), next, err
}

// Indexes implements [storage.IndexLister] as Scan.
func (b *backend) Indexes(ctx context.Context, prefix, cursor string, limit int) (names []string, next string, err error) {
	return b.scan(ctx, "zset", prefix, cursor, limit)
}

// scan returns some keys of values of one type.
func (b *backend) scan(ctx context.Context, of, prefix, cursor string, limit int) (keys []string, next string, err error) {
	cluster, ok := b.client.(*goredis.ClusterClient)
	if !ok {
		return b.scanOne(ctx, func(ctx context.Context, cmd goredis.Cmder) error {
			return b.read(ctx, func(client goredis.UniversalClient) error { return client.Process(ctx, cmd) })
		}, of, prefix, cursor, limit)
	}
	primaries, err := primariesOf(ctx, cluster)
	if err != nil {
		return nil, "", fmt.Errorf("storage/redis: scan: %w", err)
	}
	addr, at, _ := strings.Cut(cursor, " ")
	i := 0
	if addr != "" {
		i = slices.IndexFunc(primaries, func(c *goredis.Client) bool { return c.Options().Addr == addr })
	}
	if i < 0 || i >= len(primaries) {
		return nil, "", fmt.Errorf("storage/redis: scan: %s is not a primary any more", addr)
	}
	keys, next, err = b.scanOne(ctx, primaries[i].Process, of, prefix, at, limit)
	switch {
	case err != nil || next == "" && i+1 == len(primaries):
		return keys, "", err
	case next == "":
		return keys, primaries[i+1].Options().Addr + " ", nil
	}
	return keys, primaries[i].Options().Addr + " " + next, nil
}

// globs escapes the special characters of a pattern for SCAN.
var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// scanOne scans one server.
func (b *backend) scanOne(ctx context.Context, process func(context.Context, goredis.Cmder) error, of, prefix, cursor string, limit int) ([]string, string, error) {
	if err := b.begin(ctx); err != nil {
		return nil, "", readError("scan", err)
	}
	if cursor == "" {
		cursor = "0"
	}
	cmd := goredis.NewScanCmd(ctx, nil, "scan", cursor, "match", globs.Replace(prefix)+"*", "count", strconv.Itoa(max(limit, 1)), "type", of)
	if err := process(ctx, cmd); err != nil {
		return nil, "", readError("scan", err)
	}
	keys, next := cmd.Val()
	if next == 0 {
		return keys, "", nil
	}
	return keys, strconv.FormatUint(next, 10), nil
}

// primariesOf returns the primaries of a cluster, sorted by address.
func primariesOf(ctx context.Context, cluster *goredis.ClusterClient) (primaries []*goredis.Client, err error) {
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(_ context.Context, server *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		primaries = append(primaries, server)
		return nil
	})
	slices.SortFunc(primaries, func(a, b *goredis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) })
	return primaries, err
}
