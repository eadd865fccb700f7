package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// records are where the floor keeps its state: one round trip for each call.
type records interface {
	// swap writes a record if what is there is the same as was; nothing if was is empty.
	swap(r *http.Request, key, was, next string, life time.Duration) error
	// redeem removes a record that is the same as was, and writes another one.
	redeem(r *http.Request, key, was, other, next string) error
	// read reads a record, which need not exist.
	read(r *http.Request, key string) error
	// fill writes n records whose keys are a prefix and a number.
	fill(prefix string, n int, record string, life time.Duration) error
}

var errChanged = errors.New("the record is another one")

func openRecords(database string) (records, error) {
	if database == "" {
		return &memory{m: map[string]string{}}, nil
	}
	options, err := goredis.ParseURL(database)
	if err != nil {
		return nil, err
	}
	return remote{goredis.NewClient(options)}, nil
}

// remote are records in Redis.
type remote struct{ client *goredis.Client }

var (
	swapScript = goredis.NewScript(`
if (redis.call('get', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
	redeemScript = goredis.NewScript(`
if redis.call('getdel', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 1`)
)

func (c remote) swap(r *http.Request, key, was, next string, life time.Duration) error {
	return done(swapScript.Run(r.Context(), c.client, []string{key}, was, next, life.Milliseconds()))
}

func (c remote) redeem(r *http.Request, key, was, other, next string) error {
	return done(redeemScript.Run(r.Context(), c.client, []string{key, other}, was, next, grantLife.Milliseconds()))
}

func (c remote) read(r *http.Request, key string) error {
	err := c.client.Get(r.Context(), key).Err()
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}

func (c remote) fill(prefix string, n int, record string, life time.Duration) error {
	const atOnce = 1000
	ctx := context.Background()
	for from := 0; from < n; from += atOnce {
		pipe := c.client.Pipeline()
		for i := from; i < min(n, from+atOnce); i++ {
			pipe.Set(ctx, prefix+strconv.Itoa(i), record, life)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

func done(cmd *goredis.Cmd) error {
	switch n, err := cmd.Int(); {
	case err != nil:
		return err
	case n != 1:
		return errChanged
	}
	return nil
}

// memory are records in this process.
type memory struct {
	mu sync.Mutex
	m  map[string]string
}

func (m *memory) swap(_ *http.Request, key, was, next string, _ time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m[key] != was {
		return errChanged
	}
	m.m[key] = next
	return nil
}

func (m *memory) redeem(_ *http.Request, key, was, other, next string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m[key] != was {
		return errChanged
	}
	delete(m.m, key)
	m.m[other] = next
	return nil
}

func (m *memory) read(*http.Request, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return nil
}

func (m *memory) fill(prefix string, n int, record string, _ time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range n {
		m.m[prefix+strconv.Itoa(i)] = record
	}
	return nil
}
