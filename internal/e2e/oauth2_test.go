package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// TestOAuth2Library: golang.org/x/oauth2 can name a resource when it redeems a code, and not
// when it refreshes. The refreshed token is for the resource that it named.
func TestOAuth2Library(t *testing.T) {
	const other = "http://127.0.0.1:8083/mcp"
	server := startAuthz(t, nil, "--dev-resource", devResource, "--dev-resource", other)
	known := newFlow(t, server, devResource)
	config := oauth2.Config{ClientID: known.client, RedirectURL: flowRedirect, Endpoint: oauth2.Endpoint{
		AuthURL: server.URL + "/authorize", TokenURL: server.URL + "/token", AuthStyle: oauth2.AuthStyleInParams,
	}}
	verifier := oauth2.GenerateVerifier()
	ask := config.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)) + "&" + url.Values{"resource": {devResource, other}}.Encode()
	code := allow(t, newBrowser(t), ask).Query().Get("code")
	if _, err := config.Exchange(t.Context(), code, oauth2.VerifierOption(verifier)); err == nil || !strings.Contains(err.Error(), "with the parameter resource") {
		t.Errorf("redeeming without a resource: %v", err)
	}
	token, err := config.Exchange(t.Context(), code, oauth2.VerifierOption(verifier), oauth2.SetAuthURLParam("resource", other))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := audienceOf(t, token.AccessToken); got != other {
			t.Errorf("a token for %v, want %s", got, other)
		}
		token.Expiry = time.Now().Add(-time.Minute)
		if token, err = config.TokenSource(t.Context(), token).Token(); err != nil {
			t.Fatal(err)
		}
	}
}

// audienceOf returns aud of a JWT.
func audienceOf(t *testing.T, token string) any {
	t.Helper()
	var claims map[string]any
	parts := strings.Split(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)])
	if err == nil {
		err = json.Unmarshal(raw, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	return claims["aud"]
}
