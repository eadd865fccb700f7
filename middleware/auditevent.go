package middleware

import (
	"net/http"

	"gatehouse.example/audit"
)

// AuditEvent returns a decision of a guard for an audit trail. It has the subject, client, grant and
// id of the token, but not the token; what the sender of a request without a valid token chose is
// not in it. The grant is the claim "gid", which a Gatehouse server puts into its tokens. [Config.Audit] is
// called with it; use AuditEvent in [GuardsConfig.Observe] and in programs that have no guard.
func AuditEvent(r *http.Request, resource string, e Event) audit.Event {
	out := audit.Event{
		Kind: audit.Operation, By: audit.ByClient, Request: audit.RequestID(RequestID(r.Context())), Network: audit.NetworkOf(e.Remote),
		Route: audit.Name(e.Route),
	}
	if resource != "" {
		out.Resources = audit.Resources(resource)
	}
	if e.Status != 0 {
		out.Kind, out.Code = audit.OperationRefused, audit.Code(e.Reason)
	}
	if t := e.Token; t != nil {
		out.Person, out.Client, out.Token, out.Issuer = audit.Person(t.Subject), audit.Client(t.ClientID), audit.Token(t.ID), audit.Issuer(t.Issuer)
		out.Method, out.Name = audit.Name(e.Operation.Method), audit.Name(e.Operation.Name)
		out.Grant = t.grant()
	}
	return out
}

// grant returns the id of the grant that a token names, empty for none.
func (t *Token) grant() audit.Grant {
	var claims struct {
		Grant any `json:"gid"`
	}
	if t.Claims(&claims) != nil {
		return ""
	}
	id, _ := claims.Grant.(string)
	return audit.Grant(id)
}
