//go:build e2e

package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/storage/redis/redistest"
)

// TestSentinelTellsItsVote: each sentinel reports the term of its last vote, without voting
// again, and only for the primary that it names.
func TestSentinelTellsItsVote(t *testing.T) {
	primary := redistest.Start(t, redistest.Config{})
	redistest.Start(t, redistest.Config{ReplicaOf: primary})
	group := redistest.StartSentinels(t, "main", primary, 3, time.Second)
	s := newSentinels("main", []string{group.Nodes[0].Addr, group.Nodes[1].Addr, group.Nodes[2].Addr},
		func(addr string) *goredis.Client { return goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2}) })
	defer s.close()
	votes := func(about string) (epoch, told int, highest uint64) {
		t.Helper()
		reports, err := s.reports(t.Context(), about)
		if err != nil || len(reports) != 3 {
			t.Fatalf("%d reports, %v", len(reports), err)
		}
		for _, r := range reports {
			epoch = max(epoch, int(r.Epoch))
			if r.VoteKnown {
				told++
				highest = max(highest, r.Voted)
			}
		}
		return epoch, told, highest
	}
	for range 2 { // asking is not voting
		if epoch, told, highest := votes(primary.Addr); told != 3 || highest != uint64(epoch) {
			t.Errorf("before: %d tell, the highest number is %d in term %d", told, highest, epoch)
		}
	}
	if _, told, _ := votes("127.0.0.1:1"); told != 0 {
		t.Errorf("about a server that is no primary %d tell", told)
	}
	primary.Kill()
	next := group.WaitPrimary(primary.Addr)
	deadline := time.Now().Add(20 * time.Second)
	for {
		epoch, told, highest := votes(next)
		if told == 3 && epoch > 0 && highest == uint64(epoch) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a failover: %d tell, the highest number is %d in term %d", told, highest, epoch)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestSentinelOutOfReach: a process does not reach one sentinel, which the others reach. While
// the replica is away too no write can be confirmed, and still the process answers reads: a
// majority has not voted.
func TestSentinelOutOfReach(t *testing.T) {
	primary := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: primary})
	group := redistest.StartSentinels(t, "main", primary, 3, time.Second)
	client := func(addr string) *goredis.Client {
		return goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2, MaxRetries: -1})
	}
	far := group.Nodes[2].Addr
	g := openGroup(t.Context(), dial{
		name: "main", sentinels: []string{group.Nodes[0].Addr, group.Nodes[1].Addr}, server: client,
		sentinel: func(addr string) *goredis.Client {
			if addr == far {
				addr = "127.0.0.1:1"
			}
			return client(addr)
		},
	}, func(context.Context, eachPrimary) {}, nil)
	defer g.close()
	replica.Kill()
	reads := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end) || reads == 0; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := g.read(ctx, func(c goredis.UniversalClient) error { return c.Get(ctx, "nothing").Err() })
		cancel()
		if errors.Is(err, goredis.Nil) {
			reads++
		}
		if time.Now().After(end.Add(10 * time.Second)) {
			t.Fatalf("no read was answered: %v", err)
		}
	}
	v := g.after(t.Context(), time.Now())
	if !v.Holds(v.Lineage, time.Now()) {
		t.Errorf("the process has no lease: %v, %v", v.Doubt, v.Until)
	}
}
