package redis

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"
)

// embedded is a Redis inside this process. It listens on nothing: each connection of
// the client is a pipe.
type embedded struct {
	server *miniredis.Miniredis
	now    func() time.Time

	mu   sync.Mutex
	last time.Time // how far the server's clock has run
}

// tickTime is how often the embedded server's clock runs. Each run looks at every
// key, so it is not done for each command. An item may live a little longer than it
// must, and never shorter.
const tickTime = time.Second

func newEmbedded(now func() time.Time) *embedded {
	if now == nil {
		now = time.Now
	}
	return &embedded{server: miniredis.NewMiniRedis(), now: now, last: now()}
}

// patience is how long a command of the embedded server may take. There is no network to
// fail, only a processor to be busy.
const patience = time.Minute

// fit makes the settings of the client fit the embedded server.
func (e *embedded) fit(settings *goredis.UniversalOptions) {
	settings.Dialer = e.dial
	settings.ReadTimeout, settings.WriteTimeout, settings.PoolTimeout = patience, patience, patience
}

// dial fits the Dialer of the client.
func (e *embedded) dial(context.Context, string, string) (net.Conn, error) {
	return e.server.Dial()
}

// tick lets the server's clock catch up with ours. The server does not run it by
// itself.
func (e *embedded) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.catchUp(e.now())
}

func (e *embedded) catchUp(now time.Time) {
	if elapsed := now.Sub(e.last); elapsed >= tickTime {
		e.last = now
		e.server.FastForward(elapsed)
	}
}

// lifetime is what to tell the server so that an item lives for ttl from now: its clock
// is behind ours by what has passed since the last tick.
func (e *embedded) lifetime(ttl time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.catchUp(now)
	return ttl + max(now.Sub(e.last), 0)
}

func (e *embedded) close() { e.server.Close() }
