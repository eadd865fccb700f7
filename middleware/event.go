package middleware

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"
)

// Event is one decision of a guard about a request.
type Event struct {
	// Status is the HTTP status of the refusal, and 0 for a request that was allowed.
	Status int
	// Code is the error code of the refusal, such as "insufficient_scope". It may be empty.
	Code string
	// Reason is why, from a closed list.
	Reason Reason
	// Took is how long the guard took, with the time in which the message arrived and the issuer
	// was asked. It is zero without [Config.Observe], and for decisions of RequireScope.
	Took time.Duration
	// Err is the reason of the refusal, with internal details. It is not for clients.
	Err error
	// Operation describes the message, if the policy needed it.
	Operation Operation
	// Route is the pattern of [Policy.Routes] that applies, as the policy writes it.
	Route string
	// Needed are the scopes that the operation needs.
	Needed []string
	// Token is the verified token, nil without a valid one. It is shared: do not change it.
	Token *Token
	// Remote is the address of the client, from X-Forwarded-For behind a trusted proxy. It may
	// be invalid.
	Remote netip.Addr

	began time.Time // zero if nobody asks
}

// LogValue returns the event as a group of attributes, without secrets.
func (e Event) LogValue() slog.Value {
	attributes := []slog.Attr{slog.Int("status", e.Status)}
	add := func(name, value string) {
		if value != "" {
			attributes = append(attributes, slog.String(name, value))
		}
	}
	add("code", e.Code)
	add("method", e.Operation.Method)
	add("name", e.Operation.Name)
	add("route", e.Route)
	if len(e.Needed) > 0 {
		attributes = append(attributes, slog.Any("needed", e.Needed))
	}
	if t := e.Token; t != nil {
		add("subject", t.Principal())
		add("client", t.ClientID)
		add("token", t.ID)
	}
	if e.Remote.IsValid() {
		add("remote", e.Remote.String())
	}
	if e.Err != nil {
		add("reason", e.Err.Error())
	}
	return slog.GroupValue(attributes...)
}

// begins returns the time at which a decision begins, zero if nobody asks how long it takes.
func (g *Guard) begins() time.Time {
	if g.watch == nil {
		return time.Time{}
	}
	return time.Now()
}

// observe calls Config.Observe and Config.Audit, and logs the event.
func (g *Guard) observe(r *http.Request, e Event) {
	if g.watch == nil && g.audit == nil && !g.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	e.Remote = g.proxies.client(r)
	if e.Reason == "" {
		e.Reason = ReasonAllowed
	}
	if g.watch != nil {
		if !e.began.IsZero() {
			e.Took = time.Since(e.began)
		}
		g.watch(r, e)
	}
	if g.audit != nil {
		g.audit(AuditEvent(r, g.resource, e))
	}
	g.log.LogAttrs(r.Context(), slog.LevelDebug, "request decided", slog.Any("decision", e))
}
