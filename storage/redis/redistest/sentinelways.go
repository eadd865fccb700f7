package redistest

import (
	"context"
	"net"
	"os"
	"testing"
	"time"
)

// DivisibleSentinels is a primary, its replicas and sentinels, each known to the others by the
// address of a proxy. So they can be divided into two sides that do not reach each other, with
// processes of the test on either side. That needs Linux.
type DivisibleSentinels struct {
	*Sentinels
	// Primary and Replicas are the servers in their roles at the start.
	Primary  *Server
	Replicas []*Server

	ways map[*Server]*Proxy
}

// PrimaryName is the name of the primary at the sentinels of a DivisibleSentinels.
const PrimaryName = "main"

// StartDivisibleSentinels starts three sentinels around a primary with replicas. See
// [StartSentinels] for downAfter.
func StartDivisibleSentinels(t testing.TB, c Config, replicas int, downAfter time.Duration) *DivisibleSentinels {
	t.Helper()
	d := &DivisibleSentinels{Primary: Start(t, c), ways: map[*Server]*Proxy{}}
	d.announce(t, d.Primary)
	for range replicas {
		r := Start(t, c)
		d.announce(t, r)
		r.replicate(d.Name(d.Primary), false)
		d.Replicas = append(d.Replicas, r)
	}
	d.Sentinels = startSentinels(t, PrimaryName, d.Primary, d.Name(d.Primary), 3, downAfter, func(s *Server) {
		say := func(setting string, value string) error {
			return s.client.Do(context.Background(), "sentinel", "config", "set", setting, value).Err()
		}
		way := StartProxy(t, s.Addr)
		_, port, _ := net.SplitHostPort(way.Addr)
		if err := say("announce-ip", host); err != nil {
			t.Fatalf("redistest: sentinel: %v", err)
		}
		if err := say("announce-port", port); err != nil {
			t.Fatalf("redistest: sentinel: %v", err)
		}
		d.ways[s] = way
	})
	return d
}

// announce starts a proxy for the server and has the server announce its address.
func (d *DivisibleSentinels) announce(t testing.TB, s *Server) {
	t.Helper()
	d.ways[s] = StartProxy(t, s.Addr)
	_, port, _ := net.SplitHostPort(d.ways[s].Addr)
	for name, value := range map[string]string{"replica-announce-ip": host, "replica-announce-port": port} {
		if err := s.client.ConfigSet(context.Background(), name, value).Err(); err != nil {
			t.Fatalf("redistest: %v", err)
		}
	}
}

// Name returns the address by which the others list a server or a sentinel.
func (d *DivisibleSentinels) Name(s *Server) string { return d.ways[s].Addr }

// URL returns the redis+sentinel:// URL of the primary.
func (d *DivisibleSentinels) URL() string {
	url := "redis+sentinel://"
	for i, s := range d.Nodes {
		if i > 0 {
			url += ","
		}
		url += d.Name(s)
	}
	return url + "/" + PrimaryName
}

// Divide cuts some servers and sentinels, and processes with the given ids, off from all others,
// until Unite. Their connections stay, and everything that is sent on them is lost.
func (d *DivisibleSentinels) Divide(servers []*Server, processes ...int) {
	d.t.Helper()
	side, here := append([]int{}, processes...), map[*Server]bool{}
	for _, s := range servers {
		here[s] = true
		side = append(side, s.pid())
	}
	ours, others := ownersOf(append([]int{os.Getpid()}, side...)), ownersOf(side)
	for s, way := range d.ways {
		if here[s] {
			way.Sever(func(from, to net.Addr) bool { return !ours.have(from, to) })
		} else {
			way.Sever(others.have)
		}
	}
}

// Unite ends a division.
func (d *DivisibleSentinels) Unite() {
	for _, way := range d.ways {
		way.Clear()
	}
}

// pid returns the id of the running process, 0 for none.
func (s *Server) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.Pid
}
