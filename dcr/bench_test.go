package dcr_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"gatehouse.example/dcr"
)

// BenchmarkRegister registers the client of an editor, on the embedded store and on a
// backend that keeps nothing: the difference is the store.
func BenchmarkRegister(b *testing.B) {
	body, err := os.ReadFile("testdata/clients/vscode.json")
	if err != nil {
		b.Fatal(err)
	}
	quiet := func(c *dcr.Config) { c.Logger = slog.New(slog.DiscardHandler) }
	f := newFixture(b, quiet)
	embedded := f.backend.Backend
	for _, bench := range []struct {
		name string
		keep bool
	}{{"embedded", true}, {"discard", false}} {
		b.Run(bench.name, func(b *testing.B) {
			f.backend.Backend = embedded
			if !bench.keep {
				f.backend.Backend = &sink{Backend: embedded}
			}
			f.backend.stored = nil
			h := f.Register()
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, registerURL, strings.NewReader(string(body)))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != http.StatusCreated {
					b.Fatal(w.Body)
				}
				f.backend.stored = f.backend.stored[:0]
			}
			f.backend.Backend = embedded
		})
	}
}

// BenchmarkResolve finds a cached client from every processor at once.
func BenchmarkResolve(b *testing.B) {
	f := newFixture(b, nil)
	f.create(b, "one")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := f.Resolve(context.Background(), "one"); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkAssertion authenticates with keys by value, one round trip to a store that
// keeps nothing included.
func BenchmarkAssertion(b *testing.B) {
	for _, alg := range []string{"ES256", "RS256"} {
		b.Run(alg, func(b *testing.B) {
			f, s := newFixture(b, nil), newSigner(b, alg)
			f.backend.Backend = &sink{Backend: f.backend.Backend}
			token, client := s.good(b, f.clock.now()), s.client()
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Authenticate(b.Context(), client, token, audiences); err != nil {
					b.Fatal(err)
				}
				f.backend.stored = f.backend.stored[:0]
			}
		})
	}
}

// BenchmarkResolveDocument finds a document that was read before, from every processor at
// once.
func BenchmarkResolveDocument(b *testing.B) {
	r := newReader(b, nil)
	id := r.publish("client.example.com", nil)
	if _, err := r.Resolve(b.Context(), id); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Resolve(context.Background(), id); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkDigest computes what pages compare a client by.
func BenchmarkDigest(b *testing.B) {
	f := newFixture(b, nil)
	f.create(b, "one")
	c, err := f.Resolve(b.Context(), "one")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = dcr.Digest(c)
	}
}
