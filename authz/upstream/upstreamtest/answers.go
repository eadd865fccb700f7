package upstreamtest

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// handler is the provider.
func (p *Provider) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.metadata)
	mux.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration", p.metadata)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("GET /login/oauth/authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /login/oauth/access_token", p.token)
	mux.HandleFunc("GET /userinfo", p.userinfo)
	mux.HandleFunc("GET /jwks", p.jwks)
	mux.HandleFunc("GET /api/v3/user", p.github(func(at Person) any {
		number, _ := strconv.ParseInt(at.Subject, 10, 64)
		return map[string]any{"id": number, "login": at.GitHub.Login, "name": at.GitHub.Name}
	}))
	mux.HandleFunc("GET /api/v3/user/emails", p.github(emails))
	mux.HandleFunc("GET /api/v3/user/orgs", p.github(organisations))
	mux.HandleFunc("GET /api/v3/user/teams", p.github(teams))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.requests[r.URL.Path]++
		first := p.answers.First
		p.mu.Unlock()
		if first == nil || !first(w, r) {
			mux.ServeHTTP(w, r)
		}
	})
}

func (p *Provider) metadata(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	issuer := p.URL()
	switch tenant := r.PathValue("tenant"); tenant {
	case "":
	case "organizations", "common":
		issuer += "/{tenantid}/v2.0"
	default:
		issuer += "/" + tenant + "/v2.0"
	}
	query := ""
	if tenant := r.PathValue("tenant"); tenant != "" {
		query = "?tenant=" + url.QueryEscape(tenant)
	}
	answer := map[string]any{
		"issuer": issuer, "authorization_endpoint": p.URL() + "/authorize" + query, "token_endpoint": p.URL() + "/token",
		"userinfo_endpoint": p.URL() + "/userinfo", "jwks_uri": p.URL() + "/jwks", "response_types_supported": []string{"code"},
		"scopes_supported":                      []string{"openid", "profile", "email", "offline_access"},
		"grant_types_supported":                 []string{"authorization_code", "refresh_token"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post", "private_key_jwt"},
		"id_token_signing_alg_values_supported": []string{"ES256"}, "subject_types_supported": []string{"public"},
		"code_challenge_methods_supported": []string{"S256"}, "backchannel_logout_supported": true,
		"authorization_response_iss_parameter_supported": query == "",
	}
	changed(p.answers.Metadata, answer)
	write(w, http.StatusOK, answer)
}

// authorize sends the browser back at once, with a code for the person who is there.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "this is no request of the client", http.StatusBadRequest)
		return
	}
	s := signIn{
		person: p.person, nonce: q.Get("nonce"), challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"),
		scope: q.Get("scope"), issuer: p.URL(), at: p.now(),
	}
	back := url.Values{"code": {rand.Text()}, "state": {q.Get("state")}}
	switch tenant := q.Get("tenant"); {
	case tenant != "":
		claims := map[string]any{"tid": Tenant}
		maps.Copy(claims, s.person.Claims)
		s.person.Claims = claims
		s.issuer += "/" + s.person.Claims["tid"].(string) + "/v2.0"
	case !strings.HasPrefix(r.URL.Path, "/login/oauth/"):
		back.Set("iss", p.URL())
	}
	p.codes[back.Get("code")] = s
	if p.answers.Callback != nil {
		p.answers.Callback(back)
	}
	http.Redirect(w, r, s.redirect+"?"+back.Encode(), http.StatusFound)
}

func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.bearer(r)
	if !ok {
		fail(w, http.StatusUnauthorized, "invalid_token")
		return
	}
	answer := map[string]any{"sub": s.person.Subject}
	maps.Copy(answer, s.person.Claims)
	changed(p.answers.Userinfo, answer)
	write(w, http.StatusOK, answer)
}

func (p *Provider) bearer(r *http.Request) (signIn, bool) {
	s, ok := p.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	return s, ok
}

func (p *Provider) jwks(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	write(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: p.key.Public(), KeyID: p.kid, Algorithm: string(jose.ES256), Use: "sig"},
	}})
}

// github answers a path of GitHub's API.
func (p *Provider) github(answer func(Person) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		s, ok := p.bearer(r)
		if !ok {
			write(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
			return
		}
		if needed := map[string]string{"/api/v3/user/orgs": "read:org", "/api/v3/user/teams": "read:org"}[r.URL.Path]; !strings.Contains(s.scope, needed) {
			write(w, http.StatusForbidden, map[string]any{"message": "a scope is missing"})
			return
		}
		write(w, http.StatusOK, answer(s.person))
	}
}

func emails(at Person) any {
	list := []map[string]any{}
	for i, mail := range at.GitHub.Emails {
		list = append(list, map[string]any{"email": mail, "verified": true, "primary": i == 0})
	}
	return list
}

func organisations(at Person) any {
	list := []map[string]any{}
	for _, login := range at.GitHub.Organisations {
		list = append(list, map[string]any{"login": login})
	}
	return list
}

func teams(at Person) any {
	list := []map[string]any{}
	for _, team := range at.GitHub.Teams {
		org, slug, _ := strings.Cut(team, "/")
		list = append(list, map[string]any{"slug": slug, "organization": map[string]any{"login": org}})
	}
	return list
}
