//go:build e2e

package faults

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// newSuccession returns a primary with replicas, and a load on it. Parameters are those of its
// URL.
func newSuccession(t *testing.T, replicas int, parameters ...string) *succession {
	t.Helper()
	return newSuccessionOf(t, cast{replicas: replicas, workers: loadWorkers, downAfter: time.Second, parameters: strings.Join(parameters, "")})
}

// cast describes the servers and processes of a succession.
type cast struct {
	replicas, workers int
	downAfter         time.Duration // after which a sentinel finds a server down
	divisible         bool          // whether the servers and sentinels can be divided
	hesitant          bool          // see hesitate
	parameters        string        // of the URL
}

func newSuccessionOf(t *testing.T, c cast) *succession {
	t.Helper()
	chosen := cmp.Or(*killSeed, rand.Uint64())
	t.Logf("-faults.seed=%d", chosen)
	s := &succession{}
	url := s.found(t, c)
	if n, err := s.primary.Client().Wait(t.Context(), c.replicas, patience).Result(); int(n) < c.replicas {
		t.Fatalf("%d of %d replicas follow: %v", n, c.replicas, err) // before that no registration is acknowledged
	}
	if c.hesitant {
		s.hesitate(t)
	}
	s.siege = &siege{load: newLoad(t, url+c.parameters), random: rand.New(rand.NewPCG(chosen, loadWorkers))}
	for n := range c.workers {
		w := &worker{load: s.load, n: n, random: rand.New(rand.NewPCG(chosen, uint64(n)))}
		s.staff = append(s.staff, &successionWorker{worker: w, succession: s})
		w.arrives()
	}
	return s
}

// found starts the servers and returns the URL of their sentinels.
func (s *succession) found(t *testing.T, c cast) (url string) {
	t.Helper()
	if c.divisible {
		s.divided = redistest.StartDivisibleSentinels(t, redistest.Config{Persistent: true}, c.replicas, c.downAfter)
		s.primary, s.replicas, s.group = s.divided.Primary, s.divided.Replicas, s.divided.Sentinels
		return s.divided.URL()
	}
	s.primary = redistest.Start(t, redistest.Config{Persistent: true})
	for range c.replicas {
		s.replicas = append(s.replicas, redistest.Start(t, redistest.Config{Persistent: true, ReplicaOf: s.primary}))
	}
	s.group = redistest.StartSentinels(t, redistest.PrimaryName, s.primary, 3, c.downAfter)
	return s.group.URL()
}

// hesitate gives a primary that is back the time that it has outside of tests: the sentinels make
// it a replica, which loses its own writes, when they have reached it for four of their periods
// between announcements. That is eight seconds, and the short periods of these tests make it one.
func (s *succession) hesitate(t *testing.T) {
	t.Helper()
	for _, sentinel := range s.group.Nodes {
		if err := sentinel.Client().Do(t.Context(), "sentinel", "debug", "publish-period", "2000").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// name returns the address by which the sentinels list a server.
func (s *succession) name(r *redistest.Server) string {
	if s.divided != nil {
		return s.divided.Name(r)
	}
	return r.Addr
}
