package dcr_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// TestRealClients registers the requests of real clients, and compares the answers with
// testdata/registered. Supported values come back unchanged, others are left out, and sending
// the answer as an update changes nothing.
func TestRealClients(t *testing.T) {
	files, err := filepath.Glob("testdata/clients/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no clients: %v", err)
	}
	f := newFixture(t, nil)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join("testdata/registered", filepath.Base(file)))
			if err != nil {
				t.Fatal(err)
			}
			a := f.post(t, string(body))
			if a.status != http.StatusCreated {
				t.Fatalf("status %d: %s", a.status, a.raw)
			}
			assertMembers(t, a, f, string(want))
			m := managed{id: a.text("client_id"), token: a.text("registration_access_token")}
			again := f.put(t, m.id, strings.Replace(string(want), "{", `{"client_id":"`+m.id+`",`, 1), m.bearer())
			assertMembers(t, again, f, string(want))
		})
	}
}

func TestResponse(t *testing.T) {
	f := newFixture(t, nil)
	for _, method := range []string{"none", "client_secret_basic", "client_secret_post"} {
		t.Run(method, func(t *testing.T) {
			a := f.post(t, `{"redirect_uris":["https://client.example.com/cb?a=b&c=%2F"],"token_endpoint_auth_method":"`+method+`"}`)
			if a.status != http.StatusCreated {
				t.Fatalf("status %d: %s", a.status, a.raw)
			}
			id, secret, token := a.text("client_id"), a.text("client_secret"), a.text("registration_access_token")
			if !unreserved(id) || len(id) != 22 || strings.HasPrefix(id, "https://") {
				t.Errorf("client_id %q", id)
			}
			if !unreserved(token) || !strings.HasPrefix(token, "gate_rat_") || len(token) != len("gate_rat_")+43 {
				t.Errorf("registration_access_token %q", token)
			}
			if got := a.text("registration_client_uri"); got != registerURL+"/"+id {
				t.Errorf("registration_client_uri %q", got)
			}
			if got := a.body["client_id_issued_at"]; got != float64(start.Unix()) {
				t.Errorf("client_id_issued_at %v", got)
			}
			if a.list("redirect_uris") != "https://client.example.com/cb?a=b&c=%2F" || a.list("response_types") != "code" || a.list("grant_types") != "authorization_code" {
				t.Errorf("echo: %s", a.raw)
			}
			assertSecret(t, a, method, secret)
			assertStored(t, f, id, secret, token)
		})
	}
}

func assertSecret(t *testing.T, a answer, method, secret string) {
	t.Helper()
	expires, hasExpiry := a.body["client_secret_expires_at"]
	_, hasSecret := a.body["client_secret"]
	if method == "none" {
		if hasSecret || hasExpiry {
			t.Errorf("a public client got a secret: %s", a.raw)
		}
		return
	}
	if !unreserved(secret) || !strings.HasPrefix(secret, "gate_cs_") || len(secret) != len("gate_cs_")+43 || expires != float64(0) {
		t.Errorf("client_secret %q, client_secret_expires_at %v", secret, expires)
	}
}

// assertStored checks the record, and that no secret is stored as it is.
func assertStored(t *testing.T, f *fixture, id, secret, token string) {
	t.Helper()
	client, err := f.store.Client(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	if client.Source != storage.ClientRegistered || client.Disabled || !client.Created.Equal(start) {
		t.Errorf("stored %+v", client)
	}
	if !client.RegistrationToken.Matches(token) || (secret != "") != client.Secret.Matches(secret) {
		t.Error("the hashes are not those of the secrets")
	}
	stored := string(f.backend.stored)
	if strings.Contains(stored, token) || (secret != "" && strings.Contains(stored, secret)) {
		t.Errorf("a secret is stored: %s", stored)
	}
	if strings.Contains(f.log.String(), token) || (secret != "" && strings.Contains(f.log.String(), secret)) {
		t.Error("a secret is in the log")
	}
}

func unreserved(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", c)
	})
}

// TestEffective: where the registered metadata differs from the request, it is as listed.
func TestEffective(t *testing.T) {
	tests := []struct{ name, member, asked, want string }{
		{"defaults", "token_endpoint_auth_method", ``, `client_secret_basic`},
		{"empty method", "token_endpoint_auth_method", `"token_endpoint_auth_method":""`, `client_secret_basic`},
		{"null method", "token_endpoint_auth_method", `"token_endpoint_auth_method":null`, `client_secret_basic`},
		{"default grants", "grant_types", ``, `[authorization_code]`},
		{"empty grants", "grant_types", `"grant_types":[]`, `[authorization_code]`},
		{"null grants", "grant_types", `"grant_types":null`, `[authorization_code]`},
		{"default grants with offline_access", "grant_types", `"scope":"offline_access"`, `[authorization_code refresh_token]`},
		{"explicit grant with offline_access", "grant_types", `"scope":"offline_access","grant_types":["authorization_code"]`, `[authorization_code]`},
		{"both grants in another order", "grant_types", `"grant_types":["refresh_token","authorization_code","refresh_token"]`, `[authorization_code refresh_token]`},
		{"unsupported grants beside the code", "grant_types", `"grant_types":["urn:ietf:params:oauth:grant-type:device_code","authorization_code","client_credentials"]`, `[authorization_code]`},
		{"default response types", "response_types", ``, `[code]`},
		{"empty response types", "response_types", `"response_types":[]`, `[code]`},
		{"repeated response type", "response_types", `"response_types":["code","code"]`, `[code]`},
		{"repeated redirect URI", "redirect_uris", `"redirect_uris":["https://b.example.com/","https://a.example.com/","https://b.example.com/"]`, `[https://b.example.com/ https://a.example.com/]`},
		{"no scope", "scope", ``, `<nil>`},
		{"unknown scopes", "scope", `"scope":"notes:read bank:write openid"`, `notes:read`},
		{"only unknown scopes", "scope", `"scope":"openid profile"`, `<nil>`},
		{"repeated scopes and white space", "scope", `"scope":"  notes:write notes:read   notes:write "`, `notes:write notes:read`},
		{"native", "application_type", `"application_type":"native"`, `native`},
		{"web with a loopback redirect", "application_type", `"application_type":"web","redirect_uris":["http://localhost/cb"]`, `web`},
		{"unknown application type", "application_type", `"application_type":"desktop"`, `<nil>`},
		{"white space in the name", "client_name", `"client_name":" Notes\r\n\tfor\u00a0you "`, `Notes for you`},
		{"bidi and zero width characters in the name", "client_name", `"client_name":"\u202eevil\u2066\u200b\u200e\ufeff\u00ad\u0000\u001b[1m"`, `evil[1m`},
		{"joiners and other scripts in the name", "client_name", `"client_name":"नोट\u200d्स 👩\u200d💻 ملاحظات"`, `नोट` + "\u200d" + `्स 👩` + "\u200d" + `💻 ملاحظات`},
		{"nothing visible in the name", "client_name", `"client_name":"\u200b \u202e"`, `<nil>`},
		{"name of 200 characters", "client_name", `"client_name":"` + strings.Repeat("é", 200) + `"`, strings.Repeat("é", 200)},
		{"markup in the name stays text", "client_name", `"client_name":"<b>Notes</b>"`, `<b>Notes</b>`},
		{"contacts", "contacts", `"contacts":["ops@example.com","","\u202e"]`, `[ops@example.com]`},
		{"software", "software_version", `"software_version":"1.2\n"`, `1.2`},
		{"https link", "client_uri", `"client_uri":"https://client.example.com/#about"`, `https://client.example.com/#about`},
		{"loopback link", "logo_uri", `"logo_uri":"http://localhost:3000/logo.png"`, `http://localhost:3000/logo.png`},
		{"empty link", "tos_uri", `"tos_uri":""`, `<nil>`},
		{"null link", "policy_uri", `"policy_uri":null`, `<nil>`},
		{"keys are not echoed", "jwks", `"jwks":{"keys":[{"kty":"EC","crv":"P-256","x":"a","y":"b"}]}`, `<nil>`},
		{"null keys", "jwks", `"jwks":null,"jwks_uri":"https://client.example.com/jwks.json"`, `<nil>`},
		{"keys by reference are not echoed", "jwks_uri", `"jwks_uri":"https://client.example.com/jwks.json"`, `<nil>`},
		{"null software statement", "software_statement", `"software_statement":null`, `<nil>`},
		{"another name in upper case", "client_name", `"CLIENT_NAME":"Bank","client_name":"Notes"`, `Notes`},
		{"localised name", "client_name#de", `"client_name#de":" Noti\u202ezen "`, `Notizen`},
		{"localised name with an escaped number sign", "client_name#de", `"client_name\u0023de":"Notizen"`, `Notizen`},
		{"localised name in capitals", "client_name#zh-Hant-TW", `"client_name#zh-Hant-TW":"筆記"`, `筆記`},
		{"localised name with variants", "client_name#sl-rozaj-biske-1994-u-co-x-a", `"client_name#sl-rozaj-biske-1994-u-co-x-a":"x"`, `x`},
		{"localised name in a private language", "client_name#x-klingon", `"client_name#x-klingon":"pong"`, `pong`},
		{"empty localised name", "client_name#de", `"client_name#de":""`, `<nil>`},
		{"null localised name", "client_name#de", `"client_name#de":null`, `<nil>`},
		{"null in no language", "client_name#", `"client_name#":null`, `<nil>`},
		{"localised page", "client_uri#de", `"client_uri#de":"https://client.example.com/de"`, `https://client.example.com/de`},
		{"localised logo on loopback", "logo_uri#de", `"logo_uri#de":"http://127.0.0.1/l.png"`, `http://127.0.0.1/l.png`},
		{"localised terms", "tos_uri#de", `"tos_uri#de":"https://client.example.com/agb"`, `https://client.example.com/agb`},
		{"localised privacy policy", "policy_uri#de", `"policy_uri#de":"https://client.example.com/dsgvo"`, `https://client.example.com/dsgvo`},
		{"forty languages", "client_name#de-x-39", languages(40), `Notizen`},
		{"what has no languages", "scope#de", `"scope#de":"notes:read"`, `<nil>`},
		{"another name that begins alike", "client_names#de", `"client_names#de":"x"`, `<nil>`},
		{"private_key_jwt", "token_endpoint_auth_method", assertions(`"jwks":` + keyP256), `private_key_jwt`},
		{"private_key_jwt has no secret", "client_secret", assertions(`"jwks":` + keyP256), `<nil>`},
		{"private_key_jwt has no secret that expires", "client_secret_expires_at", assertions(`"jwks":` + keyP256), `<nil>`},
		{"keys that are used are echoed", "jwks", assertions(`"jwks":{"keys":[{"kty":"OKP","crv":"X25519","x":"AA"},` + keyP256[9:]),
			`map[keys:[map[crv:P-256 kty:EC x:f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU y:x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0]]]`},
		{"used keys by reference are echoed", "jwks_uri", assertions(`"jwks_uri":"https://client.example.com/jwks.json"`), `https://client.example.com/jwks.json`},
		{"algorithm", "token_endpoint_auth_signing_alg", assertions(`"token_endpoint_auth_signing_alg":"ES256","jwks":` + keyP256), `ES256`},
		{"algorithm of another method", "token_endpoint_auth_signing_alg", `"token_endpoint_auth_signing_alg":"HS256"`, `<nil>`},
		{"no proofs of possession", "dpop_bound_access_tokens", `"dpop_bound_access_tokens":false`, `<nil>`},
		{"unknown members", "resource", `"resource":"https://notes.example.com/mcp","x":{"y":[1]}`, `<nil>`},
	}
	f := newFixture(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := f.post(t, with(tt.asked))
			if a.status != http.StatusCreated {
				t.Fatalf("status %d: %s", a.status, a.raw)
			}
			if got := fmt.Sprint(a.body[tt.member]); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.member, got, tt.want)
			}
		})
	}
}

// with returns a request with the members, adding a redirect URI if there is none.
func with(members string) string {
	if !strings.Contains(members, `"redirect_uris"`) {
		members = strings.TrimSuffix(`"redirect_uris":["https://client.example.com/cb"],`+members, ",")
	}
	return "{" + members + "}"
}

// TestServerChooses: a client cannot choose its id or secrets.
func TestServerChooses(t *testing.T) {
	f := newFixture(t, nil)
	a := f.post(t, with(`"client_id":"admin","client_secret":"s","client_id_issued_at":1,"client_secret_expires_at":1,`+
		`"registration_client_uri":"https://evil.example.org/","registration_access_token":"t","source":"configured","id":"x","disabled":true`))
	if a.status != http.StatusCreated {
		t.Fatalf("status %d: %s", a.status, a.raw)
	}
	id, secret, token := a.text("client_id"), a.text("client_secret"), a.text("registration_access_token")
	if id == "admin" || secret == "s" || token == "t" || a.text("registration_client_uri") != registerURL+"/"+id {
		t.Errorf("the client chose: %s", a.raw)
	}
	assertStored(t, f, id, secret, token)
	if again := f.post(t, minimal); again.text("client_id") == id || again.text("registration_access_token") == token {
		t.Error("two clients share an id or a token")
	}
}

func TestOfflineAccessMustExist(t *testing.T) {
	f := newFixture(t, func(c *dcr.Config) { c.Scopes = []string{"notes:read"} })
	if a := f.post(t, with(`"scope":"offline_access notes:read"`)); a.list("grant_types") != "authorization_code" || a.text("scope") != "notes:read" {
		t.Errorf("registered %s", a.raw)
	}
}

func TestOneWritePerRegistrationAndHook(t *testing.T) {
	var seen []string
	f := newFixture(t, func(c *dcr.Config) {
		c.OnRegister = func(_ context.Context, client storage.Client) { seen = append(seen, client.ID) }
	})
	a := f.post(t, minimal)
	if n, m := f.backend.writes.Load(), f.backend.gets.Load(); n != 1 || m != 0 {
		t.Errorf("%d writes and %d reads, want 1 and 0", n, m)
	}
	if strings.Join(seen, " ") != a.text("client_id") {
		t.Errorf("OnRegister saw %q", seen)
	}
	if !strings.Contains(f.log.String(), a.text("client_id")) {
		t.Errorf("log: %s", f.log)
	}
	f.post(t, `{}`)
	if len(seen) != 1 {
		t.Error("OnRegister was called for a refused request")
	}
}

func TestStoreDown(t *testing.T) {
	f := newFixture(t, nil)
	ok := f.post(t, minimal)
	f.backend.down.Store(true)
	for name, a := range map[string]answer{
		"register":      f.post(t, minimal),
		"configuration": f.get(t, ok.text("client_id"), "Bearer "+ok.text("registration_access_token")),
	} {
		if a.status != http.StatusServiceUnavailable || a.text("error") != "temporarily_unavailable" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d %s", name, a.status, a.raw)
		}
		if strings.Contains(a.raw, "192.0.2.1") {
			t.Errorf("%s: the answer shows internals: %s", name, a.raw)
		}
	}
	if !strings.Contains(f.log.String(), "192.0.2.1") {
		t.Error("the log does not show the cause")
	}
}

// TestRandomFails: without randomness there is no client, and no internal message.
func TestRandomFails(t *testing.T) {
	f := newFixture(t, nil)
	store, err := storage.New(f.backend, storage.Options{Rand: failing{}})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := dcr.New(dcr.Config{Store: store, Endpoint: registerURL, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	f.Clients = clients
	a := f.post(t, minimal)
	assertRefused(t, f, a, http.StatusServiceUnavailable, "temporarily_unavailable")
}

func TestBodyThatBreaksOff(t *testing.T) {
	f := newFixture(t, nil)
	r := httptest.NewRequest(http.MethodPost, registerURL, failing{})
	r.Header.Set("Content-Type", "application/json")
	assertRefused(t, f, serve(t, f.Register(), r), http.StatusBadRequest, "invalid_client_metadata")
}
