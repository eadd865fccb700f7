package authz_test

import (
	"net/http"
	"net/url"
	"testing"

	"gatehouse.example/storage"
)

// twoTokens is a grant for notes, tasks and files, with a token for each of the first two.
type twoTokens struct {
	heldGrant
	code, ofNotes, ofTasks string
}

func (h *harness) twoTokens(c testClient) *twoTokens {
	h.t.Helper()
	code := h.newBrowser().code(asksFor(c, "", notes, tasks))
	answer := h.toToken(c, naming(redemption(c, code), notes))
	held := heldGrant{h: h, c: c, refresh: answer.member(h.t, "refresh_token")}
	return &twoTokens{code: code, ofNotes: answer.member(h.t, "access_token"), ofTasks: held.token(tasks).member(h.t, "access_token"), heldGrant: held}
}

// revoke sends a token to /revoke as its client.
func (h *harness) revoke(c testClient, token string) reply {
	h.t.Helper()
	return h.as(c, "/revoke", identified(c, form("token", token)))
}

// alive reports at which resources the tokens of a grant are active.
func (w *twoTokens) alive() (atNotes, atTasks bool) {
	w.h.t.Helper()
	return w.h.active(w.ofNotes), w.h.introspectAs("tasks", tasksSecret, w.ofTasks).json(w.h.t)["active"] == true
}

func (w *twoTokens) mustBeAlive(what string, atNotes, atTasks bool) {
	w.h.t.Helper()
	if n, s := w.alive(); n != atNotes || s != atTasks {
		w.h.t.Errorf("%s: alive at notes %t, at tasks %t; want %t, %t", what, n, s, atNotes, atTasks)
	}
}

// TestWhoEndsWhat: an access token with the id of a public client ends its own resource,
// and the grant if that was the last one. A refresh token, or an authenticated client, ends
// the family.
func TestWhoEndsWhat(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: sharing})
	native, basic, post := testClients()["native"], testClients()["basic"], testClients()["post"]
	for name, tt := range map[string]struct {
		c     testClient
		token func(w *twoTokens) string
		notes bool // active afterwards
		tasks bool
	}{
		"public, a token for notes":   {native, func(w *twoTokens) string { return w.ofNotes }, false, true},
		"public, a token for tasks":   {native, func(w *twoTokens) string { return w.ofTasks }, true, false},
		"public, the refresh token":   {native, func(w *twoTokens) string { return w.refresh }, false, false},
		"basic, a token for notes":    {basic, func(w *twoTokens) string { return w.ofNotes }, false, false},
		"post, a token for tasks":     {post, func(w *twoTokens) string { return w.ofTasks }, false, false},
		"basic, the refresh token":    {basic, func(w *twoTokens) string { return w.refresh }, false, false},
		"public, a token for nothing": {native, func(w *twoTokens) string { return w.ofNotes + "A" }, true, true},
	} {
		w := h.twoTokens(tt.c)
		for range 2 {
			if r := h.revoke(tt.c, tt.token(w)); r.status != http.StatusOK {
				t.Errorf("%s: %s", name, r)
			}
			w.mustBeAlive(name, tt.notes, tt.tasks)
		}
		switch {
		case !tt.notes && !tt.tasks:
			mustRefuse(t, w.token(tasks), http.StatusBadRequest, "invalid_grant")
		case tt.notes != tt.tasks:
			gone, left := notes, tasks
			if tt.notes {
				gone, left = tasks, notes
			}
			w.mustHold(gone, nil)
			mustRefuse(t, w.token(gone, left), http.StatusBadRequest, "invalid_target")
			if r := w.token(left); r.status != http.StatusOK {
				t.Errorf("%s: the other resource: %s", name, r)
			}
		}
	}
	w := h.twoTokens(native)
	both := w.token(notes, tasks).member(t, "access_token")
	mustRefuse(t, h.revoke(native, both), http.StatusBadRequest, "invalid_request")
	w.mustBeAlive("a token for both", true, true)
	mustRefuse(t, h.revoke(testClients()["other"], w.ofNotes), http.StatusBadRequest, "invalid_grant")
	w.mustBeAlive("another client", true, true)
	h.revoke(native, w.ofNotes)
	h.revoke(native, w.ofTasks)
	mustRefuse(t, w.token(tasks), http.StatusBadRequest, "invalid_grant")
	if g := h.grantOfToken(w.refresh); g.State != storage.GrantRevoked {
		t.Errorf("after its last resource the grant is %s", g.State)
	}
}

// TestEmptyPasswordIsNoProof: a public client that sends HTTP Basic with an empty password
// is not authenticated.
func TestEmptyPasswordIsNoProof(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	w := h.twoTokens(c)
	r := h.newRequest(http.MethodPost, h.issuer+"/revoke", form("token", w.ofNotes))
	r.SetBasicAuth(url.QueryEscape(c.ID), "")
	if answer := h.send(r); answer.status != http.StatusOK {
		t.Fatalf("revoke: %s", answer)
	}
	w.mustBeAlive("an empty password", false, true)
}

// TestAgainstRefresh: the end of a resource and a rotation compete for one record. Each is
// made to happen between the other's read and write, and neither undoes the other.
func TestAgainstRefresh(t *testing.T) {
	t.Parallel()
	c := testClients()["native"]
	between := func(h *harness, f func()) { h.meter.once(&h.meter.before, "put", "grant", f) }
	t.Run("ended during the refresh of the other", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, setup{config: sharing})
		w := h.twoTokens(c)
		between(h, func() { h.revoke(c, w.ofNotes) })
		if r := w.token(tasks); audience(t, r) != tasks {
			t.Errorf("the other resource is not affected: %s", r)
		}
		w.mustBeAlive("afterwards", false, true)
		w.mustHold(notes, nil)
	})
	t.Run("ended during its own refresh", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, setup{config: sharing})
		w := h.twoTokens(c)
		between(h, func() { h.revoke(c, w.ofNotes) })
		mustRefuse(t, w.token(notes), http.StatusBadRequest, "invalid_target")
		w.mustHold(tasks, []string{"tasks:read", "tasks:write", "profile"}) // with the token that was not spent
	})
	t.Run("refreshed during the end", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, setup{config: sharing})
		w := h.twoTokens(c)
		between(h, func() { w.token(tasks) })
		if r := h.revoke(c, w.ofNotes); r.status != http.StatusOK {
			t.Fatalf("revoke: %s", r)
		}
		w.mustBeAlive("afterwards", false, true)
		w.mustHold(notes, nil)
		w.mustHold(tasks, []string{"tasks:read", "tasks:write", "profile"})
	})
	t.Run("revoked during the end", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, setup{config: sharing})
		w := h.twoTokens(c)
		between(h, func() { h.revoke(c, w.refresh) })
		if r := h.revoke(c, w.ofNotes); r.status != http.StatusOK {
			t.Fatalf("revoke: %s", r)
		}
		w.mustBeAlive("afterwards", false, false)
		mustRefuse(t, w.token(tasks), http.StatusBadRequest, "invalid_grant")
	})
	t.Run("the other one ended during the end", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, setup{config: sharing})
		w := h.twoTokens(c)
		between(h, func() { h.revoke(c, w.ofTasks) })
		if r := h.revoke(c, w.ofNotes); r.status != http.StatusOK {
			t.Fatalf("revoke: %s", r)
		}
		if g := h.grantOfToken(w.refresh); g.State != storage.GrantRevoked {
			t.Errorf("without resources the grant is %s", g.State)
		}
	})
}

// TestTogether: concurrent requests end one resource and refresh the other, and all have
// read the same record before the first of them writes. Every request succeeds, the first
// resource is ended and the other is not.
func TestTogether(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	w := h.twoTokens(c)
	h.meter.holdGrantReads(crowd)
	replies := together(func(i int) reply {
		if i%2 == 0 {
			return h.revoke(c, w.ofNotes)
		}
		return h.toToken(c, naming(refreshing(c, w.refresh), tasks))
	})
	h.meter.after.Store(nil)
	successors := map[string]bool{}
	for i, r := range replies {
		if r.status != http.StatusOK {
			t.Errorf("one of %d: %s", len(replies), r)
			continue
		}
		if i%2 == 1 {
			w.refresh = r.member(t, "refresh_token")
			successors[w.refresh] = true
		}
	}
	if len(successors) != 1 {
		t.Errorf("%d successors of one refresh token", len(successors))
	}
	w.mustBeAlive("afterwards", false, true)
	w.mustHold(notes, nil)
	w.mustHold(tasks, []string{"tasks:read", "tasks:write", "profile"})
}

// TestUnconfirmed: if the end of a resource is not on record, the answer is 503 and the
// resource has not ended. If only the reply of the store was lost, it has ended once.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{config: sharing}), testClients()["native"]
	w := h.twoTokens(c)
	h.meter.once(&h.meter.after, "get", "grant", func() { h.faults.SetDown(true) })
	mustRefuse(t, h.revoke(c, w.ofNotes), http.StatusServiceUnavailable, "temporarily_unavailable")
	h.faults.SetDown(false)
	h.meter.after.Store(nil)
	w.mustBeAlive("503", true, true)
	h.faults.LoseReplies(1)
	if r := h.revoke(c, w.ofNotes); r.status != http.StatusOK {
		t.Errorf("a lost reply: %s", r)
	}
	w.mustBeAlive("a lost reply", false, true)
	// Where a copy could take over that has forgotten it, what is on record is confirmed, or not reported.
	h.faults.SetLineage("one")
	mustRefuse(t, h.unanswered("grant", func() reply { return h.revoke(c, w.ofNotes) }), http.StatusServiceUnavailable, "temporarily_unavailable")
}
