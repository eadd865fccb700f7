// Package redis is the [storage.Backend] that keeps records in Redis, through one
// client for a single server, Sentinel and Cluster, or in a Redis that runs inside this
// process.
//
// [Open] takes a URL:
//
//	embedded:                                                         in this process, without a port; lost at exit
//	redis://user:password@host:6379/0                                 one server
//	redis+sentinel://user:password@host1:26379,host2:26379/name?db=0  the primary that a majority of the sentinels names
//	redis+cluster://user:password@host1:6379,host2:6379               a cluster
//
// Each has a form over TLS: rediss://, rediss+sentinel:// (to sentinels and servers) and
// rediss+cluster://. User and password are those of the servers. The sentinels may have their
// own, as parameters sentinel-user and sentinel-password next to db; those of the servers are
// never sent to a sentinel. All are percent-encoded. The parameter wait-for-missing is a duration
// such as 1m (the default). A server that may have acknowledged writes which a promoted one lacks
// is waited for so long after a majority of the sentinels has found it down.
//
// An item is one string value: the operation id of the write that made it (16 bytes),
// then the data. The conditional write is one script over one key, so it means the same
// on one server, in a cluster and embedded; where nothing may be there it is a SET with NX, and the
// script only if that did nothing. An operation on the counts of a pool, which is one value of constant
// size, is a script over one key too. There are no other scripts for records. An index is a sorted
// set whose members all have score 0, which Redis keeps in byte order.
//
// Commands to one server that callers send at the same time share round trips; each has its own
// outcome, and a lone one waits for nothing.
//
// Reads go to the primary. This package retries nothing: a write whose reply is late or lost is
// reported as [storage.ErrUncertain], and [storage.Store] sends the same operation again. A
// failure that cannot have reached the server, and an error that the server answered, are certain
// and reported as they are.
//
// Open and the backend refuse a server that evicts records when its memory is full, a URL with a
// scheme, a parameter or a path that is not listed above, a value that is too short to be an
// item, and a write without an operation id. A password in the URL is never part of an error.
//
// Example:
//
//	backend, err := redis.Open(ctx, redis.Options{URL: "redis://127.0.0.1:6379"})
//	if err != nil {
//		return err
//	}
//	store, err := storage.New(backend, storage.Options{Issuer: issuer, MasterKeys: keys})
package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"runtime"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// Options are the arguments of [Open].
type Options struct {
	// URL names the server; see the package comment. Required.
	URL string
	// TLS replaces the settings of rediss. Set it to trust a private authority. Nil verifies the
	// server against the system's roots, with TLS 1.2 or newer.
	TLS *tls.Config
	// PoolSize bounds the connections to one server; 0 means ten for each processor. Set it if
	// the server allows fewer.
	PoolSize int
	// Now is the clock by which items in the embedded store end; nil means time.Now. Set it in
	// tests. A real server has its own clock.
	Now func() time.Time
	// OnRoundTrip, if set, is called before each command that goes to the server. It must be safe
	// for concurrent use. Set it in tests that count round trips.
	OnRoundTrip func()
	// OnWarning, if set, is called with each sentence about what the servers may lose: about
	// their settings while Open runs, with better values, and later about each promotion of a
	// server that lacks acknowledged writes. It must be safe for concurrent use and return at
	// once. Set it to write to a log that the operator reads.
	OnWarning func(sentence string)
}

const (
	// openTime bounds Open as a whole.
	openTime = 2 * time.Second
	// commandTime bounds one command whose context allows more: the wait for a
	// connection, the dial and each read and write.
	commandTime = 700 * time.Millisecond
)

// Open connects to the Redis that o.URL names and returns when it has answered, within two
// seconds. The error says what to do next.
func Open(ctx context.Context, o Options) (storage.Backend, error) {
	target, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if target.embedded {
		return openEmbedded(ctx, o)
	}
	b := &backend{onRoundTrip: o.OnRoundTrip, pools: storage.NewPools(time.Now)}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	switch {
	case target.master != "":
		b.group = openGroup(ctx, dialers(target, o), b.measure, o.OnWarning)
	case target.cluster:
		b.ring = openRing(target, o)
		b.client = b.ring.client
	default:
		b.client = goredis.NewUniversalClient(clientOptions(target, o))
		b.client.AddHook(dialHook{})
	}
	if err := b.reach(ctx); err != nil {
		_ = b.Close()
		return nil, unreachable(target, err)
	}
	warnings, err := b.inspect(ctx)
	if b.group == nil && b.watch(ctx, target) != nil && target.cluster {
		warnings = append(warnings, "the store does not report its replicas: writes are answered before a replica has them, and what a failover loses is not noticed")
	}
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	if o.OnWarning != nil {
		for _, w := range slices.Concat(warnings, b.advise(ctx), b.adviseCounting(ctx)) {
			o.OnWarning(w)
		}
	}
	return b, nil
}

// reach returns when the server has answered, behind Sentinel when a primary is trusted.
func (b *backend) reach(ctx context.Context) error {
	if b.group != nil {
		if err := b.group.await(ctx); err != nil {
			return err
		}
	}
	return b.process(ctx, goredis.NewStatusCmd(ctx, "ping"))
}

// clientOptions returns the settings that all kinds of servers share. The client honours
// deadlines, retries nothing and reads from the primary.
func clientOptions(t target, o Options) *goredis.UniversalOptions {
	pool := o.PoolSize
	if pool <= 0 {
		pool = 10 * runtime.GOMAXPROCS(0)
	}
	return &goredis.UniversalOptions{
		Addrs:         t.addrs,
		MasterName:    t.master,
		IsClusterMode: t.cluster,
		Username:      t.user,
		Password:      t.password,
		DB:            t.db,
		TLSConfig:     t.tls(o.TLS),

		SentinelUsername: t.sentinelUser,
		SentinelPassword: t.sentinelPassword,

		Protocol:              2,
		DisableIdentity:       true,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           commandTime,
		ReadTimeout:           commandTime,
		WriteTimeout:          commandTime,
		PoolTimeout:           commandTime,
		PoolSize:              pool,
		MaxActiveConns:        pool,

		MaintNotificationsConfig: noMaintenance(),
	}
}

// tls returns the TLS settings for the target, nil for a plain connection.
func (t target) tls(given *tls.Config) *tls.Config {
	switch {
	case !t.secure:
		return nil
	case given != nil:
		return given.Clone()
	default:
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
}

// unreachable explains why Open failed and what the operator can do about it.
func unreachable(t target, err error) error {
	return fmt.Errorf("storage/redis: no usable answer from %s: %w; %s", t, err, advice(t, err))
}

func advice(t target, err error) string {
	switch {
	case goredis.HasErrorPrefix(err, "NOAUTH"):
		return "the server wants a password: put it into the store URL as " + t.scheme + "://user:password@host"
	case goredis.HasErrorPrefix(err, "WRONGPASS"), goredis.HasErrorPrefix(err, "ERR AUTH"):
		return "check the user and the password in the store URL"
	case goredis.HasErrorPrefix(err, "NOPERM"):
		return "let this user run every command on the keys gatehouse:*"
	case goredis.HasErrorPrefix(err, "LOADING"):
		return "the server is still loading its data: start again in a moment"
	case isTLSError(t, err):
		return "the server does not speak TLS as expected there: check its port and certificate, or use redis:// for a plain connection"
	case t.master != "":
		return "check that the sentinels run at these addresses and watch the name " + t.master
	default:
		return "start Redis there or correct the store URL; a store in a file (file:PATH) needs no server"
	}
}
