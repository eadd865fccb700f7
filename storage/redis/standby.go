package redis

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage"
)

// standby knows whether a copy of the database could take over. While one could, a write
// must reach it before it is answered. While none could, there is nothing to wait for:
// when a primary is all that is left after a failover, it serves alone.
//
// A nil standby is that of the embedded server, from which nothing takes over.
type standby struct {
	ask func(context.Context) (replicas, error)
	// measure looks at something else at the same time.
	measure func(context.Context)
	fenced  bool // the servers have one history at a time, and it has a name

	live   atomic.Pointer[replicas]
	bereft time.Time   // since when nobody has a replica any more, for look alone
	seen   atomic.Bool // a replica was there once
	again  chan struct{}
	stop   context.CancelFunc
	ended  sync.WaitGroup
}

// replicas tells for each primary, by its address, whether it has a replica.
type replicas map[string]bool

func (r replicas) any() bool {
	for _, has := range r {
		if has {
			return true
		}
	}
	return false
}

// lookTime is how often a standby looks, and sureTime how long it must see that there is no
// replica any more before it believes so: a sentinel that was cut off loses sight of the
// replicas and of the other sentinels one after the other.
const (
	lookTime = time.Second
	sureTime = 2 * time.Second
)

// watch starts looking. The first look is over when it returns; its error means that the
// server does not tell.
func (b *backend) watch(ctx context.Context, t target, o Options) error {
	s := &standby{fenced: !t.cluster, again: make(chan struct{}, 1), measure: b.measure}
	s.live.Store(&replicas{})
	switch client := b.client.(type) {
	case *goredis.ClusterClient:
		s.ask = func(ctx context.Context) (replicas, error) {
			// By itself the client looks at the slots once in a minute, and when a server
			// sends it elsewhere. One that is gone sends nobody anywhere.
			client.ReloadState(ctx)
			return clusterReplicas(ctx, client)
		}
	case *goredis.Client:
		s.seen.Store(t.master != "")
		s.ask = func(ctx context.Context) (replicas, error) {
			has, err := t.hasReplica(ctx, client, o)
			return replicas{client.Options().Addr: has}, err
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
		_ = s.look(ctx) // what was seen last stays true until something else is seen
	}
}

func (s *standby) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	s.measure(ctx)
	live, err := s.ask(ctx)
	if err != nil {
		return err
	}
	switch {
	case live.any():
		s.seen.Store(true)
		s.bereft = time.Time{}
	case s.live.Load().any() && s.bereft.IsZero():
		s.bereft = time.Now()
	}
	if s.bereft.IsZero() || time.Since(s.bereft) >= sureTime {
		s.live.Store(&live)
	}
	return nil
}

// needed reports whether writes must reach replicas at all, neededBy whether those to
// the primary at an address must.
func (s *standby) needed() bool { return s != nil && s.live.Load().any() }

func (s *standby) neededBy(addr string) bool {
	if s == nil {
		return false
	}
	live := *s.live.Load()
	if has, known := live[addr]; known {
		return has
	}
	return live.any() // it has just become a primary
}

// lookAgain asks for a look without delay.
func (s *standby) lookAgain() {
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

// Lineage implements [storage.Backend]: the replication id of the primary, which changes
// when another server becomes one. A cluster has a primary for each part of the keys,
// which move between them, so there a lineage means nothing.
func (b *backend) Lineage(ctx context.Context) (storage.Lineage, error) {
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

// following reports whether a replica follows the primary that INFO is about. One that is
// still being filled cannot confirm a write, and does not count.
func following(info string) bool {
	for line := range strings.Lines(info) {
		if strings.HasPrefix(line, "slave") && strings.Contains(line, "state=online") {
			return true
		}
	}
	return false
}

// clusterReplicas asks a cluster which primaries have replicas that are up, with the
// command with which the client itself finds them: the addresses are the same ones, and it
// takes no further right.
func clusterReplicas(ctx context.Context, cluster *goredis.ClusterClient) (replicas, error) {
	slots := goredis.NewClusterSlotsCmd(ctx, "cluster", "slots")
	if err := cluster.Process(ctx, slots); err != nil {
		return nil, err
	}
	live := replicas{}
	for _, s := range slots.Val() { // the primary, then those of its replicas that are up
		if len(s.Nodes) > 0 {
			live[s.Nodes[0].Addr] = len(s.Nodes) > 1
		}
	}
	return live, nil
}

// hasReplica asks the primary, and behind Sentinel also that: a replica that has lost its
// primary can still be promoted, and may have been.
func (t target) hasReplica(ctx context.Context, primary *goredis.Client, o Options) (bool, error) {
	info, err := primary.Info(ctx, "replication").Result()
	if err != nil {
		return false, err
	}
	if following(info) || t.master == "" {
		return following(info), nil
	}
	for _, addr := range t.addrs {
		alone, unanswered := t.alone(ctx, addr, infoField(info, "master_replid"), o)
		if unanswered == nil {
			return !alone, nil
		}
		err = unanswered
	}
	return false, err
}

// alone asks the sentinel at an address whether there is nobody to promote, and nobody has
// been: the primary that it knows is the one of this lineage.
func (t target) alone(ctx context.Context, addr, lineage string, o Options) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime/2)
	defer cancel()
	settings := clientOptions(t, o)
	settings.PoolSize, settings.MaxActiveConns = 1, 1
	sentinel := goredis.NewSentinelClient(sentinelOptions(settings, addr))
	defer sentinel.Close()
	info := func(host, port string) (string, error) {
		direct := settings.Simple()
		direct.Addr = net.JoinHostPort(host, port)
		server := goredis.NewClient(direct)
		defer server.Close()
		return server.Info(ctx, "replication").Result()
	}
	// A sentinel that has lost the others knows nothing of what these decide.
	if err := sentinel.CkQuorum(ctx, t.master).Err(); err != nil {
		if goredis.HasErrorPrefix(err, "NOQUORUM") {
			err = nil
		}
		return false, err
	}
	replicas, err := sentinel.Replicas(ctx, t.master).Result()
	if err != nil {
		return false, err
	}
	for _, replica := range replicas {
		if next, err := heir(replica, lineage, info); next || err != nil {
			return false, err
		}
	}
	at, err := sentinel.GetMasterAddrByName(ctx, t.master).Result()
	if err != nil {
		return false, err
	}
	primary, err := info(at[0], at[1])
	return infoField(primary, "master_replid") == lineage, err
}

// sentinelOptions are the settings for one sentinel.
func sentinelOptions(u *goredis.UniversalOptions, addr string) *goredis.Options {
	o := u.Simple()
	o.Addr, o.Username, o.Password, o.DB = addr, u.SentinelUsername, u.SentinelPassword, 0
	return o
}

// heir reports whether what a sentinel says about a replica leaves the possibility that it
// takes over from the primary of a lineage, or has just done so. For a moment a failover
// looks like the end of a replica: being promoted it hangs up on everybody, then it is a
// primary by its own account, and only then do all sentinels name it. So a server about
// which the sentinel is in doubt is asked itself.
func heir(replica map[string]string, lineage string, info func(host, port string) (string, error)) (bool, error) {
	flags := strings.Split(replica["flags"], ",")
	if slices.Contains(flags, "s_down") || slices.Contains(flags, "o_down") {
		return false, nil
	}
	lost := slices.Contains(flags, "disconnected")
	if !lost && replica["role-reported"] == "slave" {
		return promotable(replica), nil
	}
	own, err := info(replica["ip"], replica["port"])
	switch {
	case err != nil && lost:
		return false, nil // nobody reaches it
	case err != nil:
		return false, err
	case infoField(own, "role") == "slave":
		return infoField(own, "master_link_status") == "up" || infoField(own, "master_link_down_since_seconds") != "-1", nil
	}
	return infoField(own, "master_replid2") == lineage, nil // a primary that came back has another history
}

// promotable follows how Sentinel elects among those that it reaches: a replica whose link
// to the primary is up, or has not been down for ten times the time after which Sentinel
// calls a server down. One that was never linked since it started is being filled.
func promotable(replica map[string]string) bool {
	down, err := strconv.ParseInt(replica["master-link-down-time"], 10, 64)
	limit, limitErr := strconv.ParseInt(replica["down-after-milliseconds"], 10, 64)
	return replica["master-link-status"] == "ok" || err == nil && limitErr == nil && down >= 0 && down <= 10*limit
}
