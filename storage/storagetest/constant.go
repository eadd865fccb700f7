package storagetest

import (
	"testing"
	"time"

	"gatehouse.example/storage"
)

// occupied is what a grant occupies in the database.
type occupied struct {
	keys    int // items that were ever written
	entries int // of both lists that the grant is in
}

func (f *fixture) occupied(t *testing.T, g storage.Grant) occupied {
	t.Helper()
	keys := map[string]bool{}
	for _, written := range f.backend.writes() {
		keys[written.Key] = true
	}
	return occupied{
		keys:    len(keys),
		entries: len(page(t, f.backend, userGrants(g.Subject), "", 100)) + len(page(t, f.backend, clientGrants(g.ClientID), "", 100)),
	}
}

// testConstantStorage: a family occupies the same space however often it rotates, but for a few
// bytes of numbers that grow, and ends when its lifetime does.
func testConstantStorage(t *testing.T, f *fixture) {
	const growth = 4
	g := f.active(t)
	life := f.life()
	var first occupied
	var firstBytes int
	const rotations = 200
	for i := range rotations {
		f.clock.advance(time.Minute)
		var err error
		next := f.life()
		next.Expires = life.Expires
		if g, err = f.Rotate(t.Context(), g, next); err != nil {
			t.Fatalf("rotation %d: %v", i+1, err)
		}
		if i == 0 {
			first, firstBytes = f.occupied(t, g), len(f.backend.last(t).Data)
		}
	}
	if last := f.occupied(t, g); last != first || first.keys != 2 || first.entries != 2 { // the grant, and the key set that the store began with
		t.Errorf("after one rotation the family occupied %+v, after %d it occupies %+v", first, g.Generation, last)
	}
	if got := f.backend.last(t).TTL; got > life.Expires.Sub(f.clock.Now())+time.Minute {
		t.Errorf("after so many rotations the key lives for %v", got)
	}
	if got := len(f.backend.item(t, grantKey(g.ID)).Data); got < firstBytes || got > firstBytes+growth {
		t.Errorf("after one rotation the record had %d bytes, it has %d", firstBytes, got)
	}
	if got := f.read(t, g.ID).Generation; got != rotations {
		t.Errorf("the record holds generation %d", got)
	}
}
