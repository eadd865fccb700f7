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
warning cors-server-metadata: OPTIONS ISSUER/.well-known/openid-configuration answers 204 with Access-Control-Allow-Origin ""
warning cors-token: OPTIONS ISSUER/oauth/token answers 204 with Access-Control-Allow-Origin ""
warning cors-credentials: GET ISSUER/.well-known/openid-configuration answers 200 with Access-Control-Allow-Credentials: true
warning resource-ignored: a refresh for https://doctor.example.com/another-resource has a token
note server-metadata-only-openid: GET ISSUER/.well-known/oauth-authorization-server answers 404
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
