package doctor

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// recorded has what each client sends to register, as it was recorded from the product.
//
//go:embed clients/*.json
var recorded embed.FS

// registration is a client that was registered, or was refused.
type registration struct {
	client  string // one of Clients, or "" for the doctor's own
	sent    map[string]any
	answer  *document
	removed *exchange // nil if there was nothing to remove, or no way
}

// register registers the recorded clients and one of its own, with which it tries the
// authorization endpoint, and removes them again.
func (w *walker) register(ctx context.Context, s *server) {
	d := s.metadata()
	at := w.endpoint(d, "registration_endpoint")
	if at == "" {
		return
	}
	for _, name := range everyone {
		r := w.registered(ctx, s, at, name, w.recordedBody(name, d))
		s.clients = append(s.clients, r)
		w.remove(ctx, s, r)
	}
	s.hostile = w.registered(ctx, s, at, "", map[string]any{"redirect_uris": []string{"javascript:alert(1)//"}, "client_name": "authz doctor", "token_endpoint_auth_method": "none"})
	w.remove(ctx, s, s.hostile)
	own := w.registered(ctx, s, at, "", map[string]any{
		"redirect_uris": []string{ownRedirect}, "client_name": "authz doctor", "application_type": "native", "token_endpoint_auth_method": "none",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	})
	if id := own.answer.text("client_id"); id != "" {
		w.tryAuthorization(ctx, s, d, id)
	}
	w.remove(ctx, s, own)
}

// recordedBody returns what a client sends, with the scopes of this server.
func (w *walker) recordedBody(name string, d *document) map[string]any {
	raw, err := recorded.ReadFile("clients/" + name + ".json")
	if err != nil {
		panic(err)
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		panic(err)
	}
	delete(body, "resource")
	scope, _ := body["scope"].(string)
	delete(body, "scope")
	scopes := strings.Fields(w.scopes())
	if list, _ := d.list("scopes_supported"); strings.Contains(scope, "offline_access") && slices.Contains(list, "offline_access") {
		scopes = append(scopes, "offline_access")
	}
	if scope != "" && len(scopes) > 0 {
		body["scope"] = strings.Join(scopes, " ")
	}
	return body
}

// registered sends a registration request (RFC 7591 section 3.1), if there is room to remove the
// client again.
func (w *walker) registered(ctx context.Context, s *server, at, name string, body map[string]any) *registration {
	q := question{"register", http.MethodPost, at, http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Origin": {browserOrigin},
	}, string(marshal(body))}
	if why := w.full(ctx); why != "" {
		e := &exchange{place: q.place, method: q.method, url: q.url, failure: failBudget, reason: why, asked: w.options.Now()}
		w.exchanges = append(w.exchanges, e)
		return &registration{client: name, sent: body, answer: newDocumentOf(e)}
	}
	w.courier.reserved++
	r := &registration{client: name, sent: body, answer: newDocumentOf(w.ask(ctx, q))}
	if why := r.answer.exchange.uncertain(r.answer.text("client_id")); why != "" {
		w.left = append(w.left, fmt.Sprintf("a client with the name %s may have been registered at %s: %s", clean(fmt.Sprint(body["client_name"])), clean(s.issuer), why))
	}
	return r
}

// remove deletes a client (RFC 7592 section 2.3), or notes that it was left behind. What was reserved
// for that is used, or given back.
func (w *walker) remove(ctx context.Context, s *server, r *registration) {
	w.courier.reserved = 0
	id := r.answer.text("client_id")
	if r.answer.code()/100 != 2 || id == "" {
		return
	}
	at := r.answer.text("registration_client_uri")
	if u, err := url.Parse(at); err == nil && u.Host != "" && sameOrigin(at, r.answer.url) {
		r.removed = w.removal(ctx, question{"remove", http.MethodDelete, at, http.Header{
			"Authorization": {"Bearer " + r.answer.text("registration_access_token")},
		}, ""})
	}
	if r.removed.code()/100 != 2 {
		w.left = append(w.left, "client "+clean(id)+" at "+clean(s.issuer))
	}
}

// ownRedirect is the redirect URI of the doctor's own client.
const ownRedirect = "http://127.0.0.1:33418/callback"

// tryAuthorization sends authorization requests of the doctor's own client, without a person.
func (w *walker) tryAuthorization(ctx context.Context, s *server, d *document, client string) {
	at := w.endpoint(d, "authorization_endpoint")
	if at == "" {
		return
	}
	try := func(name string, change url.Values) {
		v := w.authorization(client, ownRedirect)
		maps.Copy(v, change)
		for key, values := range change {
			if values == nil {
				v.Del(key)
			}
		}
		s.calls = append(s.calls, w.ask(ctx, question{"try." + name, http.MethodGet, withQuery(at, v), http.Header{"Accept": {"text/html"}}, ""}))
	}
	try("valid", nil)
	try("port", url.Values{"redirect_uri": {"http://127.0.0.1:45123/callback"}})
	try("path", url.Values{"redirect_uri": {"http://127.0.0.1:33418/callback/other"}})
	try("without-state", url.Values{"state": nil})
	try("without-pkce", url.Values{"code_challenge": nil, "code_challenge_method": nil})
	try("token", url.Values{"response_type": {"token"}})
}
