package redis

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// countScript does one operation on counts, see [storage.Counting]. KEYS[1] is the pool: numbers of
// 56 bits, each the time at which a place owes nothing any more, in microseconds since 1970 by the
// clock of the server. A count has a place in each of three rows, and owes the least of them. ARGV
// is the most that a place may owe, and for each count its three places, per, need and spend; times
// are in microseconds. A place that owes more was written before the clock was set back: it counts
// as nothing. The answer is 1 if everything was applied, otherwise 0, and then what each count owes.
const countScript = `local t = redis.call('TIME')
local now, most, n = t[1] * 1000000 + t[2], tonumber(ARGV[1]), (#ARGV - 1) / 6
local read, seen = {'BITFIELD', KEYS[1]}, {}
local function arg(i, k) return ARGV[i * 6 + k + 1] end
for i = 0, n - 1 do
  for k = 1, 3 do
    if not seen[arg(i, k)] then
      seen[arg(i, k)] = true
      read[#read + 1] = 'GET'; read[#read + 1] = 'u56'; read[#read + 1] = '#' .. arg(i, k)
    end
  end
end
local full, got = {}, redis.call(unpack(read))
for j = 1, #got do full[string.sub(read[2 + j * 3], 2)] = got[j] end
local function debt(i, k)
  local d = math.max(full[arg(i, k)] - now, 0)
  if d > most then return 0 end
  return math.min(d, tonumber(arg(i, 4)))
end
local function owed(i) return math.min(debt(i, 1), debt(i, 2), debt(i, 3)) end
local answer = {1}
for i = 0, n - 1 do
  local o, need = owed(i), tonumber(arg(i, 5))
  answer[i + 2] = o
  if need > 0 and o > 0 and o + math.min(need, tonumber(arg(i, 4))) > tonumber(arg(i, 4)) then answer[1] = 0 end
end
if answer[1] == 0 then return answer end
local changed = {}
for i = 0, n - 1 do
  local was, by = owed(i), tonumber(arg(i, 6))
  local owes = math.min(math.max(was + by, 0), tonumber(arg(i, 4)))
  for k = 1, 3 do
    local d = debt(i, k)
    if by > 0 and d < owes or by < 0 and d == was then
      full[arg(i, k)] = now + owes
      changed[arg(i, k)] = true
    end
  end
end
for i = 0, n - 1 do answer[i + 2] = owed(i) end
local write = {'BITFIELD', KEYS[1]}
for at in pairs(changed) do
  write[#write + 1] = 'SET'; write[#write + 1] = 'u56'; write[#write + 1] = '#' .. at
  write[#write + 1] = string.format('%.0f', full[at])
end
if #write > 2 then redis.call(unpack(write)) end
return answer`

var countScriptSHA = func() string {
	sum := sha1.Sum([]byte(countScript))
	return hex.EncodeToString(sum[:])
}()

// countPrefix begins the keys of pools. They are no items, and Scan does not return them.
const countPrefix = storage.KeyPrefix + "counts:"

// The places of a pool: rows of places for each area, of seven bytes each. A pool has 2.6 MiB once
// its last area is in use.
const (
	countRows  = 3
	countWidth = 1 << 15
)

// Count implements [storage.Backend] with one EVALSHA, and an EVAL if the server does not have the
// script yet. Where the user may not run TIME and BITFIELD, this process counts by itself.
func (b *backend) Count(ctx context.Context, c storage.Counting) (storage.Counted, error) {
	cmd, err := b.runCount(ctx, "evalsha", countScriptSHA, c)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd, err = b.runCount(ctx, "eval", countScript, c)
	}
	if cannotCount(err) {
		return b.pools.Count(c), nil
	}
	if err != nil {
		return storage.Counted{}, err
	}
	return readCounted(cmd, len(c.Counts))
}

// countDenied are what servers say about a command in a script that the user may not run, or that
// they do not have.
var countDenied = []string{"NOPERM", "can't run this command", "has no permissions", "Unknown Redis command"}

// cannotCount reports whether the server does not let this process count in it.
func cannotCount(err error) bool {
	return err != nil && slices.ContainsFunc(countDenied, func(said string) bool { return strings.Contains(err.Error(), said) })
}

// adviseCounting returns a warning if limits are not shared.
func (b *backend) adviseCounting(ctx context.Context) (warnings []string) {
	if _, err := b.runCount(ctx, "eval", countScript, storage.Counting{Pool: "none"}); cannotCount(err) {
		return []string{"the store does not let this user count in it, so each process counts its limits by itself: allow the commands time and bitfield"}
	}
	return nil
}

func (b *backend) runCount(ctx context.Context, name, script string, c storage.Counting) (*goredis.Cmd, error) {
	args := []any{name, script, "1", countPrefix + c.Pool, storage.CountMost.Microseconds()}
	for _, count := range c.Counts {
		for _, place := range countPlaces(count) {
			args = append(args, place)
		}
		args = append(args, count.Per.Microseconds(), count.Need.Microseconds(), count.Spend.Microseconds())
	}
	change := &change{what: "count", key: countPrefix + c.Pool, forgettable: true, cmd: goredis.NewCmd(ctx, args...)}
	err := b.send(ctx, change)
	return change.cmd, err
}

// countPlaces returns the places of a count. Names are not to be guessed: a [storage.Store] gives
// MACs.
func countPlaces(c storage.Count) (places [countRows]int) {
	sum := sha256.Sum256([]byte(c.Name))
	for row := range places {
		at := int(binary.BigEndian.Uint16(sum[2*row:])) % countWidth
		places[row] = (c.Area*countRows+row)*countWidth + at
	}
	return places
}

func readCounted(cmd *goredis.Cmd, n int) (storage.Counted, error) {
	numbers, err := cmd.Int64Slice()
	if err != nil || len(numbers) != n+1 {
		return storage.Counted{}, fmt.Errorf("storage/redis: count: %w: the server answered %s", storage.ErrUnavailable, strconv.Quote(fmt.Sprint(cmd.Val())))
	}
	counted := storage.Counted{Done: numbers[0] == 1}
	for _, owed := range numbers[1:] {
		counted.Owed = append(counted.Owed, time.Duration(owed)*time.Microsecond)
	}
	return counted, nil
}

// Count implements [storage.Backend]: it does what countScript does, in memory.
func (e *embedded) Count(ctx context.Context, c storage.Counting) (counted storage.Counted, err error) {
	err = e.do(ctx, "count", func(time.Time) error {
		counted = e.pools.Count(c)
		return nil
	})
	return counted, err
}
