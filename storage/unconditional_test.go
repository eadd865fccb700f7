package storage_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// TestAskedWhileOthersWrite: the note that a client sent a person does not bring back a client that was
// removed meanwhile, and does not undo its use or a change of it.
func TestAskedWhileOthersWrite(t *testing.T) {
	for name, test := range map[string]struct {
		others func(s removing, c storage.Client) error
		judge  func(c storage.Client, err error) bool
	}{
		"removed": {
			func(s removing, c storage.Client) error { return s.others.RemoveClient(t.Context(), c, "test") },
			func(_ storage.Client, err error) bool { return errors.Is(err, storage.ErrNotFound) },
		},
		"used": {
			func(s removing, c storage.Client) error { return s.others.UseClient(t.Context(), c.ID, now()) },
			func(c storage.Client, err error) bool {
				return err == nil && c.Expires.IsZero() && c.LastUsed.Equal(now()) && c.Asked.IsZero()
			},
		},
		"disabled": {
			func(s removing, c storage.Client) error {
				c.Disabled = true
				return s.others.UpdateClient(t.Context(), c)
			},
			func(c storage.Client, err error) bool { return err == nil && c.Disabled && c.Asked.Equal(now()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRemoving(t, "put", "client:client")
			ctx := t.Context()
			mustDo(t, s.others.CreateClient(ctx, storage.Client{ID: "client", Software: "software", Created: now(), Expires: now().Add(time.Hour)}))
			c, err := s.others.Client(ctx, "client")
			mustDo(t, err)
			s.at.run = func() { mustDo(t, test.others(s, c)) }
			mustDo(t, s.AskForClient(ctx, "client", now()))
			if c, err := s.others.Client(ctx, "client"); !test.judge(c, err) {
				t.Errorf("the client is %+v, %v", c, err)
			}
			unused, err := s.others.Unused(ctx, storage.Bound{})
			if want := map[bool]int{true: 1}[name == "disabled"]; err != nil || unused != want {
				t.Errorf("%d unused clients are listed, %v; want %d", unused, err, want)
			}
		})
	}
}

// TestAskingForAUsedClientWritesNothing: the note is for clients that end unless they are used. Each visit to
// another one would be a write.
func TestAskingForAUsedClientWritesNothing(t *testing.T) {
	s := newRemoving(t, "put", "client:client")
	ctx := t.Context()
	mustDo(t, s.others.CreateClient(ctx, storage.Client{ID: "client", Created: now()}))
	s.at.run = func() { t.Error("a client without an end is written") }
	mustDo(t, s.AskForClient(ctx, "client", now()), s.AskForClient(ctx, "nobody", now()))
}

// TestUsedClientKeepsNoTrace: the first use removes from a client what is only for unused ones: its end, the
// network that registered it, and when it sent a person.
func TestUsedClientKeepsNoTrace(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	mustDo(t, s.CreateClient(ctx, storage.Client{ID: "client", Network: "network", Created: now(), Expires: now().Add(time.Hour)}))
	mustDo(t, s.AskForClient(ctx, "client", now()))
	asked, err := s.Client(ctx, "client")
	mustDo(t, err, s.UseClient(ctx, "client", now()))
	used, err := s.Client(ctx, "client")
	mustDo(t, err)
	if asked.Asked.IsZero() || asked.Network == "" || !used.Asked.IsZero() || used.Network != "" || !used.Expires.IsZero() {
		t.Errorf("%+v, and when it was used %+v", asked, used)
	}
}

// TestNetworkNames: a network has one name, however often and after whichever others it is asked for.
func TestNetworkNames(t *testing.T) {
	s, _ := newStore(t)
	names := map[string]string{}
	for range 3 {
		for _, network := range []string{"192.0.2.0/24", "", "198.51.100.0/24", "2001:db8::/48"} {
			name, err := s.NetworkName(network)
			mustDo(t, err)
			if first := names[network]; first != "" && first != name {
				t.Errorf("%q is %s, and %s before", network, name, first)
			}
			names[network] = name
		}
	}
	seen := map[string]bool{}
	for network, name := range names {
		if seen[name] || len(name) != 16 {
			t.Errorf("%q is %s", network, name)
		}
		seen[name] = true
	}
}

// TestEndedProviderTokenIsGone: the record that is left for a minute of a token of a provider has no token.
func TestEndedProviderTokenIsGone(t *testing.T) {
	s, backend := newStore(t)
	ctx := t.Context()
	token := storage.ProviderToken{Provider: "company", Issuer: "https://login.example.com", ProviderSubject: "1", Due: now()}
	var err error
	token.Token, err = s.SealProviderToken(token.ID(), "refresh token")
	mustDo(t, err)
	text, err := json.Marshal(token.Token)
	mustDo(t, err)
	token, err = s.PutProviderToken(ctx, token)
	mustDo(t, err)
	left := func() bool {
		item, err := backend.Get(ctx, storage.KeyPrefix+"provider-token:"+string(token.ID()))
		mustDo(t, err)
		return bytes.Contains(item.Data, text)
	}
	if !left() {
		t.Fatalf("%s is not found in the record: this is no test", text)
	}
	mustDo(t, s.EndProviderToken(ctx, token))
	if left() {
		t.Error("the token is left in the record")
	}
}

// TestEntryBeforeItsToken: an entry of a token of a provider whose record is about to be written stays when
// somebody reads the list meanwhile. One that is left over is removed after a minute.
func TestEntryBeforeItsToken(t *testing.T) {
	s := newTimed(t)
	ctx := t.Context()
	token := storage.ProviderToken{Provider: "company", Issuer: "https://login.example.com", ProviderSubject: "1", Due: s.now}
	early, err := s.PutProviderToken(ctx, token) // for the text of its entry
	mustDo(t, err)
	const index = storage.KeyPrefix + "provider-tokens:due"
	entries, err := s.backend.IndexPage(ctx, index, "", 10)
	mustDo(t, err)
	early.Due = s.now.Add(time.Hour)
	_, err = s.PutProviderToken(ctx, early)
	mustDo(t, err, s.backend.IndexAdd(ctx, index, entries[0]))
	for _, test := range []struct {
		after time.Duration
		want  int
	}{{0, 2}, {time.Minute, 2}, {time.Second, 1}} {
		s.now = s.now.Add(test.after)
		for due, err := range s.DueProviderTokens(ctx) {
			t.Errorf("due is %+v, %v", due, err)
		}
		if n, err := s.backend.IndexLen(ctx, index); n != test.want || err != nil {
			t.Errorf("after %s more there are %d entries, %v; want %d", test.after, n, err, test.want)
		}
	}
}
