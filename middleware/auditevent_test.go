package middleware_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/audit"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestAuditEvents: each decision is recorded once, with the token's grant, client and id where
// there is one, and without what the sender chose where there is none.
func TestAuditEvents(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var events []audit.Event
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Policy = notesPolicy()
		c.Audit = func(e audit.Event) { events = append(events, e) }
	})
	withGrant := func(gid any) *http.Request {
		r := post(issuer, "notes:write", callTool("list_notes"))
		r.Header.Set("Authorization", "Bearer "+issuer.Mint(claims{"aud": resource, "scope": "notes:write", "gid": gid}))
		return r
	}
	for _, tt := range []struct {
		name  string
		r     *http.Request
		kind  audit.Kind
		code  audit.Code
		tool  audit.Name
		grant audit.Grant
	}{
		{"let through", withGrant("the grant"), audit.Operation, "", "list_notes", "the grant"},
		{"another kind of grant", withGrant(7), audit.Operation, "", "list_notes", ""},
		{"no grant", post(issuer, "notes:write", callTool("list_notes")), audit.Operation, "", "list_notes", ""},
		{"too little", post(issuer, "notes:read", callTool("add_note")), audit.OperationRefused, "insufficient_scope", "add_note", ""},
		{"no token", post(issuer, "anonymous", callTool("invented")), audit.OperationRefused, "no_token", "", ""},
		{"bad token", withToken("x.y.z"), audit.OperationRefused, "bad_token", "", ""},
	} {
		events = nil
		serve(guard.Protect(&inner{}), tt.r)
		if len(events) != 1 {
			t.Fatalf("%s: %d events", tt.name, len(events))
		}
		e := events[0]
		if e.Kind != tt.kind || e.Code != tt.code || e.Name != tt.tool || e.Grant != tt.grant || e.Network.String() != "192.0.2.1/32" || e.Request == "" || len(e.Resources) != 1 {
			t.Errorf("%s: %+v", tt.name, e)
		}
		if known := e.Token != "" && e.Client != "" && e.Person == "reader" && string(e.Issuer) == issuer.URL(); known != (tt.tool != "") {
			t.Errorf("%s: %+v", tt.name, e)
		}
		text, err := json.Marshal(e)
		secret := strings.TrimPrefix(tt.r.Header.Get("Authorization"), "Bearer ")
		if err != nil || secret != "" && strings.Contains(string(text), secret) {
			t.Errorf("%s: the event has the token: %s, %v", tt.name, text, err)
		}
	}
}
