package storage_test

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestRotateAfterForgetting: a takeover that loses rotations between the read and the swap of a
// rotation is not a conflict, which would tell a client that its token has ended. A grant that is
// revoked there is.
func TestRotateAfterForgetting(t *testing.T) {
	t.Parallel()
	s := newTimed(t)
	life := storage.Lifetime{Expires: s.now.Add(time.Hour), AccessUntil: s.now.Add(time.Hour), IdleExpires: s.now.Add(time.Hour)}
	first, err := s.Redeem(t.Context(), s.created(t), life)
	if err != nil {
		t.Fatal(err)
	}
	key := "gatehouse:grant:" + first.ID
	forgetful, err := s.backend.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Rotate(t.Context(), first, life)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Rotate(t.Context(), first, life); !errors.Is(err, storage.ErrConflict) || got.Generation != 1 {
		t.Errorf("a lost rotation finds generation %d, %v; want 1, a conflict", got.Generation, err)
	}
	older := storage.Put{Key: key, Data: forgetful.Data, If: storage.Always, Operation: forgetful.Version, TTL: time.Hour}
	if _, err := s.backend.Put(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rotate(t.Context(), second, life); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrConflict) {
		t.Errorf("a rotation that meets a forgetful copy: %v", err)
	}
	if err := s.Revoke(t.Context(), first.ID, "test"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Rotate(t.Context(), second, life); !errors.Is(err, storage.ErrConflict) || got.State != storage.GrantRevoked {
		t.Errorf("a rotation that meets a revocation there: %s, %v", got.State, err)
	}
}
