package doctor

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
)

// ownWeb is the redirect URI with https of the doctor's own client. Nobody answers there.
const ownWeb = "https://doctor.example.com/callback/end"

// known is a client that an authorization server knows.
type known struct {
	id       string
	loopback string // a redirect URI of it on loopback, "" for none
	web      string // one with https, "" for none
}

// harness asks an authorization server that is examined alone for what implementers test: what
// matters most comes first, and what there is no room for is listed.
func (w *walker) harness(ctx context.Context, s *server) {
	d := s.metadata()
	w.fromPages(ctx, s, d)
	own := w.meet(ctx, s, d)
	if s.known.id != "" {
		w.tryAuthorization(ctx, s, d)
		w.signInPage(ctx, s)
		w.vary(ctx, s, d)
	}
	if own != nil {
		w.remove(ctx, s, own)
	}
	if w.options.Register {
		w.registerWrong(ctx, s, d)
	}
	w.documents(ctx, s, d)
	if w.options.Register {
		w.registerRecorded(ctx, s, d)
	}
}

// room reports whether there is room for a question of the harness. If not, the report lists it.
func (w *walker) room(ctx context.Context, what string) bool {
	if w.alone && w.courier.spent(ctx) != "" {
		w.unasked = append(w.unasked, what)
		return false
	}
	return true
}

// meet finds a client that the server knows: the one that was given, else one that is registered, whose
// registration is returned. A server that refuses a redirect URI with https for an application of the
// desktop is asked again without it.
func (w *walker) meet(ctx context.Context, s *server, d *document) *registration {
	if id := w.options.ClientID; id != "" {
		s.known = knownBy(id, w.options.RedirectURI)
		return nil
	}
	at := w.endpoint(d, "registration_endpoint")
	if !w.options.Register || at == "" {
		return nil
	}
	var own *registration
	for _, redirects := range [][]string{{ownRedirect, ownWeb}, {ownRedirect}} {
		own = w.registered(ctx, s, at, "", ownBody(redirects))
		if id := own.answer.text("client_id"); id != "" {
			s.known = known{id: id, loopback: ownRedirect}
			if len(redirects) > 1 {
				s.known.web = ownWeb
			}
			return own
		}
	}
	return own
}

// ownBody is the registration of the doctor's own client.
func ownBody(redirects []string) map[string]any {
	return map[string]any{
		"redirect_uris": redirects, "client_name": "authz doctor", "application_type": "native", "token_endpoint_auth_method": "none",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	}
}

// knownBy is a client that somebody registered.
func knownBy(id, redirect string) known {
	redirect = cmp.Or(redirect, ownRedirect)
	if u, err := url.Parse(redirect); err == nil && loopback(u.Hostname()) {
		return known{id: id, loopback: redirect}
	}
	return known{id: id, web: redirect}
}

// try sends an authorization request of the known client that differs in some parameters; nil leaves
// one out.
func (w *walker) try(ctx context.Context, s *server, d *document, name, what string, change url.Values) {
	at := w.endpoint(d, "authorization_endpoint")
	if at == "" || !w.room(ctx, "an authorization request "+what) {
		return
	}
	v := w.authorization(s.known.id, cmp.Or(s.known.loopback, s.known.web))
	if known, _ := d.list("scopes_supported"); w.alone && slices.Contains(known, "openid") {
		v.Set("scope", "openid") // many providers do not go on without it
	}
	for key, values := range change {
		if v[key] = values; values == nil {
			v.Del(key)
		}
	}
	s.calls = append(s.calls, w.ask(ctx, question{"try." + name, http.MethodGet, withQuery(at, v), http.Header{"Accept": {"text/html"}}, ""}))
}

// registerRecorded registers the recorded clients. Those with a metadata document do not register
// where documents are supported.
func (w *walker) registerRecorded(ctx context.Context, s *server, d *document) {
	at := w.endpoint(d, "registration_endpoint")
	if at == "" {
		return
	}
	for _, p := range profiles {
		if p.document != "" && d.yes("client_id_metadata_document_supported") {
			continue
		}
		if w.full(ctx) != "" {
			w.unasked = append(w.unasked, "the registration of "+p.name)
			continue
		}
		r := w.registered(ctx, s, at, p.name, w.recordedBody(p.name, d))
		s.clients = append(s.clients, r)
		w.remove(ctx, s, r)
	}
}
