package doctor_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// looks are what each server or gateway is recognized by, with the issuer it has then.
var looks = map[string][]struct {
	issuer string
	change func(*stable)
}{
	"Keycloak":   {{"https://sso.example.org/realms/notes", nil}},
	"Auth0":      {{"https://tenant.eu.auth0.com", nil}},
	"Okta":       {{"https://org.okta.com/oauth2/default", nil}, {"https://org.oktapreview.com", nil}},
	"Entra ID":   {{"https://login.microsoftonline.com/tenant/v2.0", nil}},
	"Cognito":    {{"https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_pool", nil}},
	"authentik":  {{"https://sso.example.org/application/o/notes", nil}},
	"WorkOS":     {{"https://calm-sea.authkit.app", nil}},
	"ZITADEL":    {{"https://notes-abc.zitadel.cloud", nil}, {issuer, server("jwks_uri", issuer+"/oauth/v2/keys")}},
	"Ory Hydra":  {{"https://slug.projects.oryapis.com", nil}, {issuer, server("end_session_endpoint", issuer+"/oauth2/sessions/logout")}},
	"nginx":      {{issuer, banner("Server", "nginx/1.27.1")}},
	"Envoy":      {{issuer, banner("Server", "envoy")}},
	"Caddy":      {{issuer, banner("Server", "Caddy")}},
	"Cloudflare": {{issuer, banner("Server", "cloudflare")}},
	"Kong":       {{issuer, banner("Server", "kong/3.9.0")}, {issuer, banner("X-Kong-Response-Latency", "2")}},
}

// banner returns a change that adds a header to the answers of the protected server.
func banner(name, value string) func(*stable) {
	return func(s *stable) {
		s.open()
		inner := s.routes["POST "+notes]
		s.with("POST "+notes, func(w http.ResponseWriter, r *http.Request) {
			recorder := httptest.NewRecorder()
			inner(recorder, r)
			maps.Copy(w.Header(), recorder.Header())
			w.Header().Set(name, value)
			w.WriteHeader(recorder.Code)
			_, _ = w.Write(recorder.Body.Bytes())
		})
	}
}

// faults are servers with one fault, for the checks whose mend differs by server, where the zoo needs
// another issuer.
var faults = map[string]func(*stable){
	"no-way-in": func(s *stable) {
		delete(s.server, "registration_endpoint")
		delete(s.server, "client_id_metadata_document_supported")
	},
	"server-metadata-missing": func(s *stable) {
		origin, path := splitURL(s.issuer)
		for _, at := range []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path, s.issuer + "/.well-known/openid-configuration"} {
			s.with("GET "+at, http.NotFound)
		}
	},
	"issuer-slash":               func(s *stable) { s.server["issuer"] = s.issuer + "/" },
	"issuer-mismatch":            server("issuer", "https://internal.example.org"),
	"pkce-missing":               server("code_challenge_methods_supported", nil),
	"pkce-plain":                 server("code_challenge_methods_supported", []string{"S256", "plain"}),
	"challenge-missing":          func(s *stable) { s.challenge = "" },
	"challenge-without-metadata": func(s *stable) { s.challenge = "Bearer" },
	"token-other-audience": func(s *stable) {
		s.token = jwt(map[string]any{"iss": s.issuer, "aud": "notes", "exp": now.Unix() + 600})
	},
}

// TestMends: each server or gateway that is recognized is recognized by what it shows, and each finding
// has the sentence for it, and for no other.
func TestMends(t *testing.T) {
	for _, e := range doctor.Catalogue() {
		for product, sentence := range e.Mends {
			if looks[product] == nil {
				t.Errorf("%s has a sentence for %s, which nothing shows how to recognize", e.ID, product)
			}
			change := faults[e.ID]
			if change == nil {
				continue // its zoo shows the finding, and the sentences come from one place
			}
			for _, look := range looks[product] {
				t.Run(e.ID+" at "+product, func(t *testing.T) {
					s := healthy(notes, look.issuer)
					change(s)
					if look.change != nil && !(e.ID == "server-metadata-missing" && look.issuer == issuer) {
						look.change(s)
					}
					f := found(examined(t, s), e.ID)
					if f == nil || f.Mend != e.Mend+" "+product+": "+sentence {
						t.Errorf("%+v", f)
					}
				})
			}
		}
	}
	report := examined(t, func() *stable { s := healthy(notes, issuer); faults["no-way-in"](s); return s }())
	if f := found(report, "no-way-in"); f == nil || strings.Contains(f.Mend, "Keycloak") {
		t.Errorf("%+v", f)
	}
}

// TestEachProductHasASentence: who is recognized is told something.
func TestEachProductHasASentence(t *testing.T) {
	told := map[string]bool{}
	for _, e := range doctor.Catalogue() {
		for product := range e.Mends {
			told[product] = true
		}
	}
	for _, product := range slices.Sorted(maps.Keys(looks)) {
		if !told[product] {
			t.Errorf("%s is recognized, and told nothing", product)
		}
	}
}
