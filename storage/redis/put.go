package redis

import (
	"cmp"
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
// (see condition), the lifetime in milliseconds (0: none), the value (see valueOf), the replication id
// that the server must have (empty: any), and 1 if replicas must have the write. It answers 1 when the
// write has happened, now or before, and otherwise the value that is there, nil for none. A write
// that happened before is replicated again, because the replica that lacks it may be the one
// whose confirmation is needed now.
const putScript = `local call, key, args = redis.call, KEYS[1], ARGV
local current = call('GET', key)
local version = current and string.sub(current, 1, 16)
if version == args[1] then
  if args[6] == '1' then call('SET', key, current, 'KEEPTTL') end
  return 1
end
if args[5] ~= '' and not string.find(call('INFO', 'replication'), 'master_replid:' .. args[5], 1, true) then
  return redis.error_reply('LINEAGE another one answers')
end
if args[2] == 'absent' then
  if current then return current end
elseif args[2] ~= 'always' and version ~= args[2] then
  return current
end
if args[3] == '0' then
  call('SET', key, args[4])
else
  call('SET', key, args[4], 'PX', args[3])
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

// putWay is a way to send a conditional write.
type putWay int

const (
	putBySet      putWay = iota // SET with NX, which decides by itself if there is nothing
	putByScript                 // EVALSHA
	putWithScript               // EVAL, for a server that does not have the script yet
)

// putWays returns the ways in which a write is tried in turn. A SET costs the server a fraction of a
// script. If something is there, it has done nothing, and the script finds out what that is: this
// write itself, when it is sent again, or another one.
func putWays(put storage.Put) []putWay {
	if put.If == storage.Absent && put.On == "" {
		return allPutWays
	}
	return allPutWays[putByScript:]
}

var allPutWays = []putWay{putBySet, putByScript, putWithScript}

// Put implements [storage.Backend].
func (b *backend) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if err := checkPut(put); err != nil {
		return storage.Item{}, err
	}
	if put.Confirmation && b.group == nil && !b.standby.needed() {
		return storage.Item{Data: put.Data, Version: put.Operation}, nil
	}
	var c *change
	var err error
	for _, way := range putWays(put) {
		c = way.change(ctx, put)
		if err = b.send(ctx, c); !way.undecided(err) {
			break
		}
	}
	b.room.subtract(put)
	if err != nil {
		return storage.Item{}, b.putError(err)
	}
	if current, conflict := c.found(); conflict {
		item, err := decodeItem(current)
		return item, cmp.Or(err, storage.ErrConflict)
	}
	return storage.Item{Data: put.Data, Version: put.Operation}, nil
}

// putError maps the error of a conditional write.
func (b *backend) putError(err error) error {
	switch {
	case errors.Is(err, storage.ErrFull):
		b.room.refused()
	case goredis.HasErrorPrefix(err, "LINEAGE"):
		return storage.ErrLineage
	case errors.Is(err, storage.ErrNotFound): // there is nothing to replace
		return storage.ErrConflict
	}
	return err
}

func checkPut(put storage.Put) error {
	if put.Operation == (storage.Version{}) || put.TTL < 0 {
		return errors.New("storage/redis: put: an operation id and a lifetime that is not negative are required")
	}
	return nil
}

// change returns a write in one of its ways.
func (way putWay) change(ctx context.Context, put storage.Put) *change {
	c := &change{what: "put", key: put.Key, listed: put.Listed, forgettable: put.Forgettable}
	if way == putBySet {
		c.answersOK, c.cmd = true, setIfAbsent(ctx, put)
		return c
	}
	name, script := "evalsha", putScriptSHA
	if way == putWithScript {
		name, script = "eval", putScript
	}
	c.script = func(at place) *goredis.Cmd {
		replicated := "0"
		if at.replicated {
			replicated = "1"
		}
		value := valueOf(put)
		return goredis.NewCmd(ctx, name, script, "1", put.Key, value[:versionLen], condition(put.If), lifetime(put.TTL), value,
			at.fence(put.On), replicated)
	}
	return c
}

// setIfAbsent returns the SET of a write.
func setIfAbsent(ctx context.Context, put storage.Put) *goredis.Cmd {
	if put.TTL == 0 {
		return goredis.NewCmd(ctx, "set", put.Key, valueOf(put), "nx")
	}
	return goredis.NewCmd(ctx, "set", put.Key, valueOf(put), "nx", "px", lifetime(put.TTL))
}

// valueOf returns what is stored for a write: its operation id and the data.
func valueOf(put storage.Put) []byte {
	return append(append(make([]byte, 0, versionLen+len(put.Data)), put.Operation[:]...), put.Data...)
}

// undecided reports whether the outcome of a write, with its error, is left to the next way.
func (way putWay) undecided(err error) bool {
	switch {
	case err == nil:
		return false
	case way == putBySet:
		return errors.Is(err, storage.ErrNotFound) // the answer is nothing
	}
	return way == putByScript && goredis.HasErrorPrefix(err, "NOSCRIPT")
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
