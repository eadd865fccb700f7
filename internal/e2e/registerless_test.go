//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/gateway"
	"gatehouse.example/metadata"
	"gatehouse.example/storage/redis/redistest"
)

// registerless is the recipe for clients that cannot register at a provider: panva's oidc-provider,
// our server, the gateway, and a server behind it.
type registerless struct {
	*testing.T
	company     *panva
	authz, gate *process
	server      *behind
}

// startRegisterless starts the recipe with the file on the page, in which names become addresses.
func startRegisterless(t *testing.T) *registerless {
	t.Helper()
	ours, gate := redistest.FreeAddress(t), redistest.FreeAddress(t)
	r := &registerless{T: t, company: startPanva(t, "http://"+ours+"/login/company/callback", nil), server: newBehind(t)}
	page, err := os.ReadFile("../../docs/middleware.md")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(page), "### Clients that cannot register at your provider")
	_, recipe, _ = strings.Cut(recipe, "```yaml\n")
	recipe, _, _ = strings.Cut(recipe, "```")
	folder := t.TempDir()
	file, secret := filepath.Join(folder, "authz.yaml"), filepath.Join(folder, "company")
	recipe = strings.NewReplacer("https://auth.example.com", "http://"+ours, "https://notes.example.com", "http://"+gate,
		"https://login.example.com", r.company.issuer, "/run/secrets/company", secret).Replace(recipe)
	for name, text := range map[string]string{file: recipe, secret: "secret"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.authz = startAuthz(t, nil, "--listen", ours, "--config", file)
	scopes := filepath.Join(folder, "scopes.yaml")
	if err := os.WriteFile(scopes, []byte("tools:\n  add_note: notes:write\n  list_notes: notes:read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.gate = startGateway(t, r.authz.URL, r.server.URL, "--listen", gate, "--identity", "headers", "--scopes", scopes)
	return r
}

// call calls a tool through the gateway.
func (r *registerless) call(token, tool string) *http.Response {
	r.Helper()
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
	req, err := http.NewRequest(http.MethodPost, r.gate.URL+"/mcp", strings.NewReader(message))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { answer.Body.Close() })
	return answer
}

// fetch reads a document.
func (r *registerless) fetch(address string, into any) {
	r.Helper()
	answer, err := http.Get(address)
	decodeInto(r.T, answer, err, http.StatusOK, into)
}

// discover finds our server from the refusal of the gateway, as clients do.
func (r *registerless) discover() (resource metadata.Resource, server metadata.AuthorizationServer, scope string) {
	r.Helper()
	answer := r.call("", "list_notes")
	challenges, err := metadata.ParseChallenges(answer.Header["Www-Authenticate"])
	if err != nil || answer.StatusCode != http.StatusUnauthorized || len(challenges) != 1 {
		r.Fatal(answer.Status, challenges, err)
	}
	address := ""
	for _, p := range challenges[0].Params {
		switch p.Name {
		case "resource_metadata":
			address = p.Value
		case "scope":
			scope = p.Value
		}
	}
	r.fetch(address, &resource)
	if len(resource.AuthorizationServers) != 1 || resource.AuthorizationServers[0] != r.authz.URL {
		r.Fatalf("the metadata names %q, and not our server", resource.AuthorizationServers)
	}
	r.fetch(resource.AuthorizationServers[0]+"/.well-known/oauth-authorization-server", &server)
	if server.RegistrationEndpoint == "" {
		r.Fatal("clients cannot register")
	}
	return resource, server, scope
}

// signIn registers a client, signs a person in at the provider, and returns the token of the client.
func (r *registerless) signIn(name string) (token, scope string) {
	r.Helper()
	resource, server, asked := r.discover()
	var registered struct {
		ID string `json:"client_id"`
	}
	body, err := json.Marshal(map[string]any{"client_name": "Example Client", "redirect_uris": []string{flowRedirect}, "token_endpoint_auth_method": "none"})
	if err != nil {
		r.Fatal(err)
	}
	answer, err := http.Post(server.RegistrationEndpoint, "application/json", strings.NewReader(string(body)))
	decodeInto(r.T, answer, err, http.StatusCreated, &registered)

	sum := sha256.Sum256([]byte(verifier))
	b := newBrowser(r.T)
	b.CheckRedirect = staysAt(r.authz.URL)
	at, away := load(r.T, b, newGet(r.T, server.AuthorizationEndpoint+"?"+url.Values{
		"response_type": {"code"}, "client_id": {registered.ID}, "redirect_uri": {flowRedirect}, "state": {"state"}, "resource": {resource.Resource},
		"scope": {asked}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()))
	press := func(values url.Values) { r.Helper(); at, away = submit(r.T, b, at, values) }
	if len(at.fields["password"]) != 0 {
		r.Error("the page asks for a password")
	}
	values := at.hidden()
	values.Set("provider", "company")
	press(values)
	values = at.hidden()
	values.Set("decision", "allow")
	if press(values); away == nil || !strings.HasPrefix(away.String(), r.company.issuer) {
		r.Fatalf("the person is not sent to the provider, but %s, %s", away, at.text)
	}
	at, _ = load(r.T, b, newGet(r.T, r.company.visit(b, away.String(), r.authz.URL+"/login/", name).String()))
	if press(at.consent("allow", everyScope)); away == nil || !strings.HasPrefix(away.String(), flowRedirect) {
		r.Fatalf("the person does not come back to the client, but to %s, %s", away, at.text)
	}
	var tokens struct {
		Access string `json:"access_token"`
		Scope  string `json:"scope"`
	}
	answer, err = http.PostForm(server.TokenEndpoint, url.Values{"grant_type": {"authorization_code"}, "client_id": {registered.ID}, "code": {away.Query().Get("code")},
		"redirect_uri": {flowRedirect}, "code_verifier": {verifier}, "resource": {resource.Resource}})
	decodeInto(r.T, answer, err, http.StatusOK, &tokens)
	return tokens.Access, tokens.Scope
}

// TestClientThatCannotRegister: a client that the provider does not know finds our server through the
// gateway, registers there, its person signs in at the provider, and the client calls tools by what
// the person may do. The provider's own tokens are refused.
func TestClientThatCannotRegister(t *testing.T) {
	t.Parallel()
	r := startRegisterless(t)
	token, scope := r.signIn("ada")
	if scope != "notes:read notes:write" {
		t.Errorf("the scopes are %q", scope)
	}
	for _, tool := range []string{"list_notes", "add_note"} {
		answer := r.call(token, tool)
		if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK || !strings.Contains(string(text), `"result"`) {
			t.Errorf("%s: %s %s", tool, answer.Status, text)
		}
	}
	guest, scope := r.signIn("guest")
	if answer := r.call(guest, "add_note"); scope != "notes:read" || answer.StatusCode != http.StatusForbidden {
		t.Errorf("somebody who is not in the group has %q, and gets %s", scope, answer.Status)
	}
	requests, _ := r.server.taken()
	if len(requests) != 2 || requests[0].Header.Get(gateway.HeaderSubject) == "" || requests[0].Header.Get(gateway.HeaderIssuer) != r.authz.URL || requests[0].Header.Get("Authorization") != "" {
		t.Errorf("the server was called %d times: %v", len(requests), requests)
	}
	_, id := r.company.tokens(newBrowser(t), r.authz.URL+"/login/company/callback", "", "")
	access, _ := r.company.tokens(newBrowser(t), r.authz.URL+"/login/company/callback", r.gate.URL+"/mcp", "notes:read")
	for name, theirs := range map[string]string{"an ID token": id, "an access token for the resource": access} {
		if answer := r.call(theirs, "list_notes"); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s of the provider: %s", name, answer.Status)
		}
	}
}
