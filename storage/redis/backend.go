package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// backend is a [storage.Backend]. Every command goes through process.
type backend struct {
	client      goredis.UniversalClient
	embedded    *embedded // nil for a real server
	onRoundTrip func()
}

// process sends one command and waits for its reply.
func (b *backend) process(ctx context.Context, cmd goredis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return certain(err)
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
	return b.client.Process(ctx, cmd)
}

// once is a command that is sent at most once. The cluster client repeats commands after
// network errors whatever MaxRetries says; what writes must not be among them.
type once struct{ *goredis.Cmd }

// NoRetry implements goredis.Cmder.
func (once) NoRetry() bool { return true }

// write sends a command that changes something, once.
func (b *backend) write(ctx context.Context, args ...any) (*goredis.Cmd, error) {
	cmd := goredis.NewCmd(ctx, args...)
	return cmd, b.process(ctx, once{cmd})
}

// Get implements [storage.Backend].
func (b *backend) Get(ctx context.Context, key string) (storage.Item, error) {
	cmd := goredis.NewStringCmd(ctx, "get", key)
	if err := b.process(ctx, cmd); err != nil {
		return storage.Item{}, readError("get", err)
	}
	return decodeItem(cmd.Val())
}

// Take implements [storage.Backend]. GETDEL has one winner; when its reply is lost, the
// item may be gone without anybody having it.
func (b *backend) Take(ctx context.Context, key string) (storage.Item, error) {
	cmd, err := b.write(ctx, "getdel", key)
	if err != nil {
		return storage.Item{}, writeError("take", err)
	}
	value, err := cmd.Text()
	if err != nil {
		return storage.Item{}, fmt.Errorf("storage/redis: take: %w", err)
	}
	return decodeItem(value)
}

// Delete implements [storage.Backend].
func (b *backend) Delete(ctx context.Context, key string) error {
	_, err := b.write(ctx, "del", key)
	return writeError("delete", err)
}

// IndexAdd implements [storage.Backend].
func (b *backend) IndexAdd(ctx context.Context, index, entry string) error {
	_, err := b.write(ctx, "zadd", index, "0", entry)
	return writeError("index add", err)
}

// IndexRemove implements [storage.Backend].
func (b *backend) IndexRemove(ctx context.Context, index, entry string) error {
	_, err := b.write(ctx, "zrem", index, entry)
	return writeError("index remove", err)
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

// Close implements [storage.Backend].
func (b *backend) Close() error {
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

// putScript is the conditional write. KEYS[1] is the key; ARGV is the operation id, the
// condition (see condition), the lifetime in milliseconds (0: none) and the data. It
// answers 1 when the write has happened, now or before, and otherwise the value that
// is there, nil for none.
const putScript = `local current = redis.call('GET', KEYS[1])
local version = current and string.sub(current, 1, 16)
if version == ARGV[1] then return 1 end
if ARGV[2] == 'absent' then
  if current then return current end
elseif ARGV[2] ~= 'always' and version ~= ARGV[2] then
  return current
end
if ARGV[3] == '0' then
  redis.call('SET', KEYS[1], ARGV[1] .. ARGV[4])
else
  redis.call('SET', KEYS[1], ARGV[1] .. ARGV[4], 'PX', ARGV[3])
end
return 1`

// condition is the script's ARGV[2]: a word, or the 16 bytes of a version, which no
// word is long enough to be.
func condition(c storage.Condition) string {
	version := c.Version()
	switch {
	case c.Any():
		return "always"
	case version == storage.Version{}:
		return "absent"
	default:
		return string(version[:])
	}
}

// Put implements [storage.Backend] with one EVALSHA, and an EVAL if the server does not
// know the script yet.
func (b *backend) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if put.Operation == (storage.Version{}) || put.TTL < 0 {
		return storage.Item{}, errors.New("storage/redis: put: an operation id and a lifetime that is not negative are required")
	}
	cmd, err := b.runPut(ctx, "evalsha", putScriptSHA, put)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd, err = b.runPut(ctx, "eval", putScript, put)
	}
	if errors.Is(err, goredis.Nil) {
		return storage.Item{}, storage.ErrConflict
	}
	if err != nil {
		return storage.Item{}, writeError("put", err)
	}
	current, conflict := cmd.Val().(string)
	if !conflict {
		return storage.Item{Data: put.Data, Version: put.Operation}, nil
	}
	item, err := decodeItem(current)
	if err != nil {
		return storage.Item{}, err
	}
	return item, storage.ErrConflict
}

func (b *backend) runPut(ctx context.Context, name, script string, put storage.Put) (*goredis.Cmd, error) {
	return b.write(ctx, name, script, "1", put.Key, put.Operation[:], condition(put.If), b.lifetime(put.TTL), put.Data)
}

// lifetime is a TTL in whole milliseconds, rounded up; 0 is none.
func (b *backend) lifetime(ttl time.Duration) string {
	if ttl > 0 && b.embedded != nil {
		ttl = b.embedded.lifetime(ttl)
	}
	return strconv.FormatInt(int64((ttl+time.Millisecond-1)/time.Millisecond), 10)
}

// putScriptSHA is the name by which the server knows the script.
var putScriptSHA = func() string {
	sum := sha1.Sum([]byte(putScript))
	return hex.EncodeToString(sum[:])
}()
