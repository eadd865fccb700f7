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
