package storagetest

import (
	"fmt"
	"testing"
	"time"

	"gatehouse.example/storage"
)

const loginIssuer = "https://login.example.com"

// testPins: an entry belongs to the first account for good, for one provider and issuer.
func testPins(t *testing.T, f *fixture) {
	ctx := t.Context()
	entry := unique("ada@example.com")
	take := func(provider, issuer, entry, subject string) error {
		return f.TakePin(ctx, provider, issuer, storage.Pin{Entry: entry, Subject: subject})
	}
	f.faults.LoseReplies(1)
	wantError(t, "TakePin with a lost reply", take("company", loginIssuer, entry, "1"), nil)
	wantError(t, "TakePin again", take("company", loginIssuer, entry, "1"), nil)
	wantError(t, "TakePin of another account", take("company", loginIssuer, entry, "2"), storage.ErrConflict)
	wantError(t, "TakePin at another provider", take("other", loginIssuer, entry, "2"), nil)
	wantError(t, "TakePin at another issuer", take("company", loginIssuer+"/2", entry, "3"), nil)
	pins, err := f.Pins(ctx, "company", loginIssuer, []string{"free", entry})
	wantError(t, "Pins", err, nil)
	if fmt.Sprint(pins) != fmt.Sprint(map[string]string{entry: "1"}) {
		t.Errorf("the pins are %v", pins)
	}
}

// racePins: of many accounts that claim one entry exactly one gets it.
func racePins(t *testing.T, f *fixture) {
	entry := unique("entry")
	errs := together(runners, func(i int) error {
		return f.TakePin(t.Context(), "company", loginIssuer, storage.Pin{Entry: entry, Subject: fmt.Sprint(i)})
	})
	wantOneWinner(t, errs, storage.ErrConflict)
}

// testProviderSessions: the end of a session at a provider ends those that began with it, also one
// that joins later, and is forgotten in the end.
func testProviderSessions(t *testing.T, f *fixture) {
	ctx := t.Context()
	sid := unique("sid")
	begin := func(secret string) error { return f.beginAt(t, sid, secret, time.Hour) }
	one, two, late := unique("one"), unique("two"), unique("late")
	wantError(t, "JoinProviderSession", begin(one), nil)
	wantError(t, "JoinProviderSession", begin(two), nil)
	if ended, err := f.EndProviderSession(ctx, "other", sid); err != nil || len(ended) != 0 {
		t.Errorf("at another provider %d sessions end, %v", len(ended), err)
	}
	f.faults.LoseReplies(1)
	ended, err := f.EndProviderSession(ctx, "company", sid)
	wantError(t, "EndProviderSession", err, nil)
	if len(ended) != 2 {
		t.Errorf("%d sessions ended; want 2", len(ended))
	}
	for _, secret := range []string{one, two} {
		_, err := f.Session(ctx, secret)
		wantError(t, "a session that was ended", err, storage.ErrNotFound)
	}
	wantError(t, "JoinProviderSession after the end", begin(late), storage.ErrNotFound)
	f.clock.advance(30 * time.Minute)
	wantError(t, "JoinProviderSession while a session of before could be", begin(unique("later")), storage.ErrNotFound)
	f.clock.advance(2 * time.Hour)
	wantError(t, "JoinProviderSession when all is over", begin(unique("new")), nil)
}

// testProviderAccounts: a sign-in that began before an account at a provider was signed out everywhere, or
// at that moment, gives no session, and neither others nor later ones are kept out.
func testProviderAccounts(t *testing.T, f *fixture) {
	ctx := t.Context()
	sub, began := unique("sub"), f.clock.Now()
	check := func(what, provider, subject string, began time.Time, want error) {
		t.Helper()
		wantError(t, "CheckProviderAccount "+what, f.CheckProviderAccount(ctx, provider, subject, began), want)
	}
	check("before", "company", sub, began, nil)
	f.clock.advance(time.Second)
	f.faults.LoseReplies(1)
	wantError(t, "EndProviderAccount", f.EndProviderAccount(ctx, "company", sub), nil)
	ended := f.clock.Now()
	check("of a sign-in before", "company", sub, began, storage.ErrNotFound)
	check("of one at that moment", "company", sub, ended, storage.ErrNotFound)
	check("of a later one", "company", sub, ended.Add(time.Millisecond), nil)
	check("of another account", "company", unique("sub"), began, nil)
	check("at another provider", "other", sub, began, nil)
	wantError(t, "JoinProviderSession", f.JoinProviderSession(ctx, "company", sub, "session", f.clock.later()), nil)
	f.clock.advance(10 * time.Minute)
	check("of the longest sign-in", "company", sub, began, storage.ErrNotFound)
	wantError(t, "EndProviderAccount again", f.EndProviderAccount(ctx, "company", sub), nil)
	check("after a second end", "company", sub, ended.Add(time.Minute), storage.ErrNotFound)
	f.faults.SetDown(true)
	wantUnavailable(t, "CheckProviderAccount", f.CheckProviderAccount(ctx, "company", sub, began))
	wantUnavailable(t, "EndProviderAccount", f.EndProviderAccount(ctx, "company", sub))
}

// beginAt begins a session here that began with a session at a provider.
func (f *fixture) beginAt(t *testing.T, sid, secret string, lasts time.Duration) error {
	t.Helper()
	session := storage.Session{Subject: "subject", Provider: "company", AuthTime: f.clock.Now(), Expires: f.clock.Now().Add(lasts)}
	wantError(t, "CreateSession", f.CreateSession(t.Context(), secret, session), nil)
	return f.JoinProviderSession(t.Context(), "company", sid, storage.SessionID(secret), session.Expires)
}

// testManyAtProvider: the record of a session at a provider lasts as long as the longest session
// here, holds the newest 32, and loses none of two that join at once.
func testManyAtProvider(t *testing.T, f *fixture) {
	ctx := t.Context()
	sid, long, meanwhile := unique("sid"), unique("long"), unique("meanwhile")
	wantError(t, "JoinProviderSession of a short one", f.beginAt(t, sid, unique("short"), time.Hour), nil)
	wantError(t, "JoinProviderSession of a long one", f.beginAt(t, sid, long, 3*time.Hour), nil)
	wantError(t, "JoinProviderSession of a short one", f.beginAt(t, sid, unique("short"), time.Hour), nil)
	f.clock.advance(2 * time.Hour)
	session := storage.Session{Subject: "subject", AuthTime: f.clock.Now(), Expires: f.clock.Now().Add(time.Hour)}
	wantError(t, "CreateSession", f.CreateSession(ctx, unique("outer"), session), nil)
	f.faults.beforePut(func() { wantError(t, "JoinProviderSession meanwhile", f.beginAt(t, sid, meanwhile, time.Hour), nil) })
	wantError(t, "JoinProviderSession", f.JoinProviderSession(ctx, "company", sid, "gone since", session.Expires), nil)
	if ended, err := f.EndProviderSession(ctx, "company", sid); err != nil || len(ended) != 2 {
		t.Errorf("%d sessions ended, %v; want the long one and the one that joined meanwhile", len(ended), err)
	}
	sid = unique("sid")
	var secrets []string
	for range 33 {
		secrets = append(secrets, unique("secret"))
		wantError(t, "JoinProviderSession", f.beginAt(t, sid, secrets[len(secrets)-1], time.Hour), nil)
	}
	if ended, err := f.EndProviderSession(ctx, "company", sid); err != nil || len(ended) != 32 {
		t.Errorf("%d of 33 sessions ended, %v; want the newest 32", len(ended), err)
	}
	_, err := f.Session(ctx, secrets[0])
	wantError(t, "the oldest session", err, nil)
}

// providerToken returns a token of the identity with that subject.
func (f *fixture) providerToken(t *testing.T, subject string, due time.Duration) storage.ProviderToken {
	t.Helper()
	token := storage.ProviderToken{
		Provider: "company", Issuer: loginIssuer, ProviderSubject: subject, UserName: "company/" + subject, Subject: subject,
		Confirmed: f.clock.Now(), Due: f.clock.Now().Add(due),
	}
	var err error
	token.Token, err = f.SealProviderToken(token.ID(), "refresh of "+subject)
	wantError(t, "SealProviderToken", err, nil)
	return token
}

// due returns the subjects whose tokens are due.
func (f *fixture) due(t *testing.T) (subjects []string) {
	t.Helper()
	for token, err := range f.DueProviderTokens(t.Context()) {
		wantError(t, "DueProviderTokens", err, nil)
		subjects = append(subjects, token.ProviderSubject)
	}
	return subjects
}

// testProviderTokens: a token is due at its time, is one process's while it has the lease, and
// whoever lost it writes nothing.
func testProviderTokens(t *testing.T, f *fixture) {
	ctx := t.Context()
	later, sooner := f.providerToken(t, "later", 2*time.Hour), f.providerToken(t, "sooner", time.Hour)
	for _, token := range []storage.ProviderToken{later, sooner} {
		wantError(t, "ReplaceProviderToken", f.ReplaceProviderToken(ctx, token), nil)
	}
	wantEntries(t, "due at once", f.due(t))
	f.clock.advance(time.Hour)
	wantEntries(t, "due after an hour", f.due(t), "sooner")
	f.clock.advance(time.Hour)
	wantEntries(t, "due after two", f.due(t), "sooner", "later")

	held, err := f.ProviderToken(ctx, sooner.ID())
	wantError(t, "ProviderToken", err, nil)
	secret, err := f.OpenProviderToken(held)
	if err != nil || secret != "refresh of sooner" {
		t.Errorf("the token is %q, %v", secret, err)
	}
	late := held
	held.LeaseUntil = f.clock.Now().Add(time.Minute)
	held, err = f.PutProviderToken(ctx, held)
	wantError(t, "PutProviderToken", err, nil)
	_, err = f.PutProviderToken(ctx, late)
	wantError(t, "PutProviderToken without the lease", err, storage.ErrConflict)
	wantEntries(t, "due beside a lease", f.due(t), "later")
	f.clock.advance(time.Minute)
	wantEntries(t, "due after the lease", f.due(t), "sooner", "later")

	held.Due, held.LeaseUntil = f.clock.Now().Add(time.Hour), time.Time{}
	f.faults.LoseReplies(1)
	_, err = f.PutProviderToken(ctx, held)
	wantError(t, "PutProviderToken with a lost reply", err, nil)
	f.wantIndexed(t, "the tokens at once", "gatehouse:provider-tokens:due", string(later.ID()), string(sooner.ID()))
	wantEntries(t, "due after the answer", f.due(t), "later")
	wantError(t, "DeleteProviderToken of another person", f.DeleteProviderToken(ctx, later.ID(), "another"), nil)
	wantEntries(t, "due after that", f.due(t), "later")
	wantError(t, "DeleteProviderToken", f.DeleteProviderToken(ctx, later.ID(), later.Subject), nil)
	wantError(t, "DeleteProviderToken again", f.DeleteProviderToken(ctx, later.ID(), later.Subject), nil)
	f.wantIndexed(t, "the tokens", "gatehouse:provider-tokens:due", string(sooner.ID()))
	f.clock.advance(time.Hour)
	wantEntries(t, "due when one was removed", f.due(t), "sooner")

	again := f.providerToken(t, "sooner", time.Hour)
	f.faults.beforePut(func() {
		wantError(t, "ReplaceProviderToken meanwhile", f.ReplaceProviderToken(ctx, f.providerToken(t, "sooner", 2*time.Hour)), nil)
	})
	wantError(t, "ReplaceProviderToken", f.ReplaceProviderToken(ctx, again), nil)
	f.wantIndexed(t, "the token of another sign-in", "gatehouse:provider-tokens:due", string(sooner.ID()))
	f.clock.advance(time.Hour)
	wantEntries(t, "due after another sign-in", f.due(t), "sooner")
	for token, err := range f.DueProviderTokens(ctx) {
		wantError(t, "DueProviderTokens", err, nil)
		wantError(t, "EndProviderToken", f.EndProviderToken(ctx, token), nil)
		wantError(t, "EndProviderToken again", f.EndProviderToken(ctx, token), storage.ErrConflict)
		break // a caller may stop
	}
	_, err = f.ProviderToken(ctx, sooner.ID())
	wantError(t, "a token that has ended", err, storage.ErrNotFound)
	f.wantIndexed(t, "the tokens after the end", "gatehouse:provider-tokens:due")
}
