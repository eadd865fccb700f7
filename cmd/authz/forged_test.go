package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/storage"
)

const (
	signingKeys = "gatehouse:keyset:signing"
	forgedLine  = `level=ERROR msg="a record in the store is forged`
	// plainHead is the header of a record without a seal, after the operation id: version 1, no
	// end.
	plainHead = "0123456789abcdef\x01\x00\x00\x00\x00\x00\x00\x00\x00"
)

// raw is the value of a key of Redis.
func (r *records) raw(key string) string {
	r.t.Helper()
	value, err := r.redis.Get(key)
	if err != nil {
		r.t.Fatalf("%s: %v", key, err)
	}
	return value
}

func (r *records) setRaw(key, value string) {
	r.t.Helper()
	r.redis.Del(key)
	if err := r.redis.Set(key, value); err != nil {
		r.t.Fatal(err)
	}
}

// probe returns the response of /readyz.
func (r *running) probe(t *testing.T) (int, string) {
	t.Helper()
	return get(t, http.DefaultClient, "http://"+r.shown("admin on")+"/readyz")
}

func startWithAdmin(t *testing.T, environ []string, args ...string) *running {
	t.Helper()
	return start(t, environ, append([]string{"--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
}

// attackerKeys returns a key set that an attacker has made.
func attackerKeys(t *testing.T) string {
	t.Helper()
	elsewhere := newRecords(t, testKey(9))
	start(t, elsewhere.environ(), "--dev", "--listen", "127.0.0.1:0")
	return elsewhere.raw(signingKeys)
}

// A running server that finds another key set, or none, keeps its keys, reports that, and makes no
// new ones. A server that starts refuses to.
func TestForgedKeySet(t *testing.T) {
	strange := attackerKeys(t)
	for name, forge := range map[string]func(r *records){
		"written by hand":   func(r *records) { r.setRaw(signingKeys, plainHead+strings.TrimLeft(strange[45:], " ")) },
		"of another server": func(r *records) { r.setRaw(signingKeys, strange) },
		"without keys":      func(r *records) { r.setRaw(signingKeys, plainHead+`{"keys":[]}`) },
		"empty":             func(r *records) { r.setRaw(signingKeys, "") },
		"a list":            func(r *records) { r.redis.Del(signingKeys); _, _ = r.redis.Lpush(signingKeys, "x") },
		"another record":    func(r *records) { r.setRaw(signingKeys, r.raw("gatehouse:user:demo")) },
		"deleted":           func(r *records) { r.redis.Del(signingKeys) },
		"with the switch off": func(r *records) {
			r.setRaw(signingKeys, strings.Replace(r.raw(signingKeys), `"sealed"`, `"plain" `, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecords(t, testKey(1))
			server := startWithAdmin(t, r.environ(), "--key-cache", "1s")
			_, keys := get(t, http.DefaultClient, "http://"+server.shown("listening on")+"/jwks.json")
			forge(r)
			before := r.redis.Dump()
			eventually(t, "the log raises an alarm", func() bool { return strings.Contains(server.stderr.String(), forgedLine) })
			if status, text := server.probe(t); status != http.StatusServiceUnavailable || !strings.Contains(text, "forged") {
				t.Errorf("the probe says %d %s", status, text)
			}
			if _, now := get(t, http.DefaultClient, "http://"+server.shown("listening on")+"/jwks.json"); now != keys {
				t.Error("other keys are published")
			}
			server.ended(t)
			r.refused(t)
			if after := r.redis.Dump(); after != before {
				t.Errorf("the store was changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// A value of another type in the place of a record, and an empty one, are 503, not a missing
// record.
func TestNoItem(t *testing.T) {
	r := newRecords(t, testKey(1))
	server := startWithAdmin(t, r.environ())
	demo, err := r.store.User(t.Context(), demoPerson)
	if err != nil {
		t.Fatal(err)
	}
	r.client("editor", "Editor")
	g := r.active(demo, "editor", nil)
	access, refresh := server.refresh(t, "editor", r.first(g))
	key := "gatehouse:grant:" + g.ID
	genuine := r.raw(key)
	for what, forge := range map[string]func(){
		"empty":                     func() { r.setRaw(key, "") },
		"short":                     func() { r.setRaw(key, genuine[:15]) },
		"no more than an operation": func() { r.setRaw(key, genuine[:16]) },
		"a list":                    func() { r.redis.Del(key); _, _ = r.redis.Lpush(key, genuine) },
		"a hash":                    func() { r.redis.Del(key); r.redis.HSet(key, "state", "active") },
	} {
		forge()
		before := r.redis.Dump()
		status, members := server.post(t, "/introspect", url.Values{"token": {access}}, demoResource, testSecret)
		if status != http.StatusServiceUnavailable || members["error"] != "temporarily_unavailable" {
			t.Errorf("introspect a grant that is %s: %d %v", what, status, members)
		}
		for _, path := range []string{"/token", "/revoke"} {
			form := refreshForm("editor", refresh)
			form.Set("token", refresh)
			if path == "/revoke" {
				form = url.Values{"client_id": {"editor"}, "token": {refresh}}
			}
			if status, members := server.post(t, path, form); status != http.StatusServiceUnavailable {
				t.Errorf("%s with a grant that is %s: %d %v", path, what, status, members)
			}
		}
		if after := r.redis.Dump(); after != before {
			t.Errorf("%s: the store was changed", what)
		}
	}
	if status, text := server.probe(t); status != http.StatusServiceUnavailable || !strings.Contains(text, "forged") || !strings.Contains(server.stderr.String(), forgedLine) {
		t.Errorf("no alarm: %d %s", status, text)
	}
	r.setRaw(key, genuine)
	if !server.active(t, access) {
		t.Error("when it is gone, the token is not active")
	}
}

// older converts the store to one without seals, as an earlier release leaves it: the key set is
// not sealed.
func older(t *testing.T, keys ...string) *records {
	t.Helper()
	server := miniredis.RunT(t)
	if err := server.Set(signingKeys, plainHead+`{"keys":[]}`); err != nil {
		t.Fatal(err)
	}
	return openRecords(t, server, keys...)
}

// forms counts the records of each form in the store.
func (r *records) forms() (plain, sealed int) {
	for _, key := range r.redis.Keys() {
		value, err := r.redis.Get(key)
		switch {
		case err != nil: // a list
		case value[16] == 1:
			plain++
		case value[16] == 2:
			sealed++
		}
	}
	return plain, sealed
}

// switchTime is older than the time in which every server reads the switch.
const switchTime = 3 * time.Minute

// everyKind stores a record of each kind, of a person, without a seal. It returns a refresh token
// and a code.
func (r *records) everyKind(demo storage.User) (token string, code storage.Grant) {
	t := r.t
	t.Helper()
	r.client("editor", "Editor")
	r.client("removed", "Removed")
	if c, err := r.store.Client(t.Context(), "removed"); err != nil || r.store.RemoveClient(t.Context(), c, "test") != nil {
		t.Fatal(err)
	}
	token, code = r.first(r.active(demo, "editor", nil)), r.code(demo, "editor", nil)
	gone := r.active(demo, "editor", nil)
	later := time.Now().Add(time.Hour)
	for _, err := range []error{
		r.store.RevokeUser(t.Context(), "nobody", "test"), r.store.Revoke(t.Context(), gone.ID, "test"),
		r.store.CreateSession(t.Context(), "s", storage.Session{Subject: demo.Subject, Expires: later}),
		r.store.TakeAssertion(t.Context(), "editor", "jti", later),
		r.store.CreateInitialToken(t.Context(), storage.InitialToken{Token: storage.HashSecret("t"), Expires: later, Left: 1}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if plain, sealed := r.forms(); plain != 10 || sealed != 0 {
		t.Fatalf("%d records without a seal and %d with one; want 10, 0", plain, sealed)
	}
	return token, code
}

// demo returns the person that a server with --dev stores.
func (r *records) demo() storage.User {
	r.t.Helper()
	demo, err := r.store.User(r.t.Context(), demoPerson)
	if err != nil {
		r.t.Fatal(err)
	}
	return demo
}

// throwSwitch starts the switch, as of switchTime ago.
func (r *records) throwSwitch() storage.Switched {
	r.t.Helper()
	r.now = time.Now().Add(-switchTime)
	done, err := r.store.SealRecords(r.t.Context(), nil)
	r.now = time.Time{}
	if err != nil || done.Form != storage.FormSealing {
		r.t.Fatalf("the switch: %+v, %v", done, err)
	}
	if plain, sealed := r.forms(); plain != 0 || sealed != 10 {
		r.t.Errorf("after the switch %d records have no seal, and %d have one; want 0, 10", plain, sealed)
	}
	return done
}

// endSwitch moves the switch to its end with the verb.
func (r *records) endSwitch() {
	r.t.Helper()
	out, _ := r.verb(0, r.environ(), "key", "seal-records", "--json")
	var result switched
	if err := json.Unmarshal([]byte(out), &result); err != nil || result.Form != "sealed" || result.Unreadable != 0 || !result.Until.IsZero() {
		r.t.Errorf("%v %s", err, out)
	}
	if plain, _ := r.forms(); plain != 0 {
		r.t.Errorf("%d records have no seal at the end", plain)
	}
}

// A server that has not read the switch writes a record without a seal after the first pass. The
// last pass seals it. No server runs, because a running one takes part in the passes.
func TestSwitchFindsLateRecords(t *testing.T) {
	r := older(t, testKey(1))
	startWithAdmin(t, r.environ()).ended(t) // it makes the keys and the person
	r.everyKind(r.demo())
	if done := r.throwSwitch(); done.Sealed != 9 {
		t.Errorf("the switch sealed %+v; want all but the key set, which is sealed first", done)
	}
	r.setRaw("gatehouse:user:late", plainHead+`{"name":"late","sub":"late","password":"","created":"2026-01-02T03:04:05Z"}`)
	r.endSwitch()
	if r.raw("gatehouse:user:late")[16] != 2 {
		t.Error("the late record has no seal")
	}
}

// A store without seals works without them until an operator starts the switch. Then the existing
// records of every kind are sealed while servers run, records without a seal are refused, and the
// switch cannot be undone.
func TestSwitch(t *testing.T) {
	r := older(t, testKey(1))
	servers := []*running{startWithAdmin(t, r.environ()), startWithAdmin(t, r.environ())}
	if !strings.Contains(servers[0].stderr.String(), "run authz key seal-records") {
		t.Error("a server does not say what is to be done")
	}
	token, code := r.everyKind(r.demo())
	before := map[string]string{}
	for _, key := range r.redis.Keys() {
		if value, err := r.redis.Get(key); err == nil {
			before[key] = value
		}
	}
	r.throwSwitch()
	for key, value := range before {
		if key == signingKeys {
			continue
		}
		now := r.raw(key)
		if grant, is := strings.CutPrefix(key, "gatehouse:grant:"); is { // it has another body, of the same contents
			g, err := r.store.Grant(t.Context(), grant)
			body, wrong := json.Marshal(g)
			if err = errors.Join(err, wrong); err != nil || now[45] != 1 {
				t.Errorf("%s is %q, %v", key, now, err)
			}
			now = now[:45] + string(body)
		}
		if now[45:] != value[25:] || now[17:25] != value[17:25] {
			t.Errorf("sealing changed %s from %q to %q", key, value, now)
		}
	}
	r.endSwitch()
	for _, server := range servers { // they hear of it from what they read
		_, token = server.refresh(t, "editor", token)
	}
	if out, _ := r.verb(0, r.environ(), "key", "seal-records"); !strings.HasPrefix(out, "every record is sealed") {
		t.Errorf("a second time: %s", out)
	}

	for key, value := range before { // whatever was written before counts no more
		if key != signingKeys {
			r.setRaw(key, value)
		}
	}
	if said := r.refused(t); !strings.Contains(said, "gatehouse:user:demo") {
		t.Errorf("a server whose person demo has no seal says %s", said)
	}
	if _, err := openRecords(t, r.redis, testKey(1)).store.Grant(t.Context(), code.ID); err == nil {
		t.Error("a grant from before the switch is believed")
	}
}

// refused returns the error of a server that does not start on the store.
func (r *records) refused(t *testing.T, environ ...string) string {
	t.Helper()
	var out, complaints bytes.Buffer
	environ = append(append(r.environ(), "AUTHZ_DEV_PASSWORD=correct horse battery"), environ...)
	ctx, cancel := context.WithTimeout(t.Context(), deadline) // one that is not refused runs on
	defer cancel()
	if status := run(ctx, []string{"serve", "--dev", "--listen", "127.0.0.1:0"}, environ, nil, &out, &complaints); status != 1 {
		t.Errorf("exit status %d: %s", status, complaints.String())
	}
	return complaints.String()
}

// An attacker who can write to the store cannot undo the switch: a server refuses to start when
// the key set is missing or older than the switch and other records prove the switch. When all
// those records are replaced too, it refuses with records: sealed.
func TestSwitchIsWiped(t *testing.T) {
	const plainKeys, person = plainHead + `{"keys":[]}`, plainHead + `{"name":"amy","sub":"amy","password":"","created":"2026-01-02T03:04:05Z"}`
	for name, test := range map[string]struct {
		wipe    func(r *records)
		refused bool // without being told
	}{
		"the key set is gone": {func(r *records) { r.redis.Del(signingKeys) }, true},
		"the key set is old":  {func(r *records) { r.setRaw(signingKeys, plainKeys) }, true},
		"everything that tells it": {func(r *records) {
			r.redis.Del(signingKeys)
			r.setRaw("gatehouse:user:amy", person)
			r.setRaw("gatehouse:user:demo", person)
		}, false},
		"everything, and keys": {func(r *records) {
			r.redis.FlushAll()
			r.setRaw(signingKeys, plainKeys)
		}, false},
		"all but a list": {func(r *records) {
			r.redis.FlushAll()
			_, _ = r.redis.ZAdd("gatehouse:users:all", 0, "amy")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecords(t, testKey(1))
			start(t, r.environ(), "--dev", "--listen", "127.0.0.1:0").ended(t)
			r.person("amy")
			test.wipe(r)
			if said := r.refused(t, "AUTHZ_RECORDS=sealed"); !strings.Contains(said, "no process with these master keys") {
				t.Errorf("told that records are sealed, it says %s", said)
			}
			if test.refused {
				r.refused(t)
			} else {
				start(t, r.environ(), "--dev", "--listen", "127.0.0.1:0")
			}
		})
	}
	r := newRecords(t, testKey(1))
	start(t, append(r.environ(), "AUTHZ_RECORDS=sealed"), "--dev", "--listen", "127.0.0.1:0") // an empty store is a beginning
}
