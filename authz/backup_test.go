package authz_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
	"gatehouse.example/storage/file"
)

// onFile goes on with the store in a file, as a new process would.
func (h *harness) onFile(path string) *file.Backend {
	h.t.Helper()
	b, err := file.Open(file.Options{Path: path, Create: true, Restore: true, Now: h.clock.Now})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = b.Close() })
	h.store, err = storage.New(b, storage.Options{Issuer: h.issuer, MasterKeys: [][]byte{masterKey}, Now: h.clock.Now, WriteTime: time.Minute})
	if err != nil {
		h.t.Fatal(err)
	}
	h.cfg.Store = h.store
	h.restart()
	return b
}

// onBackup backs the store up, lets things happen, and goes on from the backup.
func (h *harness) onBackup(b *file.Backend, happens func()) {
	h.t.Helper()
	path := filepath.Join(h.t.TempDir(), "backup.db")
	if _, err := file.Backup(h.t.Context(), path, b, nil); err != nil {
		h.t.Fatal(err)
	}
	happens()
	if err := b.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.onFile(path)
}

// TestOpenedBackup: in a server that goes on from a backup no code gives tokens, nobody is signed in,
// and clients go on: with the refresh token of the backup, and with one that many rotations since
// then led to. What was revoked since then is not, until the operator revokes everything.
func TestOpenedBackup(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.onFile(filepath.Join(t.TempDir(), "gatehouse.db"))
	h.addFixtures()
	person := h.newBrowser()
	spent, pending := person.code(asks(c)), person.code(asks(c))
	still, rotated, revoked := person.tokens(c, asks(c)).refresh, person.tokens(c, asks(c)).refresh, person.tokens(c, asks(c)).refresh
	if !person.signedIn() {
		t.Fatal("the person is not signed in")
	}
	first := rotated
	h.onBackup(b, func() {
		if r := h.toToken(c, redemption(c, spent)); r.status != http.StatusOK {
			t.Fatal(r)
		}
		for range 20 {
			h.clock.advance(time.Second)
			rotated = h.refreshed(c, rotated).member(t, "refresh_token")
		}
		if _, _, err := admin.RevokeGrant(t.Context(), h.store, h.grantOfToken(revoked).ID); err != nil {
			t.Fatal(err)
		}
	})
	for _, code := range []string{spent, pending} {
		mustRefuse(t, h.toToken(c, redemption(c, code)), http.StatusBadRequest, "invalid_grant")
	}
	if person.signedIn() {
		t.Error("the person is signed in")
	}
	for _, token := range []string{still, revoked} {
		h.refreshed(c, token)
	}
	answer := h.refreshed(c, rotated)
	id := h.grantOfToken(rotated).ID
	if g := h.grantOfToken(rotated); g.Generation != 21 || h.logged(restored, id) != 1 || h.logged(alarm, id) != 0 {
		t.Errorf("the grant has generation %d\n%s", g.Generation, h.log)
	}
	h.clock.advance(31 * time.Second)
	mustRefuse(t, h.toToken(c, refreshing(c, first)), http.StatusBadRequest, "invalid_grant")
	if h.active(answer.member(t, "access_token")) || h.logged("an old refresh token was used again", id) != 1 {
		t.Error("reuse does not end the family")
	}
	if again := h.newBrowser().tokens(c, asks(c)); !h.active(again.access) {
		t.Error("nobody can sign in any more")
	}
	for _, err := range admin.RevokeGrants(t.Context(), h.store, admin.GrantFilter{}) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, token := range []string{still, revoked} {
		mustRefuse(t, h.toToken(c, refreshing(c, token)), http.StatusBadRequest, "invalid_grant")
	}
}

// TestOpenedBackupExplains: a backup explains no more rotations than seconds since the last one on
// record, so a state that it does not explain ends the family.
func TestOpenedBackupExplains(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.onFile(filepath.Join(t.TempDir(), "gatehouse.db"))
	h.addFixtures()
	token := h.newBrowser().tokens(c, asks(c)).refresh
	h.onBackup(b, func() {
		for range 9 {
			token = h.refreshed(c, token).member(t, "refresh_token")
		}
	})
	mustRefuse(t, h.toToken(c, refreshing(c, token)), http.StatusBadRequest, "invalid_grant")
	if id := h.grantOfToken(token).ID; h.logged(alarm, id) != 1 || h.grantOfToken(token).State != storage.GrantRevoked {
		t.Errorf("the family goes on:\n%s", h.log)
	}
}

// TestSignInGoesOnAfterBackup: of a request for which the person was signing in when the server went
// on from a backup, only the sign-in is lost.
func TestSignInGoesOnAfterBackup(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.onFile(filepath.Join(t.TempDir(), "gatehouse.db"))
	h.addFixtures()
	person := h.newBrowser()
	person.consentPage(c)
	page := person.page
	h.onBackup(b, func() {
		if r := person.submit("decision", "allow"); r.location(t).Query().Get("code") == "" {
			t.Fatal(r)
		}
	})
	person.page = page
	if r := person.submit("decision", "allow"); r.status == http.StatusSeeOther && r.location(t).Query().Get("code") != "" {
		t.Errorf("the decision of before the backup was opened gives a code without a sign-in: %s", r)
	}
}
