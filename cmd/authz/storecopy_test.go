package main

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
	"gatehouse.example/storage/transfer"
)

// move is a store that moves from place to place.
type move struct {
	*records
	master string
}

func newMove(t *testing.T) *move { return &move{&records{t: t, issuer: testIssuer}, testKey(1)} }

// environ returns the environment of a process, with the store at a URL.
func (m *move) environ(url string) []string {
	return []string{
		"AUTHZ_STORE=" + url, "AUTHZ_ISSUER=" + m.issuer, "AUTHZ_MASTER_KEYS=" + m.master, "AUTHZ_DEV_INTROSPECTION_SECRET=" + testSecret,
		"AUTHZ_DEV_PASSWORD=correct-horse-battery",
	}
}

// secret returns the master key.
func (m *move) secret() []byte {
	m.t.Helper()
	key, err := base64.StdEncoding.DecodeString(m.master)
	if err != nil {
		m.t.Fatal(err)
	}
	return key
}

// serve starts a server on the store at a URL.
func (m *move) serve(url string) *running {
	m.t.Helper()
	return start(m.t, m.environ(url), "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
}

// refused wants a server and a verb to refuse the store at a URL with a sentence.
func (m *move) refused(url, sentence string) {
	m.t.Helper()
	for _, args := range [][]string{{"serve", "--dev", "--listen", "127.0.0.1:0"}, {"user", "ls"}, {"registry", "sync", "--upstream", "http://127.0.0.1:1"}} {
		environ := m.environ(url)
		if _, complaint := m.verb(1, append(environ, noLookout), args...); !strings.Contains(complaint, sentence) {
			m.t.Errorf("%v: %s; want %q", args, complaint, sentence)
		}
	}
}

// copy copies the store and returns what the verb printed.
func (m *move) copy(from, to string, more ...string) (out, said string) {
	m.t.Helper()
	return m.verb(0, m.environ("unused:"), append([]string{"store", "copy", "--from", from, "--to", to}, more...)...)
}

// listless is a store that takes no list.
type listless struct{ storage.IndexLister }

var errListless = errors.New("no lists")

// IndexAdd implements [storage.Backend].
func (listless) IndexAdd(context.Context, string, string) error { return errListless }

// TestStoreCopyHalf: the two stores of a copy that was not finished are refused, each with what to do,
// until the copy goes on. Giving it up lets the source be used again, and never the target.
func TestStoreCopyHalf(t *testing.T) {
	t.Parallel()
	m, path := newMove(t), filepath.Join(t.TempDir(), "gatehouse.db")
	from := "file:" + path
	m.serve(from).ended(t)
	to := "redis://" + miniredis.RunT(t).Addr()
	m.half(from, to)
	m.refused(from, "this store is being copied to "+to)
	m.refused(to, "this store is only a part of "+from)
	elsewhere := "redis://" + miniredis.RunT(t).Addr()
	_, complaint := m.verb(1, m.environ("unused:"), "store", "copy", "--from", from, "--to", elsewhere)
	if !strings.Contains(complaint, "is being copied to "+to) || !strings.Contains(complaint, "give it up with authz store copy --undo --from") {
		t.Errorf("to another target: %s", complaint)
	}
	out, said := m.copy(from, to)
	if !strings.Contains(said, "going on to copy ") || !strings.Contains(out, "start the servers with --store "+to) {
		t.Errorf("again: %s%s", said, out)
	}
	m.verb(0, m.environ(to), "user", "ls")
	m.refused(from, "this store was copied to "+to)

	m.verb(0, m.environ("unused:"), "store", "copy", "--undo", "--from", from)
	m.half(from, elsewhere)
	undone, _ := m.verb(0, m.environ("unused:"), "store", "copy", "--undo", "--from", from)
	if !strings.Contains(undone, "what was copied to "+elsewhere+" is refused") {
		t.Errorf("%s", undone)
	}
	m.verb(0, m.environ(from), "user", "ls")
	m.refused(elsewhere, "if that was given up, empty this store")
	if _, complaint := m.verb(1, m.environ("unused:"), "store", "copy", "--undo", "--from", elsewhere); !strings.Contains(complaint, "only a part of") {
		t.Errorf("a target is given up: %s", complaint)
	}
}

// half begins a copy that ends before its lists.
func (m *move) half(from, to string) {
	m.t.Helper()
	p := newProgram(nil, strings.NewReader(""), io.Discard, io.Discard)
	v := storeCopy{From: settings.StoreURL(from), To: settings.StoreURL(to)}
	v.Issuer, v.MasterKeys = m.issuer, settings.MasterKeys{m.secret()}
	source, err := openSide(m.t.Context(), p, v.From, false)
	if err != nil {
		m.t.Fatal(err)
	}
	defer source.Backend.Close()
	target, err := openSide(m.t.Context(), p, v.To, true)
	if err != nil {
		m.t.Fatal(err)
	}
	defer target.Backend.Close()
	target.Backend = listless{target.Backend}
	done, err := v.copy(m.t.Context(), p, source, target)
	if !errors.Is(err, errListless) {
		m.t.Fatal(err)
	}
	if err := v.problem(source, target, done, err); !strings.Contains(err.Error(), "run the same command again to go on, or give it up with authz store copy --undo --from "+source.Name) {
		m.t.Errorf("%v", err)
	}
}

// TestStoreCopyRefused: each copy that cannot begin has a sentence, and leaves both stores as they were.
func TestStoreCopyRefused(t *testing.T) {
	t.Parallel()
	m, path := newMove(t), filepath.Join(t.TempDir(), "gatehouse.db")
	m.serve("file:" + path).ended(t)
	used, empty := "redis://"+miniredis.RunT(t).Addr(), "redis://"+miniredis.RunT(t).Addr()
	m.serve(used).ended(t)
	for name, c := range map[string]struct {
		from, to, key, want string
	}{
		"used":        {"file:" + path, used, m.master, "has records that this copy did not write: name a store that is empty with --to"},
		"empty":       {empty, "file:" + path + ".new", m.master, "has no records: name the store of the server with --from"},
		"another key": {"file:" + path, empty, testKey(9), "the master keys or the issuer that were given are not those of file:"},
		"nothing":     {"file:" + path + ".gone", empty, m.master, "there is no "},
		"no folder":   {"file:" + path, "file:" + path + ".folder/gatehouse.db", m.master, "does not exist: make it"},
		"no server":   {"file:" + path, "redis://127.0.0.1:1", m.master, "no usable answer"},
	} {
		environ := append(m.environ("unused:"), "AUTHZ_MASTER_KEYS="+c.key)
		if _, complaint := m.verb(1, environ, "store", "copy", "--from", c.from, "--to", c.to); !strings.Contains(complaint, c.want) || strings.Contains(complaint, "not finished") {
			t.Errorf("%s: %s", name, complaint)
		}
	}
	for _, url := range []string{"file:" + path, used, empty} {
		m.verb(0, m.environ(url), "user", "ls")
	}
}

// TestStoreCopyProblems: an error of a copy that began has the store that it is about and the next step;
// of one that marked the stores also how to go on.
func TestStoreCopyProblems(t *testing.T) {
	t.Parallel()
	from, to := transfer.Side{Name: "file:old"}, transfer.Side{Name: "redis://new"}
	const goOn = "\nthe copy is not finished, and servers refuse both stores: run the same command again to go on, or give it up with authz store copy --undo --from file:old"
	for _, test := range []struct {
		err  error
		want string
	}{
		{transfer.ErrDiffers, "another program wrote to one of the stores during the copy: stop it, empty redis://new and run this again: "},
		{storage.ErrFull, "redis://new has no more room: "},
		{errListless, "no lists"},
	} {
		for marked, end := range map[bool]string{false: "", true: goOn} {
			got := (&storeCopy{}).problem(from, to, transfer.Summary{Marked: marked}, test.err)
			if !errors.Is(got, test.err) || !strings.HasPrefix(got.Error(), test.want) || strings.HasSuffix(got.Error(), goOn) != (end != "") {
				t.Errorf("%v, marked %t: %v", test.err, marked, got)
			}
		}
	}
	s := transfer.Summary{Unverified: 2}
	if said := surveySentences(from, to, s); !strings.Contains(said, "2 records cannot be verified with the master keys and the issuer that were given") {
		t.Errorf("records that cannot be verified: %s", said)
	}
	if s.Unverified = 0; strings.Contains(surveySentences(from, to, s), "verified") {
		t.Error("it speaks of records that cannot be verified, and there are none")
	}
}
