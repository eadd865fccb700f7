package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// first returns the refresh token of a grant that is new.
func (r *records) first(g storage.Grant) string {
	r.t.Helper()
	token, err := r.store.RefreshTokenOf(g, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

const sealedLine = "every record is sealed under the first master key"

// Everything that was issued under an old master key works after the key is dropped, whether the
// verb or a server sealed it anew.
func TestMasterKeyDropped(t *testing.T) {
	for name, reseal := range map[string]func(*testing.T, *records, []string){
		"verb": func(t *testing.T, r *records, both []string) {
			// The signing keys, the person, the client and both grants, the revoked one too.
			out, _ := r.verb(0, r.environ(both...), "key", "reseal")
			if !strings.HasPrefix(out, sealedLine+": 5 records looked at, 5 sealed anew\n") || !strings.Contains(out, "the other master keys can be dropped") {
				t.Errorf("%s", out)
			}
			out, _ = r.verb(0, r.environ(both...), "key", "reseal", "--json")
			var numbers resealed
			if err := json.Unmarshal([]byte(out), &numbers); err != nil || (numbers != resealed{MasterKeys: 2, Looked: 5}) {
				t.Errorf("again: %v %s", err, out)
			}
		},
		"server": func(t *testing.T, r *records, both []string) {
			server := start(t, r.environ(both...), "--dev", "--listen", "127.0.0.1:0")
			eventually(t, "it says that it is done", func() bool { return strings.Contains(server.stderr.String(), sealedLine) })
			server.ended(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := testKey(1), testKey(2)
			r := newRecords(t, before)
			server := start(t, r.environ(before), "--dev", "--listen", "127.0.0.1:0")
			demo, err := r.store.User(t.Context(), demoPerson)
			if err != nil {
				t.Fatal(err)
			}
			r.client("editor", "Editor")
			gone := r.active(demo, "editor", nil)
			if err := r.store.Revoke(t.Context(), gone.ID, "test"); err != nil {
				t.Fatal(err)
			}
			access, refresh := server.refresh(t, "editor", r.first(r.active(demo, "editor", nil)))
			server.ended(t)
			r.verb(0, r.environ(before), "key", "rotate")

			reseal(t, r, []string{after, before})

			server = start(t, r.environ(after), "--dev", "--listen", "127.0.0.1:0")
			if !server.active(t, access) {
				t.Error("an access token from before is not active")
			}
			server.refresh(t, "editor", refresh)
			if g, err := openRecords(t, r.redis, after).store.Grant(t.Context(), gone.ID); err != nil || g.State != storage.GrantRevoked {
				t.Errorf("a revoked grant is %s, %v", g.State, err)
			}
			out, _ := r.verb(0, r.environ(after), "key", "reseal")
			if out != "there is only one master key, so nothing has to be sealed anew: 5 records looked at\n" {
				t.Errorf("%s", out)
			}
		})
	}
}

// While two servers change their master key one after the other, as the documentation describes,
// every grant can be refreshed at both of them, whichever server made it.
func TestMasterKeyChangesWhileServersRun(t *testing.T) {
	before, after := testKey(1), testKey(2)
	r := newRecords(t, before)
	r.client("editor", "Editor")
	steps := [][2][]string{
		{{before}, {before}},
		{{before, after}, {before}},
		{{before, after}, {before, after}},
		{{after, before}, {before, after}},
		{{after, before}, {after, before}},
		{{after}, {after, before}},
		{{after}, {after}},
	}
	var servers [2]*running
	var old string // the last refresh token of the grant that sees it all
	for i, keys := range steps {
		for s := range servers {
			if i > 0 && strings.Join(keys[s], ",") == strings.Join(steps[i-1][s], ",") {
				continue
			}
			if servers[s] != nil {
				servers[s].ended(t)
			}
			servers[s] = start(t, r.environ(keys[s]...), "--dev", "--listen", "127.0.0.1:0")
			if len(keys[s]) > 1 { // what it does at its start is done, so that each step is itself
				eventually(t, "it says that it is done", func() bool { return strings.Contains(servers[s].stderr.String(), sealedLine) })
			}
		}
		demo, err := openRecords(t, r.redis, keys[0]...).store.User(t.Context(), demoPerson)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			old = r.first(r.active(demo, "editor", nil))
		}
		for s := range servers {
			made := openRecords(t, r.redis, keys[s]...)
			token := made.first(made.active(demo, "editor", nil))
			for _, at := range servers {
				_, token = at.refresh(t, "editor", token)
				_, old = at.refresh(t, "editor", old)
			}
		}
		if i == 4 {
			r.verb(0, r.environ(keys[0]...), "key", "reseal")
		}
	}
}

// A secret that no key opens is counted and stays, and the pass goes on.
func TestResealUnreadable(t *testing.T) {
	r := newRecords(t, testKey(2))
	amy := r.person("amy")
	r.active(amy, "editor", nil)
	other := openRecords(t, r.redis, testKey(1), testKey(2))
	lost := other.active(amy, "editor", nil)
	environ := r.environ(testKey(3), testKey(2))
	out, complaint := r.verb(1, environ, "key", "reseal")
	if out != "" || !strings.Contains(complaint, "1 of 4 records cannot be verified or opened") || !strings.Contains(complaint, "drop none") {
		t.Errorf("%s%s", out, complaint)
	}
	out, complaint = r.verb(1, environ, "key", "reseal", "--json")
	var numbers resealed
	if err := json.Unmarshal([]byte(out), &numbers); err != nil || (numbers != resealed{MasterKeys: 2, Looked: 4, Unreadable: 1}) || !strings.Contains(complaint, "or opened") {
		t.Errorf("%v %s%s", err, out, complaint)
	}
	if g, err := other.store.Grant(t.Context(), lost.ID); err != nil || !bytes.Equal(g.Seed, lost.Seed) {
		t.Errorf("it was touched: %v", err)
	}
	out, _ = r.verb(0, r.environ(testKey(3), testKey(2), testKey(1)), "key", "reseal")
	if !strings.HasPrefix(out, sealedLine+": 4 records looked at, 1 sealed anew\n") {
		t.Errorf("with the key that was missing: %s", out)
	}
	r.redis.SetError("LOADING the store is gone")
	if _, complaint = r.verb(1, environ, "key", "reseal"); complaint == "" || strings.Contains(complaint, "panic") {
		t.Errorf("without a store: %s", complaint)
	}
}

// The status line is empty at the end, and changes only a few times a second.
func TestStatusLine(t *testing.T) {
	var terminal bytes.Buffer
	now := time.Unix(1000, 0)
	line := &statusLine{w: &terminal, now: func() time.Time { return now }}
	for i := range 1000 {
		line.show("a long beginning")
		if i > 500 {
			line.show("shorter")
		}
		now = now.Add(time.Millisecond)
	}
	if n := strings.Count(terminal.String(), "\r"); n < 2 || n > 5 {
		t.Errorf("%d lines in a second", n)
	}
	terminal.Reset()
	now = now.Add(time.Second)
	line.show("short")
	if got := terminal.String(); got != "\rshort           " {
		t.Errorf("%q", got)
	}
	terminal.Reset()
	line.clear()
	if got := terminal.String(); got != "\r     \r" {
		t.Errorf("%q", got)
	}
	nobody := (&program{stderr: &terminal}).statusLine()
	terminal.Reset()
	nobody.show("text")
	nobody.clear()
	if terminal.Len() > 0 {
		t.Errorf("%q is shown to nobody", terminal.String())
	}
}
