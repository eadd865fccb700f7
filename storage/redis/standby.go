package redis

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// standby watches, for a single server and for a cluster, whether a replica could take over.
// While one could, a write must reach it before it is answered. While none could, there is no
// replica to wait for: a primary that is all that is left after a failover serves alone.
//
// A nil standby is that of the embedded server, which has no replicas.
type standby struct {
	ask func(context.Context) (replicas, error)
	// measure measures the memory of the primaries.
	measure func(context.Context)
	fenced  bool // there is one history at a time, named by the replication id

	live           atomic.Pointer[replicas]
	withoutReplica time.Time   // since when there is no replica any more, for look only
	seen           atomic.Bool // there was a replica once
	again          chan struct{}
	stop           context.CancelFunc
	ended          sync.WaitGroup
}

// replicas is how many replicas must confirm a write, by the address of the primary.
type replicas map[string]int

func (r replicas) any() bool {
	for _, n := range r {
		if n > 0 {
			return true
		}
	}
	return false
}

// lookTime is the time between two looks of a standby. sureTime is how long it must find no
// replica before writes stop waiting for one: a server that was cut off loses its connections to
// replicas one after the other.
const (
	lookTime = time.Second
	sureTime = 2 * time.Second
)

// watch looks once, and then goes on looking in the background. The error is that of the first
// look.
func (b *backend) watch(ctx context.Context, t target) error {
	s := &standby{fenced: !t.cluster, again: make(chan struct{}, 1), measure: func(ctx context.Context) { b.measure(ctx, b.each) }}
	s.live.Store(&replicas{})
	switch client := b.client.(type) {
	case *goredis.ClusterClient:
		s.ask = func(ctx context.Context) (replicas, error) {
			// By itself the client reads the slots once a minute, and after a redirection. A
			// server that is gone sends no redirections.
			client.ReloadState(ctx)
			return b.ring.look(ctx)
		}
	case *goredis.Client:
		s.ask = func(ctx context.Context) (replicas, error) {
			info, err := client.Info(ctx, "replication").Result()
			online, _ := following(info)
			return replicas{client.Options().Addr: min(online, 1)}, err
		}
	}
	err := s.look(ctx)
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.ended.Go(func() { s.run(ctx) })
	b.standby = s
	return err
}

func (s *standby) run(ctx context.Context) {
	timer := time.NewTicker(lookTime)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.again:
		}
		_ = s.look(ctx) // what was found last counts until a look succeeds
	}
}

func (s *standby) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	var measuring sync.WaitGroup
	defer measuring.Wait()
	measuring.Go(func() { s.measure(ctx) })
	live, err := s.ask(ctx)
	if err != nil {
		return err
	}
	switch {
	case live.any():
		s.seen.Store(true)
		s.withoutReplica = time.Time{}
	case s.live.Load().any() && s.withoutReplica.IsZero():
		s.withoutReplica = time.Now()
	}
	if s.withoutReplica.IsZero() || time.Since(s.withoutReplica) >= sureTime {
		s.live.Store(&live)
	}
	return nil
}

// needed reports whether writes must reach replicas at all. neededBy returns how many replicas a
// write to the primary at an address must reach.
func (s *standby) needed() bool { return s != nil && s.live.Load().any() }

func (s *standby) neededBy(addr string) int {
	if s == nil {
		return 0
	}
	live := *s.live.Load()
	if n, known := live[addr]; known || !live.any() {
		return n
	}
	return 1 // it has just become a primary
}

// confirmations returns how many replicas have to confirm a change on a server.
func (s *standby) confirmations(server *goredis.Client, c *change) int {
	if c.forgettable {
		return 0
	}
	return s.neededBy(server.Options().Addr)
}

// lookAgain asks for a look without delay.
func (s *standby) lookAgain() {
	if s == nil {
		return
	}
	select {
	case s.again <- struct{}{}:
	default:
	}
}

func (s *standby) close() {
	if s != nil {
		s.stop()
		s.ended.Wait()
	}
}

// Lineage implements [storage.Backend]: the replication id of the primary, which changes with a
// takeover, and behind Sentinel also the number of its term. A cluster has a primary for each
// part of the keys, which move between them, so it has no lineage.
func (b *backend) Lineage(ctx context.Context) (storage.Lineage, error) {
	if b.group != nil {
		l, err := b.group.lineage(ctx)
		if err != nil {
			return "", readError("lineage", err)
		}
		return l, nil
	}
	if s := b.standby; s == nil || !s.fenced || !s.seen.Load() {
		return "", nil
	}
	cmd := goredis.NewStringCmd(ctx, "info", "replication")
	if err := b.process(ctx, cmd); err != nil {
		return "", readError("lineage", err)
	}
	return storage.Lineage(infoField(cmd.Val(), "master_replid")), nil
}

// infoField returns the value of a field in the answer to INFO, empty if it is not there.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// following counts the online replicas in the INFO of a primary, and those of them that are not
// late. A replica that is still being filled is not online and cannot confirm a write. One that
// hangs stays online for long: of a single server it is unknown whether that replica could take
// over.
func following(info string) (online, prompt int) {
	for line := range strings.Lines(info) {
		replica, ok := replicaOf(line)
		if !ok || !replica.Online {
			continue
		}
		online++
		if replica.Lag < lateTime {
			prompt++
		}
	}
	return online, prompt
}

// lateTime is the lag in seconds from which a replica is late. A replica reports every second,
// and Redis counts whole seconds.
const lateTime = 2
