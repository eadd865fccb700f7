//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis/redistest"
)

// at runs something on the store at a URL, where no server may have a file open.
func (m *move) at(url string, do func()) {
	m.t.Helper()
	backend, err := openBackend(m.t.Context(), settings.StoreURL(url), storeOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	if m.store, err = storage.New(backend, storage.Options{Issuer: m.issuer, MasterKeys: [][]byte{m.secret()}}); err != nil {
		m.t.Fatal(err)
	}
	defer m.store.Close()
	do()
}

// TestStoreCopy: a store moves from Redis, while a server uses it, to a file and on to another Redis.
// The server that was left behind answers 503, a family of refresh tokens goes on at each place, and an
// old token still ends it.
func TestStoreCopy(t *testing.T) {
	t.Parallel()
	moves(t, redistest.StartServer(t), redistest.StartServer(t))
}

// moves moves a store from one Redis to a file and on to another Redis.
func moves(t *testing.T, first, second string) {
	m, path := newMove(t), filepath.Join(t.TempDir(), "gatehouse.db")
	left := m.serve(first)
	var access, refresh, old, inFlight string
	m.at(first, func() {
		demo, err := m.store.User(t.Context(), demoPerson)
		if err != nil {
			t.Fatal(err)
		}
		m.client("editor", "Editor")
		old = m.first(m.active(demo, "editor", nil))
		inFlight = m.code(demo, "editor", nil).ID
		session := storage.Session{UserName: demo.Name, Subject: demo.Subject, AuthTime: time.Now(), Expires: time.Now().Add(time.Hour)}
		if err := m.store.CreateSession(t.Context(), "secret of the session", session); err != nil {
			t.Fatal(err)
		}
	})
	access, refresh = left.refresh(t, "editor", old)

	out, said := m.copy(first, "file:"+path, "--json")
	var printed struct {
		From, To string
		Codes    int `json:"codes_left_out"`
		Records  map[string]struct {
			Count  int
			Digest string
		}
	}
	if err := json.Unmarshal([]byte(out), &printed); err != nil || printed.To != "file:"+path || printed.From != first ||
		printed.Codes != 1 || printed.Records["grant"].Count != 1 || len(printed.Records["grant"].Digest) != 64 {
		t.Errorf("%v: %s", err, out)
	}
	if want := "in flight: 1 code not redeemed, left out: their clients ask again; 1 session, kept: people stay signed in"; !strings.Contains(said, want) {
		t.Errorf("before the copy: %s", said)
	}
	if status, members := left.post(t, "/token", refreshForm("editor", refresh)); status != http.StatusServiceUnavailable {
		t.Errorf("the server that was left behind: %d %v", status, members)
	}
	if status, _ := get(t, http.DefaultClient, "http://"+left.shown("admin on")+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("it is ready: %d", status)
	}
	left.ended(t)
	m.refused(first, "this store was copied to file:"+path)

	here := m.serve("file:" + path)
	if !here.active(t, access) {
		t.Error("an access token from before is not active")
	}
	_, refresh = here.refresh(t, "editor", refresh)
	if _, complaint := m.verb(1, m.environ("unused:"), "store", "copy", "--from", "file:"+path, "--to", second); !strings.Contains(complaint, "another process has "+path+" open: stop the server") {
		t.Errorf("beside a server: %s", complaint)
	}
	here.ended(t)

	out, _ = m.copy("file:"+path, second)
	if !strings.Contains(out, "everything was read again at "+second+" and is the same") || !strings.Contains(out, "1 session, kept") {
		t.Errorf("%s", out)
	}
	m.refused("file:"+path, "this store was copied to "+second)
	there := m.serve(second)
	access, _ = there.refresh(t, "editor", refresh)
	if status, _ := there.post(t, "/token", refreshForm("editor", old)); status != http.StatusBadRequest || there.active(t, access) {
		t.Errorf("the first token of the family: %d", status)
	}
	m.at(second, func() {
		if s, err := m.store.Session(t.Context(), "secret of the session"); err != nil || s.UserName != demoPerson {
			t.Errorf("the session is of %q, %v", s.UserName, err)
		}
		if _, err := m.store.Grant(t.Context(), inFlight); err == nil {
			t.Error("a code that was not redeemed is known")
		}
	})
	there.ended(t)
	m.undo(first, path)
}

// undo gives copies up that are finished.
func (m *move) undo(first, path string) {
	m.t.Helper()
	undone, _ := m.verb(0, m.environ("unused:"), "store", "copy", "--undo", "--from", first)
	if !strings.Contains(undone, "without anything that happened at file:"+path) {
		m.t.Errorf("%s", undone)
	}
	m.verb(0, m.environ(first), "user", "ls")
	if _, complaint := m.verb(1, m.environ("unused:"), "store", "copy", "--undo", "--from", first); !strings.Contains(complaint, "is not being copied and was not") {
		m.t.Errorf("the second time: %s", complaint)
	}
}

// TestStoreCopyKilled: a copy that is killed while it writes leaves two stores that are refused, and
// one that is run again ends with everything.
func TestStoreCopyKilled(t *testing.T) {
	m, path := newMove(t), filepath.Join(t.TempDir(), "gatehouse.db")
	from, to := "file:"+path, redistest.StartServer(t)
	m.serve(from).ended(t)
	const groups = 5000
	m.at(from, func() {
		var adding sync.WaitGroup
		for i := range groups {
			adding.Go(func() {
				if err := m.store.CreateGroup(t.Context(), storage.Group{Name: fmt.Sprintf("group-%d", i)}); err != nil {
					t.Error(err)
				}
			})
		}
		adding.Wait()
	})
	p := &process{running: new(running), cmd: exec.Command("authz", "store", "copy", "--from", from, "--to", to), ended: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.stdout, &p.stderr, append(os.Environ(), m.environ("unused:")...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	client := redisClient(t, to)
	eventually(t, "some records are at the target", func() bool { return client.DBSize(t.Context()).Val() > groups/10 })
	p.signal(t, syscall.SIGKILL)
	_ = p.end(t)
	if n := client.DBSize(t.Context()).Val(); n >= groups {
		t.Fatalf("it was killed too late, with %d keys at the target", n)
	}
	m.refused(from, "this store is being copied to "+to)
	m.refused(to, "this store is only a part of "+from)
	out, said := m.copy(from, to, "--json")
	var printed struct {
		Resumed bool
		Records map[string]struct{ Count int }
	}
	if err := json.Unmarshal([]byte(out), &printed); err != nil || !printed.Resumed || printed.Records["group"].Count != groups {
		t.Errorf("%v: %s%s", err, said, out)
	}
	m.verb(0, m.environ(to), "group", "ls")
}

func redisClient(t *testing.T, url string) *goredis.Client {
	t.Helper()
	o, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
