package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

const (
	testIssuer = "http://127.0.0.1:8080"
	testSecret = "staple-staple-staple"
)

// records is a store with people, clients and grants, for tests of verbs and servers.
type records struct {
	t      *testing.T
	redis  *miniredis.Miniredis
	store  *storage.Store
	issuer string
	keys   []string
	now    time.Time // zero for the time it is
}

func newRecords(t *testing.T, keys ...string) *records {
	t.Helper()
	return openRecords(t, miniredis.RunT(t), keys...)
}

// openRecords opens a store with these master keys.
func openRecords(t *testing.T, server *miniredis.Miniredis, keys ...string) *records {
	t.Helper()
	return openRecordsOf(t, testIssuer, server, keys...)
}

// openRecordsOf is openRecords for another issuer.
func openRecordsOf(t *testing.T, issuer string, server *miniredis.Miniredis, keys ...string) *records {
	t.Helper()
	r := &records{t: t, redis: server, issuer: issuer, keys: keys}
	backend, err := redis.Open(t.Context(), redis.Options{URL: "redis://" + r.redis.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	options := storage.Options{Issuer: issuer, Now: func() time.Time {
		if r.now.IsZero() {
			return time.Now()
		}
		return r.now
	}}
	for _, key := range keys {
		raw, err := base64.StdEncoding.DecodeString(key)
		if err != nil {
			t.Fatal(err)
		}
		options.MasterKeys = append(options.MasterKeys, raw)
	}
	if r.store, err = storage.New(backend, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.store.Close() })
	return r
}

// environ returns the environment of a process that works on the store, with other keys if there
// are any.
func (r *records) environ(keys ...string) []string {
	if len(keys) == 0 {
		keys = r.keys
	}
	return []string{
		"AUTHZ_STORE=redis://" + r.redis.Addr(), "AUTHZ_ISSUER=" + r.issuer, "AUTHZ_MASTER_KEYS=" + strings.Join(keys, ","),
		"AUTHZ_DEV_INTROSPECTION_SECRET=" + testSecret,
	}
}

// verb runs a verb, expects an exit status, and returns its standard output and standard error.
func (r *records) verb(want int, environ []string, args ...string) (string, string) {
	r.t.Helper()
	var out, complaints bytes.Buffer
	if status := run(r.t.Context(), args, environ, strings.NewReader(""), &out, &complaints); status != want {
		r.t.Fatalf("%v: exit status %d, want %d: %s%s", args, status, want, out.String(), complaints.String())
	}
	return out.String(), complaints.String()
}

func (r *records) person(name string) storage.User {
	r.t.Helper()
	user := storage.User{Name: name, Subject: "subject-of-" + name, Created: time.Now()}
	if err := r.store.CreateUser(r.t.Context(), user); err != nil {
		r.t.Fatal(err)
	}
	return user
}

func (r *records) client(id, name string) {
	r.t.Helper()
	m := metadata.Client{ClientName: name, TokenEndpointAuthMethod: metadata.AuthMethodNone,
		GrantTypes: []string{metadata.GrantAuthorizationCode, metadata.GrantRefreshToken}, RedirectURIs: []string{"http://127.0.0.1/callback"}}
	if err := r.store.CreateClient(r.t.Context(), storage.Client{ID: id, Source: storage.ClientRegistered, Metadata: m, Created: time.Now()}); err != nil {
		r.t.Fatal(err)
	}
}

// code stores a grant whose code is not redeemed.
func (r *records) code(user storage.User, client string, change func(*storage.NewGrant)) storage.Grant {
	r.t.Helper()
	n := storage.NewGrant{ClientID: client, Subject: user.Subject, UserName: user.Name, Resources: []string{demoResource},
		Scopes: []string{"notes:read"}, Refreshable: true, CodeTTL: 24 * time.Hour}
	if change != nil {
		change(&n)
	}
	g, _, err := r.store.PrepareGrant(n)
	if err == nil {
		err = r.store.CreateGrant(r.t.Context(), g)
	}
	if err == nil {
		g, err = r.store.Grant(r.t.Context(), g.ID)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

// active stores a grant whose code is redeemed.
func (r *records) active(user storage.User, client string, change func(*storage.NewGrant)) storage.Grant {
	r.t.Helper()
	g := r.code(user, client, change)
	now := g.Created
	g, err := r.store.Redeem(r.t.Context(), g, storage.Lifetime{Expires: now.Add(90 * settings.Day), IdleExpires: now.Add(30 * settings.Day), AccessUntil: now.Add(48 * time.Hour)})
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

func (r *records) listed(args ...string) []admin.Grant {
	r.t.Helper()
	out, _ := r.verb(0, r.environ(), append([]string{"grant"}, append(args, "--json")...)...)
	var records []admin.Grant
	if err := json.Unmarshal([]byte(out), &records); err != nil {
		r.t.Fatal(err)
	}
	return records
}

func idsOf(records []admin.Grant) (ids []string) {
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}
