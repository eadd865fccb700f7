package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/authz/admin"
)

// TestKeyVerbs: the effect of the verbs on the keys of a server, and on the keys that it publishes
// after its next reading.
func TestKeyVerbs(t *testing.T) {
	redis := miniredis.RunT(t)
	environ := []string{"AUTHZ_STORE=redis://" + redis.Addr(), "AUTHZ_ISSUER=http://127.0.0.1:8080", "AUTHZ_MASTER_KEYS=" + testKey(1)}
	verb := func(want int, args ...string) string {
		t.Helper()
		var out, complaints bytes.Buffer
		if status := run(t.Context(), append([]string{"key"}, args...), environ, strings.NewReader(""), &out, &complaints); status != want {
			t.Fatalf("key %v: exit status %d: %s", args, status, complaints.String())
		}
		return out.String() + complaints.String()
	}
	list := func(want ...string) []admin.Key {
		t.Helper()
		var records []admin.Key
		if err := json.Unmarshal([]byte(verb(0, "ls", "--json")), &records); err != nil {
			t.Fatal(err)
		}
		var states []string
		for _, r := range records {
			states = append(states, r.State)
		}
		if !slices.Equal(states, want) {
			t.Errorf("the states are %v, want %v", states, want)
		}
		return records
	}
	serve := func() (kids []string) {
		t.Helper()
		server := start(t, environ, "--dev", "--listen", "127.0.0.1:0")
		_, body := get(t, http.DefaultClient, "http://"+server.shown("listening on")+"/jwks.json")
		var set struct {
			Keys []struct {
				KID string `json:"kid"`
			} `json:"keys"`
		}
		if err := json.Unmarshal([]byte(body), &set); err != nil {
			t.Fatal(err)
		}
		for _, k := range set.Keys {
			kids = append(kids, k.KID)
		}
		if status := server.ended(t); status != 0 {
			t.Fatalf("exit status %d: %s", status, server.stderr.String())
		}
		return kids
	}
	kidsOf := func(records []admin.Key) (kids []string) {
		for _, r := range records {
			kids = append(kids, r.ID)
		}
		return kids
	}

	first := serve()
	if records := list("active"); !slices.Equal(kidsOf(records), first) || records[0].Algorithm != "ES256" || records[0].Activated.IsZero() {
		t.Errorf("%v, the server publishes %v", records, first)
	}
	if said := verb(0, "rotate"); !strings.Contains(said, "is pending since") {
		t.Errorf("rotate: %s", said)
	}
	records := list("active", "pending")
	if said := verb(0, "rotate", "--json"); !strings.Contains(said, records[1].ID) || strings.Contains(said, "private") || strings.Contains(said, `"retired"`) {
		t.Errorf("rotate again: %s", said)
	}
	if kids := serve(); !slices.Equal(kids, kidsOf(records)) {
		t.Errorf("the server publishes %v, want %v", kids, records)
	}
	if said := verb(0, "rotate", "--now"); said != records[1].ID+" signs now\n" {
		t.Errorf("rotate --now: %s", said)
	}
	list("active", "retired")
	if said := verb(0, "revoke", first[0]); said != "revoked "+first[0]+"; "+records[1].ID+" signs now\n" {
		t.Errorf("revoke: %s", said)
	}
	if said := verb(1, "revoke", first[0]); !strings.Contains(said, "there is no signing key with the id") {
		t.Errorf("revoke again: %s", said)
	}
	verb(0, "revoke", records[1].ID, "--signing-algorithm", "EdDSA")
	last := list("active")
	if last[0].ID == records[1].ID || last[0].Algorithm != "EdDSA" {
		t.Errorf("after the active key was revoked: %v", last)
	}
	if kids := serve(); !slices.Equal(kids, kidsOf(last)) {
		t.Errorf("the server publishes %v, want %v", kids, last)
	}
	if table := verb(0, "ls"); !strings.Contains(table, last[0].ID+"  active  EdDSA      20") || !strings.HasSuffix(table, "  -\n") {
		t.Errorf("ls: %s", table)
	}
	if said := verb(1, "rotate", "--master-keys", testKey(2)); !strings.Contains(said, "master key") {
		t.Errorf("another master key: %s", said)
	}
	if said := verb(1, "rotate", "--signing-algorithm", "HS256"); !strings.Contains(said, "HS256") {
		t.Errorf("another algorithm: %s", said)
	}
	if after := list("active"); !slices.Equal(kidsOf(after), kidsOf(last)) {
		t.Errorf("a refused verb changed the keys: %v", after)
	}
}

// Zero means never on the command line, not the default.
func TestKeyRotationZeroIsNever(t *testing.T) {
	s := serveSettings{}
	config, err := s.server()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.KeyRotation; got != -1 {
		t.Errorf("0 becomes %s", got)
	}
}
