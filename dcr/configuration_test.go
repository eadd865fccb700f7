package dcr_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

func TestConfiguration(t *testing.T) {
	f := newFixture(t, nil)
	for _, method := range []string{"none", "client_secret_post"} {
		made := f.post(t, with(`"token_endpoint_auth_method":"`+method+`","client_name":"Notes","scope":"notes:read"`))
		id, token := made.text("client_id"), made.text("registration_access_token")
		for _, scheme := range []string{"Bearer ", "bearer ", "BEARER "} {
			a := f.get(t, id, scheme+token)
			if a.status != http.StatusOK {
				t.Fatalf("status %d: %s", a.status, a.raw)
			}
			if _, repeated := a.body["client_secret"]; repeated {
				t.Errorf("the secret is repeated: %s", a.raw)
			}
			delete(made.body, "client_secret")
			for member, want := range made.body {
				if member == "redirect_uris" || member == "grant_types" || member == "response_types" {
					want = made.list(member)
					if a.list(member) != want {
						t.Errorf("%s: %s, want %s", member, a.list(member), want)
					}
				} else if a.body[member] != want {
					t.Errorf("%s: %v, want %v", member, a.body[member], want)
				}
			}
			if len(a.body) != len(made.body) {
				t.Errorf("got %s, registered %s", a.raw, made.raw)
			}
		}
	}
}

// TestConfigurationRefusesUniformly: every refusal is the same, byte for byte, so that it does
// not disclose which clients exist.
func TestConfigurationRefusesUniformly(t *testing.T) {
	f := newFixture(t, func(c *dcr.Config) {
		c.Static = []storage.Client{{ID: "configured", Metadata: metadata.Client{RedirectURIs: []string{"https://client.example.com/"}}}}
	})
	mine, other := f.post(t, minimal), f.post(t, minimal)
	id, token := mine.text("client_id"), mine.text("registration_access_token")
	disabled := storage.Client{ID: "disabled", Disabled: true, RegistrationToken: storage.HashSecret("gate_rat_disabled")}
	bare := storage.Client{ID: "bare"}
	for _, c := range []storage.Client{disabled, bare} {
		if err := f.store.CreateClient(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	f.backend.writes.Store(0)
	tests := []struct {
		name, id      string
		authorization []string
	}{
		{"nothing sent", id, nil},
		{"empty header", id, []string{""}},
		{"no token", id, []string{"Bearer"}},
		{"empty token", id, []string{"Bearer "}},
		{"Basic", id, []string{"Basic " + token}},
		{"token without a scheme", id, []string{token}},
		{"two headers", id, []string{"Bearer " + token, "Bearer " + token}},
		{"token of another client", id, []string{"Bearer " + other.text("registration_access_token")}},
		{"client secret", id, []string{"Bearer " + mine.text("client_secret")}},
		{"token cut off", id, []string{"Bearer " + token[:len(token)-1]}},
		{"token with more", id, []string{"Bearer " + token + "A"}},
		{"token in another case", id, []string{"Bearer " + strings.ToUpper(token)}},
		{"token with a space", id, []string{"Bearer  " + token}},
		{"unknown client", "AAAAAAAAAAAAAAAAAAAAAA", []string{"Bearer " + token}},
		{"no client", "", []string{"Bearer " + token}},
		{"odd id", "%00", []string{"Bearer " + token}},
		{"odd id with a key separator", "a:b", []string{"Bearer " + token}},
		{"long id", strings.Repeat("a", 4000), []string{"Bearer " + token}},
		{"path below the client", id + "/x", []string{"Bearer " + token}},
		{"configured client", "configured", []string{"Bearer " + token}},
		{"disabled client", "disabled", []string{"Bearer gate_rat_disabled"}},
		{"client without a token", "bare", []string{"Bearer gate_rat_"}},
	}
	first := f.get(t, tests[0].id)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := f.get(t, tt.id, tt.authorization...)
			assertRefused(t, f, a, http.StatusUnauthorized, "invalid_token")
			if got := a.header.Get("WWW-Authenticate"); got != challenged(tt.authorization) {
				t.Errorf("WWW-Authenticate: %s", got)
			}
			if a.raw != first.raw {
				t.Errorf("%s differs from %s", a.raw, first.raw)
			}
		})
	}
}
