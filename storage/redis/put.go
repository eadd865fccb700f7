package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// putScript is the conditional write. KEYS[1] is the key; ARGV is the operation id, the condition
// (see condition), the lifetime in milliseconds (0: none), the data, the replication id that the
// server must have (empty: any), and 1 if replicas must have the write. It answers 1 when the
// write has happened, now or before, and otherwise the value that is there, nil for none. A write
// that happened before is replicated again, because the replica that lacks it may be the one
// whose confirmation is needed now.
const putScript = `local current = redis.call('GET', KEYS[1])
local version = current and string.sub(current, 1, 16)
if version == ARGV[1] then
  if ARGV[6] == '1' then redis.call('SET', KEYS[1], current, 'KEEPTTL') end
  return 1
end
if ARGV[5] ~= '' and not string.find(redis.call('INFO', 'replication'), 'master_replid:' .. ARGV[5], 1, true) then
  return redis.error_reply('LINEAGE another one answers')
end
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

// putScriptSHA is the SHA-1 by which EVALSHA names the script.
var putScriptSHA = func() string {
	sum := sha1.Sum([]byte(putScript))
	return hex.EncodeToString(sum[:])
}()

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

// Put implements [storage.Backend] with one EVALSHA, and an EVAL if the server does not have the
// script yet.
func (b *backend) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if err := checkPut(put); err != nil {
		return storage.Item{}, err
	}
	if put.Confirmation && b.group == nil && !b.standby.needed() {
		return storage.Item{Data: put.Data, Version: put.Operation}, nil
	}
	cmd, err := b.runPut(ctx, "evalsha", putScriptSHA, put)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd, err = b.runPut(ctx, "eval", putScript, put)
	}
	b.room.subtract(put)
	switch {
	case errors.Is(err, storage.ErrFull):
		b.room.refused()
		return storage.Item{}, err
	case goredis.HasErrorPrefix(err, "LINEAGE"):
		return storage.Item{}, storage.ErrLineage
	case errors.Is(err, storage.ErrNotFound):
		return storage.Item{}, storage.ErrConflict
	case err != nil:
		return storage.Item{}, err
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

func checkPut(put storage.Put) error {
	if put.Operation == (storage.Version{}) || put.TTL < 0 {
		return errors.New("storage/redis: put: an operation id and a lifetime that is not negative are required")
	}
	return nil
}

func (b *backend) runPut(ctx context.Context, name, script string, put storage.Put) (*goredis.Cmd, error) {
	c := &change{what: "put", key: put.Key, listed: put.Listed, forgettable: put.Forgettable}
	c.script = func(at place) *goredis.Cmd {
		replicated := "0"
		if at.replicated {
			replicated = "1"
		}
		return goredis.NewCmd(ctx, name, script, "1", put.Key, put.Operation[:], condition(put.If), lifetime(put.TTL), put.Data,
			at.fence(put.On), replicated)
	}
	err := b.send(ctx, c)
	return c.cmd, err
}

// fence returns the script's ARGV[5] for a write that relies on a lineage. No server has the
// replication id otherLineage.
func (p place) fence(on storage.Lineage) string {
	switch {
	case !p.known:
		return string(on)
	case on == "" || on == p.lineage:
		return ""
	}
	return otherLineage
}

const otherLineage = "-"

// lifetime returns a TTL in whole milliseconds, rounded up; 0 means no end.
func lifetime(ttl time.Duration) string {
	return strconv.FormatInt(int64((ttl+time.Millisecond-1)/time.Millisecond), 10)
}
