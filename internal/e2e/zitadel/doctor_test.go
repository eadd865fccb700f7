package zitadel

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/storage"

	"gatehouse.example/doctor"
)

// found is what the doctor finds at zitadel's example, checked by hand.
const found = `
error no-way-in: ISSUER/.well-known/openid-configuration has neither registration_endpoint nor client_id_metadata_document_supported: true
warning iss-missing: ISSUER/.well-known/openid-configuration has no authorization_response_iss_parameter_supported: true
warning token-unknown-client: POST ISSUER/oauth/token answers 400 with error "invalid_grant" to an unknown client
warning token-cacheable: POST ISSUER/oauth/token answers 400 with Cache-Control ""
warning pkce-optional: GET ISSUER/auth answers 302 without code_challenge
warning cors-server-metadata: OPTIONS ISSUER/.well-known/openid-configuration answers 204 with Access-Control-Allow-Origin ""
warning cors-token: OPTIONS ISSUER/oauth/token answers 204 with Access-Control-Allow-Origin ""
warning cors-credentials: GET ISSUER/.well-known/openid-configuration answers 200 with Access-Control-Allow-Credentials: true
warning cors-authorize: GET ISSUER/auth answers 400 with Access-Control-Allow-Origin "http://localhost:6274" and Access-Control-Allow-Credentials "true"
warning pkce-plain-accepted: GET ISSUER/auth answers 302 with code_challenge_method=plain
warning pkce-challenge-length: GET ISSUER/auth answers 302 with a code_challenge of 42 characters
warning pkce-challenge-alphabet: GET ISSUER/auth answers 302 with a code_challenge in another alphabet
warning redirect-userinfo: GET ISSUER/auth answers 302 for the redirect URI "http://doctor@127.0.0.1:33418/callback", known is "http://127.0.0.1:33418/callback"
warning redirect-fragment: GET ISSUER/auth answers 302 for the redirect URI "http://127.0.0.1:33418/callback#part", known is "http://127.0.0.1:33418/callback"
warning redirect-localhost: GET ISSUER/auth answers 302 for the redirect URI "http://localhost:33418/callback", known is "http://127.0.0.1:33418/callback"
warning page-framing: GET ISSUER/login/username answers 200 without frame-ancestors and X-Frame-Options
warning page-cacheable: GET ISSUER/login/username answers 200 with Cache-Control ""
warning resource-ignored: a refresh for https://doctor.example.com/another-resource has a token
note server-metadata-only-openid: GET ISSUER/.well-known/oauth-authorization-server answers 404
note page-sniffed: GET ISSUER/login/username answers 200 without X-Content-Type-Options: nosniff
note page-referrer: GET ISSUER/login/username answers 200 with Referrer-Policy ""
`

// TestDoctorAtZitadel: what the doctor finds at zitadel's provider as an authorization server, with a
// sign-in of a client that the provider knows.
func TestDoctorAtZitadel(t *testing.T) {
	p := serve(t, redirect)
	storage.RegisterClients(storage.NativeClient("doctor", "http://127.0.0.1/callback"))
	open := func(_ context.Context, at string) error {
		u, err := url.Parse(at)
		if err != nil {
			return err
		}
		p.redirect = u.Query().Get("redirect_uri")
		answer, err := http.Get(p.visit(newBrowser(t), at).String())
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	report, err := doctor.CheckServer(t.Context(), p.server.URL, doctor.Options{SignIn: open, ClientID: "doctor"})
	if err != nil {
		t.Fatal(err)
	}
	got := "\n"
	for _, f := range report.Findings {
		if f.ID != "slow" { // how fast this machine is makes no difference
			got += strings.ReplaceAll(string(f.Severity)+" "+f.ID+": "+f.Saw+"\n", p.server.URL, "ISSUER")
		}
	}
	if len(report.Left) > 0 {
		t.Errorf("left %q", report.Left)
	}
	if got != found {
		t.Errorf("found%s", got)
	}
}
