package admin_test

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// TestStatesOfClients: a client that is locked out is disabled whether or not it was used, and one that
// changed since the operator vouched for it is not vouched for.
func TestStatesOfClients(t *testing.T) {
	used := time.Now()
	c := storage.Client{ID: "diary", Metadata: callback}
	for want, change := range map[string]func(*storage.Client){
		"unused":   func(*storage.Client) {},
		"active":   func(c *storage.Client) { c.LastUsed = used },
		"disabled": func(c *storage.Client) { c.LastUsed, c.Disabled = used, true },
	} {
		c := c
		if change(&c); admin.ClientOf(c).State != want || admin.ClientOf(c).Vouched {
			t.Errorf("%s: %+v", want, admin.ClientOf(c))
		}
	}
	if c.Disabled = true; admin.ClientOf(c).State != "disabled" {
		t.Errorf("disabled and never used: %s", admin.ClientOf(c).State)
	}
	c.Vouched = dcr.Digest(c)
	if !admin.ClientOf(c).Vouched {
		t.Error("a client that is as it was vouched for is not vouched for")
	}
	if c.Metadata.ClientName = "Another"; admin.ClientOf(c).Vouched {
		t.Error("a client that changed is vouched for")
	}
}

// TestInvitedPeople: only somebody with a link who has not chosen how to sign in is invited.
func TestInvitedPeople(t *testing.T) {
	link := &storage.Invitation{}
	for name, test := range map[string]struct {
		person storage.User
		want   bool
	}{
		"a link":               {storage.User{Invitation: link}, true},
		"a password":           {storage.User{Password: "hash"}, false},
		"a link, a password":   {storage.User{Invitation: link, Password: "hash"}, false},
		"a link, a passkey":    {storage.User{Invitation: link, Passkeys: make([]storage.Passkey, 1)}, false},
		"an account elsewhere": {storage.User{Identities: make([]storage.Identity, 1)}, false},
	} {
		if got := admin.UserOf(test.person).Invited; got != test.want {
			t.Errorf("%s: invited %t", name, got)
		}
	}
}

// TestLinks: how long a link may work, from when, and what the record has then.
func TestLinks(t *testing.T) {
	store, ctx, month := newStore(t), t.Context(), 31*24*time.Hour
	for length, want := range map[time.Duration]error{
		time.Minute: nil, month: nil, time.Minute - 1: admin.ErrLinkTime, month + 1: admin.ErrLinkTime, 0: admin.ErrLinkTime, -time.Hour: admin.ErrLinkTime,
	} {
		name := "for" + length.String()
		if _, err := admin.Invite(ctx, store, name, admin.Link{For: length}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", length, err, want)
		}
		if _, err := admin.FindUser(ctx, store, name); (err == nil) != (want == nil) {
			t.Errorf("%s: the person: %v", length, err)
		}
	}
	before := time.Now()
	made, err := admin.Invite(ctx, store, "Ada", admin.Link{For: time.Hour})
	if err != nil || made.Expires.Before(before.Add(time.Hour)) || made.Expires.After(time.Now().Add(time.Hour)) {
		t.Fatalf("without a time: %+v, %v", made, err)
	}
	person, err := admin.FindUser(ctx, store, "ada")
	if err != nil || made.User.Name != "ada" || made.User.Subject != person.Subject || !admin.UserOf(person).Invited || !person.Invitation.Token.Matches(made.Token) {
		t.Errorf("the person is %+v, %v; the link is for %+v", person, err, made.User)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	person.SecondFactor, person.Passkeys = &storage.SecondFactor{}, []storage.Passkey{{ID: []byte("id"), Name: "Phone"}}
	if err := store.UpdateUser(ctx, person); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		link            admin.Link
		factor, passkey bool
		epoch           int64
	}{
		{admin.Link{For: time.Hour, Now: at}, true, true, 1},
		{admin.Link{For: time.Hour, Now: at, DropSecondFactor: true}, false, true, 2},
		{admin.Link{For: time.Hour, Now: at, DropPasskeys: true}, false, false, 3},
	} {
		made, err := admin.Reset(ctx, store, "ADA", step.link)
		if err != nil || !made.Expires.Equal(at.Add(time.Hour)) || made.User.Name != "ada" {
			t.Fatalf("%+v: %+v, %v", step.link, made, err)
		}
		now, err := admin.FindUser(ctx, store, "ada")
		if err != nil || (now.SecondFactor != nil) != step.factor || (len(now.Passkeys) > 0) != step.passkey || int64(now.SessionEpoch) != step.epoch ||
			now.Invitation == nil || !now.Invitation.Token.Matches(made.Token) || now.Password != "" {
			t.Errorf("%+v: %+v, %v", step.link, now, err)
		}
	}
	if _, err := admin.Reset(ctx, store, "ada", admin.Link{For: time.Second}); !errors.Is(err, admin.ErrLinkTime) {
		t.Errorf("a reset for a second: %v", err)
	}
	if now, err := admin.FindUser(ctx, store, "ada"); err != nil || int64(now.SessionEpoch) != 3 || now.Invitation == nil {
		t.Errorf("after a reset that was refused: %+v, %v", now, err)
	}
}

// TestPasswordsOfPeople: a name or a password that is refused stores nothing, and another password
// ends the one before, the sessions and the link.
func TestPasswordsOfPeople(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	for name, test := range map[string]struct {
		name, password string
		want           error
	}{
		"no password":   {"ben", "", admin.ErrPassword},
		"a long one":    {"ben", string(make([]byte, 1025)), admin.ErrPassword},
		"no name":       {"", "correct horse battery", admin.ErrUserName},
		"of a provider": {"company/ben", "correct horse battery", admin.ErrUserName},
		"of two words":  {"ben ben", "correct horse battery", admin.ErrUserName},
	} {
		if _, err := admin.AddUser(ctx, store, test.name, test.password); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for u, err := range admin.Users(ctx, store) {
		t.Errorf("somebody was added: %+v, %v", u, err)
	}
	if _, err := admin.Invite(ctx, store, "ada", admin.Link{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if p, err := admin.ProfileOf(ctx, store, "ada", 1); err != nil || p.Password || p.LinkExpires.IsZero() {
		t.Errorf("invited: %+v, %v", p, err)
	}
	for i, password := range []string{"correct horse battery", "another horse"} {
		if err := admin.SetPassword(ctx, store, "Ada", password); err != nil {
			t.Fatal(err)
		}
		now, err := admin.FindUser(ctx, store, "ada")
		if err != nil || now.Invitation != nil || int(now.SessionEpoch) != i+1 {
			t.Errorf("%s: %+v, %v", password, now, err)
		}
	}
	if err := admin.SetPassword(ctx, store, "ada", ""); !errors.Is(err, admin.ErrPassword) {
		t.Errorf("no password: %v", err)
	}
	for password, want := range map[string]bool{"another horse": true, "correct horse battery": false, "": false} {
		if is, err := admin.HasPassword(ctx, store, "ada", password); err != nil || is != want {
			t.Errorf("%q: %t, %v", password, is, err)
		}
	}
	if is, err := admin.HasPassword(ctx, store, "nobody", "another horse"); is || !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("nobody: %t, %v", is, err)
	}
	if p, err := admin.ProfileOf(ctx, store, "ada", 1); err != nil || !p.Password || !p.LinkExpires.IsZero() {
		t.Errorf("with a password: %+v, %v", p, err)
	}
}

// TestProfileOfWhatEnds: a link that has ended is none, a session ends when its idle time does if that is
// earlier, and groups are in order.
func TestProfileOfWhatEnds(t *testing.T) {
	store, ctx := newStore(t), t.Context()
	now := store.Now().Truncate(time.Second)
	if _, err := admin.AddUser(ctx, store, "ada", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"staff", "admins"} {
		_, err := admin.AddGroup(ctx, store, group)
		if err := errors.Join(err, admin.JoinGroup(ctx, store, group, "ada")); err != nil {
			t.Fatal(err)
		}
	}
	person, err := admin.FindUser(ctx, store, "ada")
	if err != nil {
		t.Fatal(err)
	}
	person.Invitation = &storage.Invitation{Created: now.Add(-time.Hour), Expires: now.Add(-time.Minute)}
	if err := store.UpdateUser(ctx, person); err != nil {
		t.Fatal(err)
	}
	for i, idle := range []time.Time{{}, now.Add(30 * time.Minute), now.Add(2 * time.Hour)} {
		s := storage.Session{UserName: "ada", Subject: person.Subject, Epoch: person.SessionEpoch, AuthTime: now.Add(time.Duration(i) * time.Second), Expires: now.Add(time.Hour), IdleExpires: idle}
		if err := store.CreateSession(ctx, "cookie"+string(rune('a'+i)), s); err != nil {
			t.Fatal(err)
		}
	}
	for limit, more := range map[int]bool{0: false, 2: true, 3: false} {
		p, err := admin.ProfileOf(ctx, store, "ada", limit)
		if err != nil || p.MoreSessions != more || limit > 0 && len(p.Sessions) != limit {
			t.Errorf("at most %d: %d sessions, more %t, %v", limit, len(p.Sessions), p.MoreSessions, err)
		}
	}
	p, err := admin.ProfileOf(ctx, store, "ada", 0)
	if err != nil || len(p.Sessions) != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	for i, want := range []time.Duration{time.Hour, 30 * time.Minute, time.Hour} { // the newest first
		if !p.Sessions[i].Ends.Equal(now.Add(want)) {
			t.Errorf("session %d ends %s after now, want %s", i, p.Sessions[i].Ends.Sub(now), want)
		}
	}
	if !p.LinkExpires.IsZero() || len(p.Groups) != 2 || p.Groups[0] != "admins" || p.SecondFactor != nil {
		t.Errorf("%+v", p)
	}
}
