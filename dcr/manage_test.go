package dcr_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// managed is a registered client with its registration access token.
type managed struct{ id, secret, token string }

func (m managed) bearer() string { return "Bearer " + m.token }

// update is an update request of members.
func (m managed) update(members string) string {
	return strings.Replace(with(members), "{", `{"client_id":"`+m.id+`",`, 1)
}

// register registers a client of members.
func (f *fixture) register(t testing.TB, members string) managed {
	t.Helper()
	a := f.post(t, with(members))
	if a.status != http.StatusCreated {
		t.Fatalf("status %d: %s", a.status, a.raw)
	}
	return managed{a.text("client_id"), a.text("client_secret"), a.text("registration_access_token")}
}

func (f *fixture) stored(t testing.TB, id string) storage.Client {
	t.Helper()
	c, err := f.store.Client(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReplace: PUT replaces all client metadata, under the rules of registration, and keeps
// the members that the server chose.
func TestReplace(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, `"client_name":"Notes","client_name#de":"Notizen","contacts":["ops@example.com"],"software_id":"x","scope":"notes:read","token_endpoint_auth_method":"client_secret_post"`)
	before := f.stored(t, m.id)
	f.clock.advance(time.Hour)
	a := f.put(t, m.id, m.update(`"redirect_uris":["http://127.0.0.1/cb"],"client_name":"New","tos_uri#fr":"https://client.example.com/cgu",`+
		`"grant_types":["authorization_code","refresh_token"],"client_secret":"`+m.secret+`","source":"configured","disabled":true,"registration_access_token":null`), m.bearer())
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.raw)
	}
	assertMembers(t, a, f, `{"redirect_uris":["http://127.0.0.1/cb"],"client_name":"New","tos_uri#fr":"https://client.example.com/cgu",`+
		`"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"client_secret_basic"}`)
	after := f.stored(t, m.id)
	if _, issued := a.body["client_secret"]; issued || !after.Secret.Matches(m.secret) {
		t.Errorf("the secret changed or is repeated: %s", a.raw)
	}
	for _, c := range []*storage.Client{&before, &after} {
		*c = storage.Client{ID: c.ID, Source: c.Source, Software: c.Software, Created: c.Created, LastUsed: c.LastUsed, Expires: c.Expires, Disabled: c.Disabled}
	}
	if !reflect.DeepEqual(before, after) || !before.Expires.Equal(start.Add(7*24*time.Hour)) || before.Software == "" {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	if strings.Contains(f.log.String(), a.text("registration_access_token")) || strings.Contains(string(f.backend.stored), a.text("registration_access_token")) {
		t.Error("the new token is in the log or the store")
	}
}

// TestReplaceKeepsUse: the first use of a client survives a replacement.
func TestReplaceKeepsUse(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, "")
	f.clock.advance(time.Hour)
	if err := f.store.UseClient(context.Background(), m.id, f.clock.now()); err != nil {
		t.Fatal(err)
	}
	if a := f.put(t, m.id, m.update(""), m.bearer()); a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.raw)
	}
	if c := f.stored(t, m.id); !c.LastUsed.Equal(f.clock.now()) || !c.Expires.IsZero() {
		t.Errorf("stored %+v", c)
	}
}

// TestReplaceIsSeenAtOnce: a replacement drops the cached client.
func TestReplaceIsSeenAtOnce(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, `"client_name":"Old"`)
	f.assertResolves(t, m.id, 1)
	f.put(t, m.id, m.update(`"client_name":"New"`), m.bearer())
	if c, err := f.Resolve(context.Background(), m.id); err != nil || c.Metadata.ClientName != "New" {
		t.Errorf("resolved %+v: %v", c, err)
	}
}

// TestReplaceMethod: a client has a secret exactly as long as it authenticates with one.
func TestReplaceMethod(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, `"token_endpoint_auth_method":"none"`)
	secrets := map[string]bool{}
	for i, step := range []struct {
		members string
		issued  bool // a new secret
		secret  bool
	}{
		{`"token_endpoint_auth_method":"client_secret_post"`, true, true},
		{`"token_endpoint_auth_method":"client_secret_basic"`, false, true},
		{`"token_endpoint_auth_method":"none"`, false, false},
		{``, true, true},
		{assertions(`"jwks":` + keyP256), false, false},
		{`"token_endpoint_auth_method":"none"`, false, false},
	} {
		a := f.put(t, m.id, m.update(step.members), m.bearer())
		secret := a.text("client_secret")
		if a.status != http.StatusOK || (secret != "") != step.issued || secrets[secret] {
			t.Fatalf("%d: status %d: %s", i, a.status, a.raw)
		}
		if secret != "" {
			secrets[secret], m.secret = true, secret
		}
		if c := f.stored(t, m.id); (len(c.Secret) > 0) != step.secret || step.secret && !c.Secret.Matches(m.secret) {
			t.Errorf("%d: stored %+v", i, c)
		}
		m.token = a.text("registration_access_token")
	}
}

// TestReplaceRefuses: an update refuses its forbidden members and everything that registration
// refuses, names them, and changes nothing.
func TestReplaceRefuses(t *testing.T) {
	f := newFixture(t, nil)
	m, other := f.register(t, ""), f.register(t, "")
	public := f.register(t, `"token_endpoint_auth_method":"none"`)
	about := func(members string) string { return m.update(members) }
	tests := []struct{ name, body, code, says string }{
		{"no client_id", minimal, "invalid_client_metadata", "client_id: "},
		{"null client_id", with(`"client_id":null`), "invalid_client_metadata", "client_id: "},
		{"another client_id", other.update(""), "invalid_client_metadata", "client_id: "},
		{"client_id of another type", with(`"client_id":["` + m.id + `"]`), "invalid_client_metadata", "client_id: "},
		{"client_id in another case", with(`"CLIENT_ID":"` + m.id + `"`), "invalid_client_metadata", "client_id: "},
		{"client_id twice", about(`"client_id":"` + m.id + `"`), "invalid_client_metadata", "client_id: duplicate member"},
		{"a wrong secret", about(`"client_secret":"gate_cs_x"`), "invalid_client_metadata", "client_secret: "},
		{"the secret of another", about(`"client_secret":"` + other.secret + `"`), "invalid_client_metadata", "client_secret: "},
		{"an empty secret", about(`"client_secret":""`), "invalid_client_metadata", "client_secret: "},
		{"a secret of another type", about(`"client_secret":1`), "invalid_client_metadata", "client_secret: "},
		{"the token", about(`"registration_access_token":"` + m.token + `"`), "invalid_client_metadata", "registration_access_token: "},
		{"the address", about(`"registration_client_uri":"` + registerURL + "/" + m.id + `"`), "invalid_client_metadata", "registration_client_uri: "},
		{"the end of the secret", about(`"client_secret_expires_at":0`), "invalid_client_metadata", "client_secret_expires_at: "},
		{"the date", about(`"client_id_issued_at":1`), "invalid_client_metadata", "client_id_issued_at: "},
		{"no redirect URI", `{"client_id":"` + m.id + `"}`, "invalid_redirect_uri", "redirect_uris: "},
		{"a bad redirect URI", about(`"redirect_uris":["javascript:x"]`), "invalid_redirect_uri", "redirect_uris[0]: "},
		{"a bad method", about(`"token_endpoint_auth_method":"x"`), "invalid_client_metadata", "token_endpoint_auth_method: "},
		{"a bad language", about(`"client_name#!":"x"`), "invalid_client_metadata", "client_name#!: "},
		{"a statement without issuer", about(`"software_statement":"a.b.c"`), "unapproved_software_statement", "software_statement: "},
		{"not JSON", "x", "invalid_client_metadata", ""},
		{"null", "null", "invalid_client_metadata", "client_id: "},
	}
	before := f.stored(t, m.id)
	f.backend.writes.Store(0)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := f.put(t, m.id, tt.body, m.bearer())
			assertRefused(t, f, a, http.StatusBadRequest, tt.code)
			if !strings.HasPrefix(a.text("error_description"), tt.says) {
				t.Errorf("it says %q, not %q", a.text("error_description"), tt.says)
			}
			if !reflect.DeepEqual(before, f.stored(t, m.id)) {
				t.Error("the client changed")
			}
		})
	}
	assertRefused(t, f, f.put(t, public.id, public.update(`"client_secret":"x"`), public.bearer()), http.StatusBadRequest, "invalid_client_metadata")
	r := f.request(http.MethodPut, m.id, about(""), m.bearer())
	r.Header.Set("Content-Type", "text/plain")
	assertRefused(t, f, serve(t, f.Configuration(), r), http.StatusBadRequest, "invalid_client_metadata")
	assertRefused(t, f, f.put(t, m.id, about(`"x":"`+strings.Repeat("x", 64<<10)+`"`), m.bearer()), http.StatusRequestEntityTooLarge, "invalid_client_metadata")
}

// TestRotation: PUT issues a new token, and the previous one is valid until the new one is
// used, so a lost answer does not lock the client out.
func TestRotation(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, "")
	first := m.bearer()
	put := func(token string) string {
		t.Helper()
		a := f.put(t, m.id, m.update(""), token)
		if a.status != http.StatusOK || "Bearer "+a.text("registration_access_token") == token {
			t.Fatalf("status %d: %s", a.status, a.raw)
		}
		return "Bearer " + a.text("registration_access_token")
	}
	get := func(token string, want int) {
		t.Helper()
		if a := f.get(t, m.id, token); a.status != want {
			t.Errorf("status %d, want %d: %s", a.status, want, a.raw)
		}
	}
	lost := put(first)
	get(first, http.StatusOK)
	get(first, http.StatusOK)
	second := put(first) // the answer was lost, so the client does it again
	get(lost, http.StatusUnauthorized)
	get(first, http.StatusOK)
	get(second, http.StatusOK) // which withdraws the first one
	get(first, http.StatusUnauthorized)
	get(second, http.StatusOK)
	third := put(second)
	fourth := put(third) // using the third one withdraws the second
	get(second, http.StatusUnauthorized)
	get(third, http.StatusOK)
	if a := f.delete(t, m.id, third); a.status != http.StatusNoContent {
		t.Errorf("status %d: %s", a.status, a.raw)
	}
	get(third, http.StatusUnauthorized)
	get(fourth, http.StatusUnauthorized)
}

// TestReadingCostsNoWrite: GET writes only at the first use of a new token.
func TestReadingCostsNoWrite(t *testing.T) {
	f := newFixture(t, nil)
	m := f.register(t, "")
	a := f.put(t, m.id, m.update(""), m.bearer())
	for _, want := range []int64{1, 0, 0} {
		f.backend.writes.Store(0)
		f.get(t, m.id, "Bearer "+a.text("registration_access_token"))
		if n := f.backend.writes.Load(); n != want {
			t.Errorf("%d writes, want %d", n, want)
		}
	}
}

// grant is a grant whose code was redeemed and that can be refreshed.
func (f *fixture) grant(t testing.TB, clientID string, life time.Duration) storage.Grant {
	t.Helper()
	g, _, err := f.store.PrepareGrant(storage.NewGrant{
		ClientID: clientID, Subject: "person", Resources: []string{"https://notes.example.com/mcp"}, Refreshable: true, CodeTTL: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.CreateGrant(context.Background(), g); err != nil {
		t.Fatal(err)
	}
	if g, err = f.store.Grant(context.Background(), g.ID); err != nil || life == 0 {
		return g
	}
	g, err = f.store.Redeem(context.Background(), g, f.lifetime(life))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (f *fixture) lifetime(life time.Duration) storage.Lifetime {
	end := f.clock.now().Add(life)
	return storage.Lifetime{Expires: end, IdleExpires: end, AccessUntil: f.clock.now().Add(time.Minute)}
}

func (f *fixture) assertRevoked(t *testing.T, g storage.Grant, want bool) {
	t.Helper()
	g, err := f.store.Grant(context.Background(), g.ID)
	if err != nil || (g.State == storage.GrantRevoked) != want {
		t.Errorf("the grant is %s, want revoked: %t: %v", g.State, want, err)
	}
}

// TestDelete: the client is gone at once, and its grants are revoked but no others.
func TestDelete(t *testing.T) {
	f := newFixture(t, nil)
	m, other := f.register(t, ""), f.register(t, "")
	code, active, foreign := f.grant(t, m.id, 0), f.grant(t, m.id, time.Hour), f.grant(t, other.id, time.Hour)
	f.assertResolves(t, m.id, 1)
	if a := f.delete(t, m.id, m.bearer()); a.status != http.StatusNoContent {
		t.Fatalf("status %d: %s", a.status, a.raw)
	}
	f.assertRevoked(t, code, true)
	f.assertRevoked(t, active, true)
	f.assertRevoked(t, foreign, false)
	if _, err := f.Resolve(context.Background(), m.id); !isRemoved(err, "it deleted its registration") {
		t.Errorf("error %v", err)
	}
	refused := f.get(t, "unknown", m.bearer())
	for name, a := range map[string]answer{"get": f.get(t, m.id, m.bearer()), "put": f.put(t, m.id, m.update(""), m.bearer()), "delete": f.delete(t, m.id, m.bearer())} {
		if a.status != http.StatusUnauthorized || a.raw != refused.raw {
			t.Errorf("%s: status %d: %s", name, a.status, a.raw)
		}
	}
	if a := f.get(t, other.id, other.bearer()); a.status != http.StatusOK {
		t.Errorf("the other client: %s", a.raw)
	}
}

// TestDeletedIsToldOnce: the end of a client is told once, also when the revocation of its grants takes a second
// request, which does not know the client any more.
func TestDeletedIsToldOnce(t *testing.T) {
	var told []string
	f := newFixture(t, func(c *dcr.Config) {
		c.OnRemove = func(_ context.Context, of storage.Client) { told = append(told, of.ID) }
	})
	m := f.register(t, "")
	g := f.grant(t, m.id, time.Hour)
	f.backend.before(func() { f.backend.before(func() { f.faults.SetDown(true) }) })
	if a := f.delete(t, m.id, m.bearer()); a.status != http.StatusServiceUnavailable {
		t.Errorf("status %d: %s", a.status, a.raw)
	}
	f.faults.SetDown(false)
	f.assertRevoked(t, g, false)
	f.delete(t, m.id, m.bearer())
	f.assertRevoked(t, g, true)
	if len(told) != 1 || told[0] != m.id {
		t.Errorf("told are the ends of %q", told)
	}
}

// TestManagingRefusesUniformly: for each method, every wrong client or token gets the same
// answer, nothing is written, and the body is not read.
func TestManagingRefusesUniformly(t *testing.T) {
	f := newFixture(t, nil)
	m, other, gone, off := f.register(t, ""), f.register(t, ""), f.register(t, ""), f.register(t, "")
	f.delete(t, gone.id, gone.bearer())
	if err := dcr.Disable(context.Background(), f.store, off.id); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(time.Second)
	f.backend.writes.Store(0)
	first := f.get(t, m.id, "Bearer")
	for _, tt := range []struct{ name, id, authorization string }{
		{"no token", m.id, ""}, {"another client's token", m.id, other.bearer()}, {"cut off", m.id, m.bearer()[:20]},
		{"the secret", m.id, "Bearer " + m.secret}, {"an unknown client", strings.Repeat("A", 22), m.bearer()},
		{"a removed client", gone.id, gone.bearer()}, {"a disabled client", off.id, off.bearer()}, {"no client", "", m.bearer()}, {"an odd id", "a%3Ab", m.bearer()},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			for _, body := range []string{"", "not JSON", m.update("")} {
				w := httptest.NewRecorder()
				f.Configuration().ServeHTTP(w, f.request(method, tt.id, body, tt.authorization))
				if w.Code != http.StatusUnauthorized || w.Body.String() != first.raw || fmt.Sprint(w.Header()) != fmt.Sprint(first.header) {
					t.Errorf("%s, %s: status %d %s %v", tt.name, method, w.Code, w.Body, w.Header())
				}
			}
		}
	}
	if n := f.backend.writes.Load(); n != 0 {
		t.Errorf("%d writes", n)
	}
	f.assertResolves(t, m.id, 1)
}
