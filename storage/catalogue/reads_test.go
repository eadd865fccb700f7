package catalogue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/catalogue"
)

var errRead = fmt.Errorf("%w: one read failed", storage.ErrUnavailable)

// failing calls do with each single read of the backend failing in turn, from the first to the last.
func failing(t *testing.T, b *plainBackend, do func(n int) error) {
	t.Helper()
	for n := 1; ; n++ {
		reads := 0
		b.before = func(op string) {
			b.fails = nil
			if slices.Contains([]string{"get", "get many", "index page"}, op) {
				if reads++; reads == n {
					b.fails = errRead
				}
			}
		}
		err := do(n)
		b.before, b.fails = nil, nil
		if reads < n {
			if n < 3 || err != nil {
				t.Errorf("%d reads: %v", reads, err)
			}
			return
		}
		if !errors.Is(err, errRead) {
			t.Errorf("read %d of the store failed, and the call with %v", n, err)
		}
	}
}

// brief returns rows as one line.
func brief(entries ...catalogue.Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%s %s %s %s", e.Name, e.Version, e.Status, e.Server))
	}
	return strings.Join(all, ", ")
}

func threeServers() []catalogue.Entry {
	return []catalogue.Entry{
		server("a", "1", "a1"), server("a", "2", "a2", "latest"), server("b", "1", "b1", "latest"), server("c", "1", "c1", "deleted", "latest"),
	}
}

// TestReadsFailAnywhere: a reader of which any single read of the store fails gets the error and no
// part of the answer passes for the whole.
func TestReadsFailAnywhere(t *testing.T) {
	t.Parallel()
	b := newPlain()
	c := catalogueOn(t, b)
	w := openCatalogue(t, c)
	if err := errors.Join(w.Commit(t.Context(), threeServers(), nil), w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	page := func(q catalogue.Query) func() (string, error) {
		return func() (string, error) {
			p, err := c.Page(t.Context(), q, "", 10)
			return brief(p.Entries...), err
		}
	}
	for name, read := range map[string]func() (string, error){
		"all":     page(catalogue.Query{Deleted: true}),
		"latest":  page(catalogue.Query{Latest: true}),
		"version": page(catalogue.Query{Version: "1", Deleted: true}),
		"since":   page(catalogue.Query{Since: now().Add(-time.Hour), Deleted: true}),
		"by age":  page(catalogue.Query{Name: "a", Deleted: true}),
		"matched": page(catalogue.Query{Match: func(name string) bool { return name != "a" }, Deleted: true}),
		"one": func() (string, error) {
			e, err := c.Entry(t.Context(), "a", "2")
			return brief(e), err
		},
		"the latest": func() (string, error) {
			e, err := c.Latest(t.Context(), "a")
			return brief(e), err
		},
		"versions": func() (string, error) {
			all, err := c.Versions(t.Context(), "a", nil)
			return brief(all...), err
		},
		"names": func() (names string, err error) {
			err = errors.Join(
				c.Names(t.Context(), time.Time{}, func(name string) { names += name + " " }),
				c.Names(t.Context(), now().Add(-time.Hour), func(name string) { names += name + " " }))
			return names, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := read()
			if err != nil || want == "" {
				t.Fatalf("%q %v", want, err)
			}
			failing(t, b, func(int) error {
				_, err := read()
				return err
			})
			if got, err := read(); err != nil || got != want {
				t.Errorf("%q, want %q: %v", got, want, err)
			}
		})
	}
}

// TestReadsFailAnywhereOfAWriter: a writer that takes over from one that died in the middle of a page,
// lists the rows of an earlier release and commits, with any single read failing, ends with the
// error; the next one commits the same page.
func TestReadsFailAnywhereOfAWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := now()
		died := newPlain()
		on := func(b storage.Backend) *catalogue.Catalogue {
			return catalogueWith(t, b, storage.Options{Issuer: issuer, Now: func() time.Time { return at }})
		}
		w := openCatalogue(t, on(died))
		if err := w.Commit(t.Context(), threeServers(), nil); err != nil {
			t.Fatal(err)
		}
		earlier(died)
		puts := 0
		died.before = func(op string) {
			if op == "put" {
				if puts++; puts > 2 { // the announcement and one row
					died.fails = errRead
				}
			}
		}
		lost := []catalogue.Entry{server("a", "1", "lost", "deprecated"), server("d", "1", "lost", "latest")}
		if err := w.Commit(t.Context(), lost, nil); !errors.Is(err, errRead) {
			t.Fatal(err)
		}
		_ = w.Close(t.Context())
		died.before, died.fails = nil, nil
		at = at.Add(time.Minute)

		next := []catalogue.Entry{server("b", "1", "b1", "deprecated", "latest"), server("e", "1", "e1", "latest")}
		update := func(c *catalogue.Catalogue) error {
			w, err := c.OpenWriter(t.Context(), "next")
			if err != nil {
				return err
			}
			more := true
			for more && err == nil {
				more, err = w.Relist(t.Context())
			}
			if err == nil {
				err = w.Commit(t.Context(), next, nil)
			}
			return errors.Join(err, w.Close(t.Context()))
		}
		b := newPlain()
		failing(t, b, func(n int) error {
			fresh := died.clone()
			b.items, b.indexes = fresh.items, fresh.indexes
			c := on(b)
			err := update(c)
			b.before, b.fails = nil, nil
			at = at.Add(time.Minute)
			if again := update(c); again != nil {
				t.Errorf("read %d: again: %v", n, again)
			}
			p, wrong := c.Page(t.Context(), catalogue.Query{Deleted: true}, "", 10)
			want := "a 1 active a1, a 2 active a2, b 1 deprecated b1, c 1 deleted c1, e 1 active e1"
			if got := brief(p.Entries...); wrong != nil || got != want {
				t.Errorf("read %d: %q, want %q: %v", n, got, want, wrong)
			}
			if st, wrong := c.State(t.Context()); wrong != nil || st.Servers != 3 || st.Live != 4 || st.Deleted != 1 || !st.ByAge {
				t.Errorf("read %d: %+v %v", n, st, wrong)
			}
			return err
		})
	})
}
