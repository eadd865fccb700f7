package storage_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// staying are the kinds of records that have no end, each with what bounds them. All others end by
// themselves or with what they belong to.
var staying = map[string]string{
	"keyset":         "one",
	"resource-state": "one",
	"pin":            "one for each entry of the configuration and issuer",
}

// writing is a store that notes the kinds of what is written.
type writing struct {
	storage.Backend
	kinds map[string]bool
}

func (w *writing) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	kind, _, _ := strings.Cut(strings.TrimPrefix(put.Key, storage.KeyPrefix), ":")
	w.kinds[kind] = true
	return w.Backend.Put(ctx, put)
}

// TestEverythingEnds: when people, clients, groups and resources are removed and time has passed, nothing is
// left of all that there was, neither a record nor an entry of a list, except what is bounded. A new kind of
// record has to be written here.
func TestEverythingEnds(t *testing.T) {
	under := newTimed(t)
	w := &writing{Backend: under.backend, kinds: map[string]bool{}}
	var err error
	under.Store, err = storage.New(w, storage.Options{Issuer: issuer, MasterKeys: [][]byte{make([]byte, 32)}, Now: func() time.Time { return under.now }})
	mustDo(t, err)
	s := under
	for _, subject := range []string{"subject", "other"} {
		s.live(t, subject)
	}
	s.servesAll(t)
	for kind := range maps.Values(kinds(t)) {
		if !w.kinds[kind] && !strings.HasPrefix(kind, "catalogue") { // its rows end with the catalogue
			t.Errorf("no record of kind %s was written: write one here", kind)
		}
	}
	mustDo(t, s.RevokeUser(t.Context(), "subject", "removed"), s.DeleteUser(t.Context(), "person-subject", "subject")) // with young entries
	s.now = s.now.Add(2 * time.Hour)
	s.removeAll(t)
	s.now = s.now.Add(401 * 24 * time.Hour)
	s.readLists(t)

	records, _, err := s.backend.Scan(t.Context(), storage.KeyPrefix, "", 1000)
	mustDo(t, err)
	for _, key := range records {
		kind, _, _ := strings.Cut(strings.TrimPrefix(key, storage.KeyPrefix), ":")
		if staying[kind] == "" {
			t.Errorf("a record is left: %s", key)
		}
	}
	lists, _, err := s.backend.(storage.IndexLister).Indexes(t.Context(), storage.KeyPrefix, "", 1000)
	mustDo(t, err)
	for _, name := range lists {
		entries, _ := s.backend.IndexPage(t.Context(), name, "", 10)
		t.Errorf("a list is left: %s with %q", name, entries)
	}
}

// live does what a person does: they arrive, sign in, allow clients, and look at what happened.
func (s *timed) live(t *testing.T, subject string) {
	t.Helper()
	ctx, name := t.Context(), "person-"+subject
	account := storage.Identity{Provider: "company", Issuer: "https://login.example.com", Subject: "at-provider-" + subject}
	alias, passkey := storage.IdentityAlias(account.Provider, account.Issuer, account.Subject), storage.PasskeyAlias([]byte(subject))
	mustDo(t, s.CreateUser(ctx, storage.User{Name: name, Subject: subject, Identities: []storage.Identity{account}, Passkeys: []storage.Passkey{{ID: []byte(subject)}}}))
	mustDo(t, s.PutAlias(ctx, alias, storage.Alias{}.Leading(name, subject)), s.PutAlias(ctx, passkey, storage.Alias{}.Leading(name, subject)))
	mustDo(t, s.TakePin(ctx, account.Provider, account.Issuer, storage.Pin{Entry: name, Subject: account.Subject}))
	sealed, err := s.SealProviderToken(alias, "token")
	mustDo(t, err, s.ReplaceProviderToken(ctx, storage.ProviderToken{
		Provider: account.Provider, Issuer: account.Issuer, ProviderSubject: account.Subject, UserName: name, Subject: subject,
		Token: sealed, Confirmed: s.now, Due: s.now.Add(time.Hour),
	}))
	for _, cookie := range []string{"one ", "two "} {
		s.now = s.now.Add(time.Second)
		end := s.now.Add(30 * 24 * time.Hour)
		mustDo(t, s.CreateSession(ctx, cookie+subject, storage.Session{UserName: name, Subject: subject, AuthTime: s.now, Expires: end}))
		mustDo(t, s.JoinProviderSession(ctx, "company", "sid "+subject, storage.SessionID(cookie+subject), end))
	}
	stored := storage.Transaction{ID: "stored " + subject, ClientID: "client", Expires: s.now.Add(10 * time.Minute)}
	mustDo(t, s.CreateTransaction(ctx, stored))
	stored, err = s.Transaction(ctx, stored.ID)
	mustDo(t, err, s.TakeTransaction(ctx, stored))
	mustDo(t, s.TakeOnce(ctx, "code", subject, s.now.Add(time.Minute)))
	mustDo(t, s.AddActivity(ctx, subject, func(a *storage.Activity) { a.Add(storage.Event{What: storage.EventSignedIn, At: s.now}) }))
	for _, until := range []time.Time{{}, s.now.Add(24 * time.Hour)} {
		given := storage.Remembered{Access: storage.Access{{Resource: "https://notes.example.com/mcp"}}, At: s.now, Until: until}
		client := map[bool]string{true: "client", false: "used"}[until.IsZero()]
		mustDo(t, s.PutConsent(ctx, storage.Consent{Subject: subject, ClientID: client, Given: []storage.Remembered{given}}))
	}
	for range 3 {
		s.now = s.now.Add(time.Second)
		g, _, err := s.PrepareGrant(storage.NewGrant{ClientID: "client", Subject: subject, UserName: name, Refreshable: true, CodeTTL: time.Minute})
		mustDo(t, err, s.CreateGrant(ctx, g))
		g, err = s.Grant(ctx, g.ID)
		mustDo(t, err)
		_, err = s.Redeem(ctx, g, storage.Lifetime{Expires: s.now.Add(90 * 24 * time.Hour), IdleExpires: s.now.Add(30 * 24 * time.Hour)})
		mustDo(t, err)
	}
}

// servesAll writes what does not belong to a person.
func (s *timed) servesAll(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	mustDo(t, s.SwapKeySet(ctx, storage.KeySet{Keys: []storage.SigningKey{{ID: "kid", State: storage.KeyActive, Public: []byte("{}")}}}))
	for _, c := range []storage.Client{
		{ID: "client", Created: s.now},
		{ID: "used", Created: s.now, Software: "software", Network: "network", Expires: s.now.Add(time.Hour)},
		{ID: "unused", Created: s.now, Software: "software", Network: "network", Expires: s.now.Add(time.Hour)},
	} {
		mustDo(t, s.CreateClient(ctx, c))
	}
	mustDo(t, s.AskForClient(ctx, "unused", s.now), s.AskForClient(ctx, "used", s.now), s.UseClient(ctx, "used", s.now))
	mustDo(t, s.CreateGroup(ctx, storage.Group{Name: "readers", ID: "1", Created: s.now}))
	mustDo(t, s.PutResource(ctx, storage.Resource{ID: "https://notes.example.com/mcp"}))
	mustDo(t, s.TakeAssertion(ctx, "client", "jti", s.now.Add(time.Minute)))
	mustDo(t, s.CreateInitialToken(ctx, storage.InitialToken{Token: storage.HashSecret("initial"), Created: s.now, Expires: s.now.Add(time.Hour), Left: 2}))
	initial, err := s.InitialToken(ctx, "initial")
	mustDo(t, err, s.UseInitialToken(ctx, initial))
	mustDo(t, s.KeepAuditHead(ctx, "host", "/var/audit.jsonl", storage.AuditHead{Chain: "c", Seq: 1, At: s.now}))
	_, err = s.SwapACMERecord(ctx, "lock", storage.ACMERecord{Content: []byte("lock"), Expires: s.now.Add(time.Hour)})
	mustDo(t, err)
	_, err = s.EndProviderSession(ctx, "company", "sid other")
	mustDo(t, err)
}

// removeAll removes people, clients, groups and resources, as operators and servers do.
func (s *timed) removeAll(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	mustDo(t, s.RevokeUser(ctx, "other", "removed"), s.DeleteUser(ctx, "person-other", "other"))
	clients := 0
	for c, err := range s.Clients(ctx) {
		mustDo(t, err, s.RemoveClient(ctx, c, "removed"), s.RevokeClient(ctx, c.ID, "removed"))
		clients++
	}
	if clients != 2 { // the unused one has ended
		t.Errorf("%d clients were removed", clients)
	}
	mustDo(t, s.DeleteGroup(ctx, "readers"))
	for r, err := range s.Resources(ctx) {
		mustDo(t, err, s.RemoveResource(ctx, r))
	}
}

// readLists reads what servers read from time to time.
func (s *timed) readLists(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	read := func(err error) { mustDo(t, err) }
	for _, err := range s.Clients(ctx) {
		read(err)
	}
	for _, err := range s.AuditHeads(ctx) {
		read(err)
	}
	for _, err := range s.Resources(ctx) {
		read(err)
	}
	for _, err := range s.DueProviderTokens(ctx) {
		read(err)
	}
	_, _, err := s.BoundUnused(ctx, storage.Bound{Most: 10})
	mustDo(t, err)
}
