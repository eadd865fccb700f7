package storage_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// TestBoundOfSparedCostsLittle: while all of too many clients are spared, as during a flood, looking
// for some to remove takes two round trips, however many there are.
func TestBoundOfSparedCostsLittle(t *testing.T) {
	var trips atomic.Int64
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:", OnRoundTrip: func() { trips.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := storage.New(backend, storage.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 300 {
		c := storage.Client{
			ID: fmt.Sprintf("client-%d", i), Source: storage.ClientRegistered, Software: "software", Network: "network",
			Created: now(), Expires: now().Add(time.Hour),
		}
		if err := s.CreateClient(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range []storage.Bound{{}, {Software: "software"}, {Network: "network"}} {
		b.Most, b.Spare = 10, now()
		before := trips.Load()
		removed, full, err := s.BoundUnused(t.Context(), b)
		if n := trips.Load() - before; removed != 0 || !full || err != nil || n > 2 {
			t.Errorf("%+v: %d are removed, full %t, %v, after %d round trips", b, removed, full, err, n)
		}
		b.Spare = now().Add(time.Second)
		if removed, full, err = s.BoundUnused(t.Context(), storage.Bound{Software: b.Software, Network: b.Network, Most: 299, Spare: b.Spare}); err != nil || full || removed > 1 {
			t.Errorf("%+v: %d are removed, full %t, %v", b, removed, full, err)
		}
	}
}
