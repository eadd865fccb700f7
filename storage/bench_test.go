package storage_test

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/metadata"
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

// BenchmarkPersonRead reads what a page of a person needs, which did not change since it was read last.
func BenchmarkPersonRead(b *testing.B) {
	s, _ := newStore(b)
	client := storage.Client{ID: "client", Source: storage.ClientRegistered, Created: now(), Metadata: metadata.Client{
		RedirectURIs: []string{"http://127.0.0.1/callback"}, ClientName: "A client", GrantTypes: []string{"authorization_code"},
	}}
	session := storage.Session{UserName: "ann", Subject: "1", Method: "password", AuthTime: now(), Expires: now().Add(time.Hour)}
	err := errors.Join(
		s.CreateUser(b.Context(), storage.User{Name: "ann", Subject: "1", Password: "hash", Created: now(), Groups: []storage.Membership{{Group: "staff", ID: "1"}}}),
		s.CreateSession(b.Context(), "secret", session), s.CreateClient(b.Context(), client))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		read := s.Reading()
		ann, signedIn, its := read.User("ann"), read.Session("secret"), read.Client("client")
		if err := read.Read(b.Context()); err != nil {
			b.Fatal(err)
		}
		_, noPerson := ann()
		_, noSession := signedIn()
		_, noClient := its()
		if err := errors.Join(noPerson, noSession, noClient); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkClientCreate writes the record of a registration.
func BenchmarkClientCreate(b *testing.B) {
	s, backend := newStore(b)
	c := storage.Client{ID: "client", Source: storage.ClientRegistered, Created: now(), Expires: now().Add(time.Hour), Software: "software", Network: "network", Metadata: metadata.Client{
		RedirectURIs: []string{"http://127.0.0.1/callback"}, ClientName: "A client", GrantTypes: []string{"authorization_code"},
	}}
	b.ReportAllocs()
	for b.Loop() {
		if err := errors.Join(s.CreateClient(b.Context(), c), backend.Delete(b.Context(), storage.KeyPrefix+"client:client")); err != nil {
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
