package storage_test

import (
	"testing"
	"time"

	"gatehouse.example/storage"
)

// redeemed returns a grant in the store.
func redeemed(b *testing.B, s *storage.Store) storage.Grant {
	b.Helper()
	g, _ := prepare(b, s)
	if err := s.CreateGrant(b.Context(), g); err != nil {
		b.Fatal(err)
	}
	g, err := s.Grant(b.Context(), g.ID)
	if err != nil {
		b.Fatal(err)
	}
	g, err = s.Redeem(b.Context(), g, life())
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func life() storage.Lifetime {
	return storage.Lifetime{
		Expires: now().Add(90 * 24 * time.Hour), IdleExpires: now().Add(30 * 24 * time.Hour), AccessUntil: now().Add(5 * time.Minute),
	}
}

func BenchmarkGrantRead(b *testing.B) {
	s, _ := newStore(b)
	g := redeemed(b, s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Grant(b.Context(), g.ID); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGrantSwap(b *testing.B) {
	s, _ := newStore(b)
	g := redeemed(b, s)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if g, err = s.Rotate(b.Context(), g, life()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefreshToken(b *testing.B) {
	s, _ := newStore(b)
	g, _ := prepare(b, s)
	token, err := s.RefreshTokenOf(g, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Genuine", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			parsed, _ := storage.ParseRefreshToken(token)
			if genuine, err := s.Genuine(g, parsed); !genuine || err != nil {
				b.Fatal(genuine, err)
			}
		}
	})
	b.Run("Derive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.RefreshTokenOf(g, 2); err != nil {
				b.Fatal(err)
			}
		}
	})
}
