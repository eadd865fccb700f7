package storagetest

import (
	"slices"
	"testing"
	"time"

	"gatehouse.example/storage"
)

// newerPeople stores the records of people that are not the people themselves.
func (f *fixture) newerPeople(t *testing.T) map[string]newerRecord {
	t.Helper()
	ctx := t.Context()
	records := map[string]newerRecord{}

	id := storage.IdentityAlias("company", "https://login.example.com", "1")
	key := f.last(t, f.PutAlias(ctx, id, storage.Alias{}.Leading("ann", "subject")))
	alias, err := f.Alias(ctx, id)
	wantError(t, "Alias", err, nil)
	records["alias"] = newerRecord{key, map[string]func() error{
		"Alias":  func() error { _, err := f.Alias(ctx, id); return err },
		"UserOf": func() error { _, err := f.UserOf(ctx, id); return err },
	}, map[string]func() error{
		"PutAlias":            func() error { return f.PutAlias(ctx, id, alias.Leading("bob", "other")) },
		"PutAlias of another": func() error { return f.PutAlias(ctx, id, storage.Alias{}) },
	}}

	group := storage.Group{Name: "admins", ID: "g", Created: f.clock.Now()}
	records["group"] = newerRecord{f.last(t, f.CreateGroup(ctx, group)), map[string]func() error{
		"Group":  func() error { _, err := f.Group(ctx, "admins"); return err },
		"Holder": func() error { _, err := f.Holder(ctx, "", []string{"admins"}); return err },
	}, map[string]func() error{"CreateGroup": func() error { return f.CreateGroup(ctx, group) }}}

	key = f.last(t, f.PutConsent(ctx, f.consent(time.Hour)))
	consent, err := f.Consent(ctx, "subject", "client")
	wantError(t, "Consent", err, nil)
	records["consent"] = newerRecord{key, map[string]func() error{
		"Consent": func() error { _, err := f.Consent(ctx, "subject", "client"); return err },
	}, map[string]func() error{
		"PutConsent":            func() error { return f.PutConsent(ctx, consent) },
		"PutConsent of another": func() error { return f.PutConsent(ctx, f.consent(time.Minute)) },
	}}

	happens := func() error {
		return f.AddActivity(ctx, "subject", func(a *storage.Activity) { a.Add(storage.Event{What: "test", At: f.clock.Now()}) })
	}
	records["activity"] = newerRecord{f.last(t, happens()), map[string]func() error{
		"Activity": func() error { _, err := f.Activity(ctx, "subject"); return err },
	}, map[string]func() error{"AddActivity": happens}}

	audit := func() error {
		return f.KeepAuditHead(ctx, "host", "/audit.jsonl", storage.AuditHead{Chain: "c", Seq: 1})
	}
	records["audit head"] = newerRecord{f.last(t, audit()), map[string]func() error{
		"AuditHead":  func() error { _, err := f.AuditHead(ctx, "host", "/audit.jsonl"); return err },
		"AuditHeads": func() error { _, err := auditPlaces(f.AuditHeads(ctx)); return err },
	}, nil}
	pin := func() error { return f.TakePin(ctx, "company", loginIssuer, storage.Pin{Entry: "ann", Subject: "1"}) }
	records["pin"] = newerRecord{f.last(t, pin()), map[string]func() error{
		"Pins": func() error { _, err := f.Pins(ctx, "company", loginIssuer, []string{"ann"}); return err },
	}, map[string]func() error{"TakePin": pin}}

	join := func() error { return f.JoinProviderSession(ctx, "company", "sid", "session", f.clock.later()) }
	records["provider session"] = newerRecord{f.last(t, join()), nil, map[string]func() error{
		"JoinProviderSession": join,
		"EndProviderSession":  func() error { _, err := f.EndProviderSession(ctx, "company", "sid"); return err },
	}}
	out := func() error { return f.EndProviderAccount(ctx, "company", "1") }
	records["provider account"] = newerRecord{f.last(t, out()), map[string]func() error{
		"CheckProviderAccount": func() error { return f.CheckProviderAccount(ctx, "company", "1", f.clock.Now()) },
	}, map[string]func() error{"EndProviderAccount": out}}

	token := f.providerToken(t, "1", time.Hour)
	key = f.last(t, f.ReplaceProviderToken(ctx, token))
	records["provider token"] = newerRecord{key, map[string]func() error{
		"ProviderToken": func() error { _, err := f.ProviderToken(ctx, token.ID()); return err },
	}, map[string]func() error{
		"ReplaceProviderToken": func() error { return f.ReplaceProviderToken(ctx, token) },
		"PutProviderToken":     func() error { _, err := f.PutProviderToken(ctx, token); return err },
	}}

	certificate := storage.ACMERecord{Content: []byte("key")}
	_, err = f.SwapACMERecord(ctx, "certificates/ca/auth.example.com", certificate)
	records["acme"] = newerRecord{f.last(t, err), map[string]func() error{
		"ACMERecord": func() error { _, err := f.ACMERecord(ctx, "certificates/ca/auth.example.com"); return err },
	}, map[string]func() error{
		"SwapACMERecord": func() error {
			_, err = f.SwapACMERecord(ctx, "certificates/ca/auth.example.com", certificate)
			return err
		},
	}}

	once := func() error { return f.TakeOnce(ctx, "test", "value", f.clock.later()) }
	records["once"] = newerRecord{f.last(t, once()), nil, map[string]func() error{"TakeOnce": once}}
	return records
}

// consent returns a consent with one decision that lasts for a time; zero is without an end.
func (f *fixture) consent(lasts time.Duration) storage.Consent {
	given := storage.Remembered{
		RedirectHost: "app.example.com", ClientDigest: "digest", At: f.clock.Now(),
		Access: storage.Access{{Resource: "https://notes.example.com/mcp", Scopes: []string{"notes:read"}}},
	}
	if lasts > 0 {
		given.Until = f.clock.Now().Add(lasts)
	}
	return storage.Consent{Subject: "subject", ClientID: "client", Given: []storage.Remembered{given}}
}

// testAliases: an alias counts only for the very person whose record lists it, and ends with the
// person.
func testAliases(t *testing.T, f *fixture) {
	ctx := t.Context()
	identity := storage.Identity{Provider: "company", Issuer: "https://login.example.com", Subject: "1"}
	id := storage.IdentityAlias(identity.Provider, identity.Issuer, identity.Subject)
	wantError(t, "PutAlias", f.PutAlias(ctx, id, storage.Alias{}.Leading("ann", "first")), nil)
	wantError(t, "PutAlias again", f.PutAlias(ctx, id, storage.Alias{}.Leading("bob", "second")), storage.ErrConflict)
	lead := func(what string, want error) {
		t.Helper()
		_, err := f.UserOf(ctx, id)
		wantError(t, what, err, want)
	}
	lead("an alias to nobody", storage.ErrNotFound)
	wantError(t, "CreateUser", f.CreateUser(ctx, storage.User{Name: "ann", Subject: "first"}), nil)
	lead("an alias that the person does not list", storage.ErrNotFound)
	ann, err := f.User(ctx, "ann")
	wantError(t, "User", err, nil)
	lost := storage.Identity{Provider: "company", Issuer: identity.Issuer, Subject: "2"}
	missing := storage.Identity{Provider: "company", Issuer: identity.Issuer, Subject: "3"}
	ann.Identities, ann.Passkeys = []storage.Identity{missing, lost, identity}, []storage.Passkey{{ID: []byte("key")}}
	wantError(t, "UpdateUser", f.UpdateUser(ctx, ann), nil)
	lead("an alias that the person lists", nil)
	key, elsewhere := storage.PasskeyAlias([]byte("key")), storage.IdentityAlias(lost.Provider, lost.Issuer, lost.Subject)
	wantError(t, "PutAlias of a passkey", f.PutAlias(ctx, key, storage.Alias{}.Leading("ann", "first")), nil)
	wantError(t, "PutAlias of somebody else", f.PutAlias(ctx, elsewhere, storage.Alias{}.Leading("bob", "second")), nil)
	for _, subject := range []string{"1", "3"} {
		token := f.providerToken(t, subject, time.Hour)
		token.Subject = "first"
		wantError(t, "ReplaceProviderToken", f.ReplaceProviderToken(ctx, token), nil)
	}
	if _, err := f.UserOf(ctx, key); err != nil {
		t.Errorf("a passkey that the person lists: %v", err)
	}
	wantError(t, "DeleteUser", f.DeleteUser(ctx, "ann", "first"), nil)
	for _, gone := range []storage.AliasID{id, key} {
		_, err = f.Alias(ctx, gone)
		wantError(t, "an alias of a person who was removed", err, storage.ErrNotFound)
	}
	for _, subject := range []string{"1", "3"} {
		_, err = f.ProviderToken(ctx, storage.IdentityAlias("company", identity.Issuer, subject))
		wantError(t, "the token of a person who was removed", err, storage.ErrNotFound)
	}
	bob, err := f.Alias(ctx, elsewhere)
	wantError(t, "the alias of somebody else", err, nil)
	wantError(t, "PutAlias that was read", f.PutAlias(ctx, elsewhere, bob.Leading("zoe", "third")), nil)
	wantError(t, "PutAlias that was read before", f.PutAlias(ctx, elsewhere, bob), storage.ErrConflict)
	left, err := f.Alias(ctx, id)
	wantError(t, "Alias that has ended", err, storage.ErrNotFound)
	wantError(t, "EndAlias that was read before", f.EndAlias(ctx, elsewhere, bob), storage.ErrConflict)
	wantError(t, "PutAlias where one has ended", f.PutAlias(ctx, id, left.Leading("ann", "first")), nil)
	wantError(t, "CreateUser", f.CreateUser(ctx, storage.User{Name: "ann", Subject: "second", Identities: []storage.Identity{identity}}), nil)
	lead("an alias to an earlier person of that name", storage.ErrNotFound)
}

// testTakenMeanwhile: the end of a person leaves what another person has taken at that moment: an alias,
// the token of a provider, and the name.
func testTakenMeanwhile(t *testing.T, f *fixture) {
	ctx := t.Context()
	identity := storage.Identity{Provider: "company", Issuer: loginIssuer, Subject: "1"}
	id := storage.IdentityAlias(identity.Provider, identity.Issuer, identity.Subject)
	wantError(t, "PutAlias", f.PutAlias(ctx, id, storage.Alias{}.Leading("ann", "first")), nil)
	wantError(t, "CreateUser", f.CreateUser(ctx, storage.User{Name: "ann", Subject: "first", Identities: []storage.Identity{identity}}), nil)
	f.faults.beforePut(func() { // the end of the alias
		alias, err := f.Alias(ctx, id)
		wantError(t, "Alias", err, nil)
		wantError(t, "PutAlias meanwhile", f.PutAlias(ctx, id, alias.Leading("bob", "second")), nil)
		token := f.providerToken(t, "1", time.Hour)
		token.Subject = "second"
		wantError(t, "ReplaceProviderToken meanwhile", f.ReplaceProviderToken(ctx, token), nil)
	})
	wantError(t, "DeleteUser", f.DeleteUser(ctx, "ann", "first"), nil)
	if alias, err := f.Alias(ctx, id); err != nil || alias.Subject != "second" {
		t.Errorf("the alias of the other person is %+v, %v", alias, err)
	}
	if token, err := f.ProviderToken(ctx, id); err != nil || token.Subject != "second" {
		t.Errorf("the token of the other person is %+v, %v", token, err)
	}

	cat := storage.User{Name: "cat", Subject: "third"}
	next := storage.User{Name: "cat", Subject: "fourth"}
	wantError(t, "CreateUser", f.CreateUser(ctx, cat), nil)
	f.faults.beforePut(func() { // the end of the record
		wantError(t, "DeleteUser meanwhile", f.DeleteUser(ctx, "cat", "third"), nil)
		wantError(t, "CreateUser meanwhile", f.CreateUser(ctx, next), nil)
	})
	wantError(t, "DeleteUser of the person before", f.DeleteUser(ctx, "cat", "third"), nil)
	wantError(t, "DeleteUser of the person before again", f.DeleteUser(ctx, "cat", "third"), nil)
	if got, err := f.User(ctx, "cat"); err != nil || got.Subject != "fourth" {
		t.Errorf("the next person of the name is %+v, %v", got, err)
	}
	names, err := userNames(f.Users(ctx))
	wantError(t, "Users", err, nil)
	wantEntries(t, "Users", names, "cat")
}

// testConsents: a remembered decision ends at its time and when it is taken back, can be given anew at
// once then, and the list has it once.
func testConsents(t *testing.T, f *fixture) {
	ctx := t.Context()
	count := func(what string, want int) {
		t.Helper()
		n := 0
		for _, err := range f.Consents(ctx, "subject") {
			wantError(t, what, err, nil)
			n++
		}
		if n != want {
			t.Errorf("%s: the list has %d consents; want %d", what, n, want)
		}
	}
	wantError(t, "PutConsent", f.PutConsent(ctx, f.consent(time.Hour)), nil)
	count("given", 1)
	wantError(t, "DeleteConsent", f.DeleteConsent(ctx, "subject", "client"), nil)
	count("taken back", 0)
	wantError(t, "PutConsent", f.PutConsent(ctx, f.consent(time.Hour)), nil)
	count("given again", 1)
	f.clock.advance(time.Hour)
	over, err := f.Consent(ctx, "subject", "client")
	wantError(t, "a consent that is over", err, storage.ErrNotFound)
	again := f.consent(time.Hour)
	over.Subject, over.ClientID, over.Given = again.Subject, again.ClientID, again.Given
	wantError(t, "PutConsent at once after the end", f.PutConsent(ctx, over), nil)
	count("given anew", 1)
	f.clock.advance(30 * time.Minute)
	count("given anew, later", 1)
}

// testSessionList: the list of a person's sessions has those that live.
func testSessionList(t *testing.T, f *fixture) {
	ctx := t.Context()
	for i, secret := range []string{"one", "two", "three"} {
		session := storage.Session{Subject: "subject", AuthTime: f.clock.Now().Add(time.Duration(i) * time.Second), Expires: f.clock.Now().Add(time.Hour)}
		if secret == "two" {
			session.IdleExpires = f.clock.Now().Add(time.Minute)
		}
		wantError(t, "CreateSession", f.CreateSession(ctx, secret, session), nil)
	}
	ids := func() (ids []string) {
		for session, err := range f.Sessions(ctx, "subject") {
			wantError(t, "Sessions", err, nil)
			ids = append(ids, session.ID())
		}
		return ids
	}
	all := ids()
	if len(all) != 3 {
		t.Fatalf("the list has %d sessions; want 3", len(all))
	}
	f.clock.advance(2 * time.Minute) // the second is idle
	wantError(t, "EndSession", f.EndSession(ctx, all[0]), nil)
	_, err := f.Session(ctx, "one")
	wantError(t, "a session that was ended by its id", err, storage.ErrNotFound)
	if left := ids(); !slices.Equal(left, all[2:]) {
		t.Errorf("the list has %v; want %v", left, all[2:])
	}
	session, err := f.Session(ctx, "three")
	wantError(t, "Session", err, nil)
	wantError(t, "EndSession", f.EndSession(ctx, session.ID()), nil)
	wantError(t, "UpdateSession of one that was ended", f.UpdateSession(ctx, session), storage.ErrConflict)
	wantError(t, "UpdateSession of one that was not read", f.UpdateSession(ctx, storage.Session{Subject: "subject", Expires: f.clock.later()}), storage.ErrConflict)
	session = storage.Session{Subject: "subject", Expires: f.clock.Now().Add(time.Minute), IdleExpires: f.clock.Now().Add(time.Hour)}
	wantError(t, "CreateSession", f.CreateSession(ctx, "four", session), nil)
	f.clock.advance(time.Minute)
	_, err = f.Session(ctx, "four")
	wantError(t, "a session at its end, though not idle", err, storage.ErrNotFound)
}

func testSession(t *testing.T, f *fixture) {
	want := storage.Session{UserName: "ann", Subject: "s1", AuthTime: f.clock.Now(), Expires: f.clock.later()}
	wantError(t, "CreateSession", f.CreateSession(t.Context(), "secret", want), nil)
	got, err := f.Session(t.Context(), "secret")
	wantError(t, "Session", err, nil)
	wantSame(t, "Session", got, want)
	for _, wrong := range []string{"", "Secret", "secret ", "secret\x00"} {
		_, err := f.Session(t.Context(), wrong)
		wantError(t, name("Session of %q", wrong), err, storage.ErrNotFound)
		wantError(t, "DeleteSession", f.DeleteSession(t.Context(), wrong), nil)
	}
	wantError(t, "CreateSession again", f.CreateSession(t.Context(), "secret", want), storage.ErrConflict)
	wantError(t, "DeleteSession", f.DeleteSession(t.Context(), "secret"), nil)
	_, err = f.Session(t.Context(), "secret")
	wantError(t, "Session after its end", err, storage.ErrNotFound)
}
