package authz_test

import (
	"net/http"
	"testing"

	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

// TestRemovedClientIsToldAtOnce: a client that was removed or disabled is told so at once with a refresh
// token or a code of its own, although the process remembers the client. One whose grant alone has ended
// is not.
func TestRemovedClientIsToldAtOnce(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		end    func(h *harness, c testClient, g storage.Grant)
		status int
		code   string
	}{
		"removed": {func(h *harness, c testClient, _ storage.Grant) {
			h.must(admin.RemoveClient(t.Context(), h.store, c.ID))
		}, http.StatusUnauthorized, "invalid_client"},
		"disabled": {func(h *harness, c testClient, _ storage.Grant) {
			h.must(admin.DisableClient(t.Context(), h.store, c.ID))
		}, http.StatusUnauthorized, "invalid_client"},
		"the grant alone": {func(h *harness, _ testClient, g storage.Grant) { h.must(h.store.Revoke(t.Context(), g.ID, "test")) }, http.StatusBadRequest, "invalid_grant"},
	} {
		h, c := newHarness(t, setup{}), testClients()["native"]
		held := h.tokens(c)
		g := h.grantOfToken(held.refresh)
		code := h.newBrowser().code(asks(c))
		id, _ := storage.CodeGrant(code)
		h.toToken(c, redemption(c, "none")) // so that the process remembers the client
		tt.end(h, c, g)
		if what == "the grant alone" {
			h.must(h.store.Revoke(t.Context(), id, "test"))
		}
		mustRefuse(t, h.toToken(c, refreshing(c, held.refresh)), tt.status, tt.code)
		mustRefuse(t, h.toToken(c, redemption(c, code)), tt.status, tt.code)
	}
}
