package trail_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
)

// heads keeps heads in memory.
type heads struct {
	mu   sync.Mutex
	kept map[string]trail.Head
}

func (h *heads) AuditHead(_ context.Context, host, file string) (trail.Head, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	head, ok := h.kept[host+" "+file]
	if !ok {
		return head, trail.ErrNoHead
	}
	return head, nil
}

func (h *heads) KeepAuditHead(_ context.Context, host, file string, head trail.Head) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept == nil {
		h.kept = map[string]trail.Head{}
	}
	h.kept[host+" "+file] = head
	return nil
}

func (h *heads) AuditHeads(context.Context) iter.Seq2[trail.PlacedHead, error] {
	return func(yield func(trail.PlacedHead, error) bool) {
		kept := h.copy()
		for _, at := range slices.Sorted(maps.Keys(kept)) {
			host, file, _ := strings.Cut(at, " ")
			if !yield(trail.PlacedHead{Host: host, Path: file, Head: kept[at]}, nil) {
				return
			}
		}
	}
}

func (h *heads) copy() map[string]trail.Head {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.kept)
}

func keyOf(t *testing.T, letter string) trail.Key {
	t.Helper()
	key, err := trail.NewKey([]byte(strings.Repeat(letter, 32)), "https://auth.example.com")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// place is a file of a trail, with what opens it.
type place struct {
	t     *testing.T
	path  string
	key   trail.Key
	heads *heads
	log   *bytes.Buffer
	last  *trail.Trail // that was opened
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{t: t, path: filepath.Join(t.TempDir(), "audit.jsonl"), key: keyOf(t, "k"), heads: &heads{}, log: &bytes.Buffer{}}
}

func (p *place) config() trail.Config {
	return trail.Config{Path: p.path, Key: &p.key, Heads: p.heads, Program: "test", Logger: slog.New(slog.NewTextHandler(p.log, nil))}
}

func (p *place) open() *trail.Trail {
	p.t.Helper()
	tr, err := trail.Open(p.t.Context(), p.config())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = tr.Close(context.Background()) })
	p.last = tr
	return tr
}

// kill ends the trail that was opened last as the end of its process would: nothing is written, and
// the locks are free.
func (p *place) kill() {
	p.t.Helper()
	p.last.Kill()
}

func (p *place) read() []byte {
	p.t.Helper()
	data, err := os.ReadFile(p.path)
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

func (p *place) write(data []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.path, data, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) verify(paths ...string) trail.Verified {
	p.t.Helper()
	if len(paths) == 0 {
		paths = []string{p.path}
	}
	v, err := trail.Verify(p.t.Context(), trail.Verifying{Keys: []trail.Key{p.key}, Heads: p.heads}, paths...)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// whats returns what the faults are and the lines in which they are.
func whats(v trail.Verified) []string {
	var out []string
	for _, f := range v.Faults {
		out = append(out, f.What+" "+string(rune('0'+f.Line)))
	}
	return out
}

func (p *place) want(what string, want []string, paths ...string) trail.Verified {
	p.t.Helper()
	v := p.verify(paths...)
	if got := whats(v); !slices.Equal(got, want) {
		p.t.Errorf("%s: the faults are %q, want %q: %+v", what, got, want, v)
	}
	return v
}

func signedIn(n int) audit.Event {
	return audit.Event{Kind: audit.SignedIn, By: audit.ByPerson, Person: "sub", Count: n}
}

// whole writes a file with a first line, six events and a last line.
func (p *place) whole() [][]byte {
	p.t.Helper()
	tr := p.open()
	for n := range 6 {
		tr.Record(signedIn(n + 1))
	}
	if err := tr.Close(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return bytes.SplitAfter(bytes.TrimSuffix(p.read(), []byte("\n")), []byte("\n"))
}
