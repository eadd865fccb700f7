package doctor

import (
	"context"
	"net/http"
	"net/url"
	"slices"
)

// leave revokes the grant and removes the registration, also after a failure and at the end of the
// time; what stays is told.
func (w *walker) leave(parent context.Context) {
	if w.back != nil {
		defer w.back.close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), MaxTime)
	defer cancel()
	const requests = 4
	w.courier.most = max(w.courier.most, w.courier.requests+requests)
	w.courier.bytes = min(w.courier.bytes, MaxBytes-requests*MaxBody)
	w.revoke(ctx)
	w.unregister(ctx)
}

// leftBehind notes what stays at a server, and why; once, also when it happened twice.
func (w *walker) leftBehind(what, why string) {
	line := clean(w.hide.redact(what)) + ": " + clean(why)
	if !slices.Contains(w.left, line) {
		w.left = append(w.left, line)
	}
}

// revoke ends the grant (RFC 7009).
func (w *walker) revoke(ctx context.Context) {
	s := w.signIn
	if s.first == nil || !s.first.ok {
		return
	}
	at := w.endpoint(s.document, "revocation_endpoint")
	if at == "" || !private(at) {
		w.leftBehind("tokens of the client "+s.client.id, "the authorization server has no revocation_endpoint")
		return
	}
	last, kind := s.last()
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	form := w.authenticate(header, url.Values{"token": {last}, "token_type_hint": {kind}})
	if e := w.ask(ctx, question{"sign-in.revoke", http.MethodPost, at, header, form.Encode()}); !e.ok() {
		w.leftBehind("tokens of the client "+s.client.id, e.String())
		return
	}
	if !w.alone {
		w.present(ctx, "use.revoked", s.newest())
	}
}

// last returns the token whose end is the end of the grant.
func (s *signIn) last() (token, kind string) {
	token, kind = s.first.access, "access_token"
	for _, t := range s.issued {
		if t.refresh != "" {
			token, kind = t.refresh, "refresh_token"
		}
	}
	return token, kind
}

// newest returns the youngest access token for the target.
func (s *signIn) newest() string {
	if s.renewed != nil && s.renewed.ok {
		return s.renewed.access
	}
	return s.first.access
}

// unregister removes the registration (RFC 7592 section 2.3).
func (w *walker) unregister(ctx context.Context) {
	c := w.signIn.client
	if e := w.call("sign-in.register"); e != nil && c.id == "" && e.uncertain("") != "" {
		w.leftBehind("a client with the name authz doctor may have been registered at "+w.signIn.issuer, e.uncertain(""))
	}
	if c.id == "" || w.options.ClientID != "" {
		return
	}
	what := "the registration of the client " + c.id + " at " + w.signIn.issuer
	if c.uri == "" {
		w.leftBehind(what, "the answer names nothing with which it can be removed")
		return
	}
	e := w.ask(ctx, question{"sign-in.unregister", http.MethodDelete, c.uri, bearing(c.token), ""})
	if e.code()/100 != 2 {
		w.leftBehind(what, e.String())
	}
}
