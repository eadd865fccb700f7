package redis

import (
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/internal/failover"
)

// dial is how a group connects to its servers. The model of failovers replaces it.
type dial struct {
	name      string   // the name of the primary in the configuration of the sentinels
	sentinels []string // some of their addresses
	patience  time.Duration
	// sentinel and server make a client without connecting.
	sentinel, server func(addr string) *goredis.Client
	off              failover.Protections // protections that the model switches off
}

// dialers returns the dial for the group of a URL.
func dialers(t target, o Options) dial {
	settings := clientOptions(t, o)
	client := func(o *goredis.Options) *goredis.Client {
		c := goredis.NewClient(o)
		c.AddHook(dialHook{})
		return c
	}
	return dial{
		name: t.master, sentinels: t.addrs, patience: t.patience,
		sentinel: func(addr string) *goredis.Client {
			o := sentinelOptions(settings, addr)
			o.PoolSize, o.MaxActiveConns = 1, 1
			return client(o)
		},
		server: func(addr string) *goredis.Client {
			o := settings.Simple()
			o.Addr = addr
			return client(o)
		},
	}
}

// sentinelOptions returns the settings for one sentinel.
func sentinelOptions(u *goredis.UniversalOptions, addr string) *goredis.Options {
	o := u.Simple()
	o.Addr, o.Username, o.Password, o.DB = addr, u.SentinelUsername, u.SentinelPassword, 0
	return o
}
