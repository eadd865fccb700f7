package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Sentinels watch a primary and its replicas, and promote a replica when a majority of them finds
// the primary down.
type Sentinels struct {
	// Nodes are the sentinels, which can be killed, restarted and paused.
	Nodes []*Server

	t    testing.TB
	name string
}

// failoverTime is how long a step of a failover may take before it is aborted. After twice this
// time the next attempt is made, for example when no sentinel had a majority.
const failoverTime = 2 * time.Second

// haste shortens the periods in which sentinels ask servers and each other. With the usual ones a
// downAfter of a second would be over, after each failover, before the new primary has been asked
// for the first time, while votes against the old one still counted. And a sentinel that was not
// scheduled for two seconds would ignore all answers for half a minute; on a busy machine it may
// go on.
var haste = []any{
	"sentinel", "debug", "ping-period", "300", "info-period", "500", "ask-period", "200", "publish-period", "300", "tilt-trigger", "60000",
}

// StartSentinels starts n sentinels for a primary, under a name, and its replicas. They agree by
// majority that it is down when it has not answered for downAfter, which should be a second or
// more. StartSentinels returns when each lists all others and the replicas.
func StartSentinels(t testing.TB, name string, primary *Server, n int, downAfter time.Duration) *Sentinels {
	t.Helper()
	return startSentinels(t, name, primary, primary.Addr, n, downAfter, func(*Server) {})
}

// startSentinels starts sentinels that reach the primary at the address at. Prepare is called for
// each before it lists the others.
func startSentinels(t testing.TB, name string, primary *Server, at string, n int, downAfter time.Duration, prepare func(*Server)) *Sentinels {
	t.Helper()
	g := &Sentinels{t: t, name: name}
	_, port, _ := net.SplitHostPort(at)
	settings := fmt.Sprintf("sentinel monitor %s %s %s %d\nsentinel down-after-milliseconds %s %d\n"+
		"sentinel failover-timeout %s %d\nsentinel parallel-syncs %s 100\n",
		name, host, port, n/2+1, name, downAfter.Milliseconds(), name, failoverTime.Milliseconds(), name)
	for range n {
		s := launch(t, settings, "--sentinel")
		s.adjust = func() error { return s.client.Do(context.Background(), haste...).Err() }
		if err := s.adjust(); err != nil {
			t.Fatalf("redistest: sentinel: %v", err)
		}
		prepare(s)
		g.Nodes = append(g.Nodes, s)
	}
	info, err := section(context.Background(), primary, "replication")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	var replicas int
	_, _ = fmt.Sscan(info["connected_slaves"], &replicas)
	g.Settle(replicas)
	return g
}

// URL returns the redis+sentinel:// URL of the primary.
func (g *Sentinels) URL() string {
	return "redis+sentinel://" + addresses(g.Nodes) + "/" + g.name
}

func addresses(servers []*Server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return strings.Join(all, ",")
}

// Primary returns the address of the primary according to a majority of all sentinels, "" if
// there is none.
func (g *Sentinels) Primary() (addr string) {
	return g.primary(context.Background())
}

func (g *Sentinels) primary(ctx context.Context) (addr string) {
	votes := make([]string, len(g.Nodes))
	var asking sync.WaitGroup
	for i, s := range g.Nodes {
		asking.Go(func() { votes[i] = s.names(ctx, g.name) })
	}
	asking.Wait()
	count := map[string]int{}
	for _, vote := range votes {
		if count[vote]++; vote != "" && count[vote] > len(g.Nodes)/2 {
			return vote
		}
	}
	return ""
}

// names returns the address that one sentinel gives for the name, "" if it does not answer.
func (s *Server) names(ctx context.Context, name string) (addr string) {
	if s.ended() {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	pair := goredis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", name)
	if err := s.client.Process(ctx, pair); err != nil || len(pair.Val()) != 2 {
		return ""
	}
	return net.JoinHostPort(pair.Val()[0], pair.Val()[1])
}

// WaitPrimary waits until a majority of the sentinels names another address than not, and the
// server there reports that it is a primary. It returns the address.
func (g *Sentinels) WaitPrimary(not string) (addr string) {
	g.t.Helper()
	await(g.t, "a primary other than "+not, func(ctx context.Context) error {
		addr = g.primary(ctx)
		if addr == "" || addr == not {
			return fmt.Errorf("the sentinels name %q", addr)
		}
		client := newClient(addr)
		defer client.Close()
		text, err := client.Info(ctx, "replication").Result()
		if role := fields(text)["role"]; err == nil && role != "master" {
			err = fmt.Errorf("%s is a %s", addr, role)
		}
		return err
	})
	return addr
}

// Rejoin makes a former primary a replica of the present one, after starting it if it does not
// run, and returns when the sentinels would promote it. Without Rejoin the sentinels do the same
// in their time.
func (g *Sentinels) Rejoin(s *Server) {
	g.t.Helper()
	if s.ended() {
		s.Restart()
	}
	primary := ""
	await(g.t, "a primary", func(ctx context.Context) error {
		if primary = g.primary(ctx); primary == "" {
			return errors.New("the sentinels name none")
		}
		return nil
	})
	s.replicate(primary, false)
	g.each("that "+s.Addr+" can be promoted", func(ctx context.Context, sentinel *Server) error {
		ready, err := sentinel.promotable(ctx, g.name)
		if err == nil && !ready[s.Addr] {
			err = fmt.Errorf("%s does not think so", sentinel.Addr)
		}
		return err
	})
}

// Settle waits until all running sentinels list each other and would promote at least that many
// replicas.
func (g *Sentinels) Settle(replicas int) {
	g.t.Helper()
	g.each("that the sentinels agree", func(ctx context.Context, s *Server) error {
		if err := s.client.Do(ctx, "sentinel", "ckquorum", g.name).Err(); err != nil {
			return err
		}
		primary := goredis.NewMapStringStringCmd(ctx, "sentinel", "master", g.name)
		if err := s.client.Process(ctx, primary); err != nil {
			return err
		}
		ready, err := s.promotable(ctx, g.name)
		others := primary.Val()["num-other-sentinels"]
		if err == nil && (others != fmt.Sprint(len(g.Nodes)-1) || primary.Val()["flags"] != "master" || len(ready) < replicas) {
			err = fmt.Errorf("%s lists %s others and %d of %d replicas; the primary's state is %q", s.Addr, others, len(ready), replicas, primary.Val()["flags"])
		}
		return err
	})
}

// each waits until check succeeds at each running sentinel.
func (g *Sentinels) each(what string, check func(context.Context, *Server) error) {
	g.t.Helper()
	for _, s := range g.Nodes {
		if !s.ended() {
			await(g.t, what, func(ctx context.Context) error { return check(ctx, s) })
		}
	}
}

// promotable returns the addresses of the replicas that a sentinel finds in order.
func (s *Server) promotable(ctx context.Context, name string) (addrs map[string]bool, err error) {
	replicas := goredis.NewMapStringStringSliceCmd(ctx, "sentinel", "replicas", name)
	if err := s.client.Process(ctx, replicas); err != nil {
		return nil, err
	}
	addrs = map[string]bool{}
	for _, r := range replicas.Val() {
		if r["flags"] == "slave" && r["master-link-status"] == "ok" {
			addrs[net.JoinHostPort(r["ip"], r["port"])] = true
		}
	}
	return addrs, nil
}
