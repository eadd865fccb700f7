package trail_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
)

// servers writes the files of an authorization server and a gateway, whose clocks agree.
func servers(t *testing.T) []string {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(name string, events ...audit.Event) string {
		p := newPlace(t)
		p.path = filepath.Join(filepath.Dir(p.path), name)
		tr := p.open()
		for _, e := range events {
			tr.Record(e)
		}
		return p.path
	}
	after := func(seconds int, e audit.Event) audit.Event {
		e.Time = at.Add(time.Duration(seconds) * time.Second)
		return e
	}
	notes := audit.Resources("https://notes.example.com/mcp")
	return []string{
		write("gateway",
			after(3, audit.Event{Kind: audit.Operation, Token: "t1", Method: "tools/call", Name: "add_note", Resources: notes}),
			after(4, audit.Event{Kind: audit.Operation, Token: "t9", Method: "tools/call", Name: "other"}),
			after(6, audit.Event{Kind: audit.Operation, Token: "t2", Grant: "g1", Method: "tools/list"}),
			after(7, audit.Event{Kind: audit.Operation, Token: "t2", Grant: "g2", Method: "another grant's"}),
		),
		write("server",
			after(1, audit.Event{Kind: audit.Consented, Person: "p", Client: "c", Grant: "g1", Resources: notes}),
			after(2, audit.Event{Kind: audit.TokenIssued, Person: "p", Client: "c", Grant: "g1", Token: "t1"}),
			after(5, audit.Event{Kind: audit.TokenRefreshed, Person: "p", Client: "c", Grant: "g1", Token: "t2"}),
			after(8, audit.Event{Kind: audit.GrantRevoked, Person: "q", Client: "c", Grant: "g2"}),
		),
	}
}

// TestTrace joins the files of two servers by grant and time, also where an operation names the
// access token alone.
func TestTrace(t *testing.T) {
	found, err := trail.Trace("g1", servers(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range found {
		got = append(got, fmt.Sprint(filepath.Base(l.File), " ", l.Kind, " ", l.Name, l.Method))
	}
	want := []string{"server consented ", "server token-issued ", "gateway operation add_notetools/call", "server token-refreshed ", "gateway operation tools/list"}
	if !slices.Equal(got, want) {
		t.Errorf("the grant did %q, want %q", got, want)
	}
}

// TestSearch finds lines by each field.
func TestSearch(t *testing.T) {
	files, at := servers(t), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for what, test := range map[string]struct {
		filter trail.Filter
		want   int
	}{
		"kind":     {trail.Filter{Kinds: []audit.Kind{audit.Operation, audit.Consented}}, 5},
		"person":   {trail.Filter{Person: "p"}, 3},
		"client":   {trail.Filter{Client: "c"}, 4},
		"grant":    {trail.Filter{Grant: "g2"}, 2},
		"token":    {trail.Filter{Token: "t2"}, 3},
		"resource": {trail.Filter{Resource: "https://notes.example.com/mcp"}, 2},
		"time":     {trail.Filter{Since: at.Add(3 * time.Second), Until: at.Add(5 * time.Second)}, 2},
		"all":      {trail.Filter{Person: "p", Kinds: []audit.Kind{audit.TokenIssued}, Until: at.Add(time.Minute)}, 1},
		"nothing":  {trail.Filter{Person: "p", Grant: "g2"}, 0},
	} {
		n := 0
		if err := trail.Search(test.filter, files, func(trail.Found) error { n++; return nil }); err != nil || n != test.want {
			t.Errorf("by %s %d lines were found, %v; want %d", what, n, err, test.want)
		}
	}
	stop := errors.New("stop")
	if err := trail.Search(trail.Filter{}, files, func(trail.Found) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the caller is returned as %v", err)
	}
}

// TestFollow reads the last lines, those that are added, and those of the file that follows.
func TestFollow(t *testing.T) {
	p := newPlace(t)
	tr := p.open()
	for n := range 4 {
		tr.Record(signedIn(n + 1))
	}
	stop, steps := errors.New("stop"), 0
	var got []int
	err := trail.Follow(trail.Filter{Kinds: []audit.Kind{audit.SignedIn}}, p.path, 2, func() error {
		switch steps++; steps {
		case 1:
			tr.Record(signedIn(5))
		case 2:
			tr.Record(signedIn(6))
			if err := os.Rename(p.path, p.path+".1"); err != nil {
				return err
			}
			tr.Record(signedIn(7))
			tr.Reopen()
			tr.Record(signedIn(8))
		case 4:
			return stop
		}
		return nil
	}, func(l trail.Line) error { got = append(got, l.Count); return nil })
	if want := []int{3, 4, 5, 6, 7, 8}; !errors.Is(err, stop) || !slices.Equal(got, want) {
		t.Errorf("it followed %v, %v; want %v", got, err, want)
	}
}
