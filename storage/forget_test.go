package storage_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestRememberedDecisions: a decision takes the place of what it contains and of what the client
// stated before, and what is refused is in none of them any more.
func TestRememberedDecisions(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	access := func(scopes ...string) storage.Access {
		return storage.Access{{Resource: "https://notes.example.com/mcp", Scopes: scopes}}
	}
	given := func(host, digest string, until time.Time, a storage.Access) storage.Remembered {
		return storage.Remembered{RedirectHost: host, ClientDigest: digest, Access: a, At: at, Until: until}
	}
	var c storage.Consent
	c = c.With(given("a.example", "1", time.Time{}, access("read")))
	c = c.With(given("b.example", "1", time.Time{}, access("read")))
	c = c.With(given("a.example", "1", at.Add(time.Hour), access("read", "write")))
	if len(c.Given) != 2 || c.Given[0].RedirectHost != "b.example" {
		t.Errorf("%+v", c.Given)
	}
	c = c.With(given("b.example", "2", time.Time{}, access("read")))
	if len(c.Given) != 2 || c.Given[1].ClientDigest != "2" {
		t.Errorf("what it stated before: %+v", c.Given)
	}
	less, changed := c.Without(access("write"))
	if !changed || len(less.Given) != 2 || !reflect.DeepEqual(less.Given[0].Access, access("read")) || len(c.Given[0].Access[0].Scopes) != 2 {
		t.Errorf("without write: %+v, from %+v", less.Given, c.Given)
	}
	if none, changed := c.Without(access("read", "write")); !changed || len(none.Given) != 0 {
		t.Errorf("without all: %+v", none.Given)
	}
	if _, changed := c.Without(access("other")); changed {
		t.Error("what was not given cannot be taken")
	}
	if _, changed := c.Without(storage.Access{{Resource: "https://notes.example.com/mcp"}}); !changed {
		t.Error("the resource as a whole")
	}
	for i := range 40 {
		c = c.With(given(string(rune('a'+i))+".example", "1", time.Time{}, access("read")))
	}
	if len(c.Given) != 16 {
		t.Errorf("%d decisions", len(c.Given))
	}
}

// TestShownWithoutChoice: a page that had nothing to choose counts for its destination and for what the
// client stated, beside decisions with access and not by them, until the person refuses something.
func TestShownWithoutChoice(t *testing.T) {
	read := storage.Access{{Resource: "https://notes.example.com/mcp", Scopes: []string{"read"}}}
	write := storage.Access{{Resource: "https://notes.example.com/mcp", Scopes: []string{"write"}}}
	c := storage.Consent{}.With(storage.Remembered{RedirectHost: "a.example", ClientDigest: "1", Access: read})
	if c.Shown("a.example", "1") {
		t.Error("a decision with access is not such a page")
	}
	c = c.With(storage.Remembered{RedirectHost: "b.example", ClientDigest: "1"})
	for range 2 {
		c = c.With(storage.Remembered{RedirectHost: "a.example", ClientDigest: "1"})
	}
	c = c.With(storage.Remembered{RedirectHost: "a.example", ClientDigest: "1", Access: read})
	if len(c.Given) != 3 || !c.Shown("a.example", "1") || !c.Shown("b.example", "1") || c.Shown("a.example", "2") || c.Shown("c.example", "1") {
		t.Errorf("shown at two places, with a decision at one: %+v", c.Given)
	}
	if same, changed := c.Without(nil); changed || len(same.Given) != 3 {
		t.Errorf("nothing was refused: %+v", same.Given)
	}
	less, changed := c.Without(write)
	if !changed || len(less.Given) != 1 || less.Shown("a.example", "1") || less.Shown("b.example", "1") {
		t.Errorf("something was refused: %+v", less.Given)
	}
}

// TestRevokingForgets: revoking all grants of a person, or of a client, forgets what was decided
// about it, and nothing else.
func TestRevokingForgets(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	put := func(subject, client string) {
		t.Helper()
		if err := s.PutConsent(ctx, storage.Consent{Subject: subject, ClientID: client, Given: []storage.Remembered{{At: time.Unix(0, 0)}}}); err != nil {
			t.Fatal(err)
		}
	}
	there := func(subject, client string) bool {
		t.Helper()
		_, err := s.Consent(ctx, subject, client)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	put("ada", "one")
	put("ada", "two")
	put("bob", "one")
	put("bob", "two")
	if err := s.RevokeUser(ctx, "ada", "test"); err != nil || there("ada", "one") || there("ada", "two") || !there("bob", "one") {
		t.Errorf("a person: %v", err)
	}
	if err := s.RevokeClient(ctx, "one", "test"); err != nil || there("bob", "one") || !there("bob", "two") {
		t.Errorf("a client: %v", err)
	}
	if err := s.ForgetClient(ctx, "two"); err != nil || there("bob", "two") {
		t.Errorf("forgetting a client: %v", err)
	}
}

// amid is a store in which something else happens just before grants are listed.
type amid struct {
	storage.Backend
	grants func()
}

func (a amid) IndexPage(ctx context.Context, index, after string, limit int) ([]string, error) {
	if strings.Contains(index, "-grants:") {
		a.grants()
	}
	return a.Backend.IndexPage(ctx, index, after, limit)
}

// TestForgottenBeforeAndAfter: what a person decided is forgotten before grants are revoked, and what is
// remembered meanwhile is forgotten after it.
func TestForgottenBeforeAndAfter(t *testing.T) {
	s, backend := newStore(t)
	put := func() {
		if err := s.PutConsent(t.Context(), storage.Consent{Subject: "ada", ClientID: "one", Given: []storage.Remembered{{At: time.Unix(0, 0)}}}); err != nil {
			t.Error(err)
		}
	}
	wantForgotten := func(when string) {
		t.Helper()
		if _, err := s.Consent(t.Context(), "ada", "one"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s the decision is there: %v", when, err)
		}
	}
	listed := 0
	between, err := storage.New(amid{Backend: backend, grants: func() {
		listed++
		wantForgotten("while grants are revoked")
		put()
	}}, storage.Options{Issuer: issuer, MasterKeys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	for n, revoke := range []func() error{
		func() error { return between.RevokeUser(t.Context(), "ada", "test") },
		func() error { return between.RevokeClient(t.Context(), "one", "test") },
	} {
		put()
		if err := revoke(); err != nil || listed != n+1 {
			t.Errorf("%v, grants were listed %d times", err, listed)
		}
		wantForgotten("afterwards")
	}
}

// TestConsentEndsWithItsLast: a record of decisions that end is there until the last of them has ended,
// whatever their order.
func TestConsentEndsWithItsLast(t *testing.T) {
	_, backend := newStore(t)
	at := now()
	s, err := storage.New(backend, storage.Options{Issuer: issuer, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	short, long := storage.Remembered{Until: at.Add(time.Hour)}, storage.Remembered{Until: at.Add(2 * time.Hour)}
	for client, given := range map[string][]storage.Remembered{"a": {short, long}, "b": {long, short}} {
		at = now()
		if err := s.PutConsent(t.Context(), storage.Consent{Subject: "ada", ClientID: client, Given: given}); err != nil {
			t.Fatal(err)
		}
		at = long.Until.Add(-time.Millisecond)
		if _, err := s.Consent(t.Context(), "ada", client); err != nil {
			t.Errorf("%s: before the last end: %v", client, err)
		}
		at = long.Until
		if _, err := s.Consent(t.Context(), "ada", client); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: at the last end: %v", client, err)
		}
	}
}
