package trail_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestUnread: what is no trail is not taken for one without events, and lines that somebody changed
// do not vanish from what is found. A line in which a process ended is no fault.
func TestUnread(t *testing.T) {
	p := newPlace(t)
	p.open().Record(signedIn(1))
	good := string(p.read())
	cut := good[:len(good)-9]
	p.kill()
	p.write([]byte(cut))
	p.open().Record(signedIn(2)) // says that the line before is torn
	torn := string(p.read())
	for what, test := range map[string]struct {
		text  string
		found int
		said  string // "" for no error
	}{
		"nothing":               {"", 0, ""},
		"good":                  {good, 1, ""},
		"being written":         {cut, 0, ""},
		"only begun":            {`{"s`, 0, ""},
		"a process ended":       {torn, 1, ""},
		"it ended, and a fault": {torn + "x\n", 1, fmt.Sprintf("how many: 1, the first from line %d on", strings.Count(torn, "\n")+1)},
		"a text":                {"no trail", 0, "name another file"},
		"lines":                 {"no\ntrail\n", 0, "name another file"},
		"cut, with a line end":  {cut + "\n", 0, "how many: 1"},
		"two faults":            {good + "x\n{}\n" + good, 2, fmt.Sprintf("how many: 2, the first from line %d on", strings.Count(good, "\n")+1)},
	} {
		p.write([]byte(test.text))
		n := 0
		err := trail.Search(trail.Filter{Kinds: []audit.Kind{audit.SignedIn}}, []string{p.path, p.path}, func(trail.Found) error { n++; return nil })
		if n != 2*test.found || errors.Is(err, trail.ErrUnread) != (test.said != "") || err != nil && strings.Count(err.Error(), test.said) != 2 {
			t.Errorf("%s: Search found %d lines, %v; want %d and %q", what, n, err, 2*test.found, test.said)
		}
		traced, err := trail.Trace("", []string{p.path})
		if errors.Is(err, trail.ErrUnread) != (test.said != "") || test.found > 0 && len(traced) == 0 {
			t.Errorf("%s: Trace found %d lines, %v", what, len(traced), err)
		}
		err = trail.Follow(trail.Filter{}, p.path, 1, func() error { return io.EOF }, func(trail.Line) error { return nil })
		if foreign := strings.Contains(test.said, "another file"); errors.Is(err, trail.ErrUnread) != (foreign && strings.Contains(test.text, "\n")) {
			t.Errorf("%s: Follow: %v", what, err)
		}
	}
}
