package middlewaretest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware/middlewaretest"
)

func get(t *testing.T, url string) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, body
}

func TestIssuerPublishesWhatItSignsWith(t *testing.T) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256, jose.PS256} {
		issuer := middlewaretest.NewIssuer(t)
		kid := issuer.Rotate(algorithm)
		_, _, body := get(t, issuer.URL()+"/.well-known/oauth-authorization-server")
		doc, err := metadata.ParseAuthorizationServer(body, issuer.URL())
		if err != nil || doc.Validate() != nil {
			t.Fatalf("%s: %v, %v", body, err, doc.Validate())
		}
		_, _, body = get(t, doc.JWKSURI)
		var set jose.JSONWebKeySet
		if err := json.Unmarshal(body, &set); err != nil || len(set.Key(kid)) != 1 || !set.Keys[0].IsPublic() {
			t.Fatalf("%s: %v", body, err)
		}
		jws, err := jose.ParseSignedCompact(issuer.Mint(middlewaretest.Claims{"aud": "x", "sub": nil}), []jose.SignatureAlgorithm{algorithm})
		if err != nil {
			t.Fatal(err)
		}
		payload, err := jws.Verify(set.Keys[0])
		var claims map[string]any
		if err != nil || json.Unmarshal(payload, &claims) != nil || claims["aud"] != "x" || claims["iss"] != issuer.URL() || claims["client_id"] != "client" {
			t.Errorf("%s: %v", payload, err)
		}
		if _, ok := claims["sub"]; ok {
			t.Error("a claim could not be removed")
		}
	}
}

func TestIssuerDoesWhatItIsTold(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	keys := issuer.URL() + "/jwks.json"
	issuer.SetCacheControl("max-age=7")
	if code, header, _ := get(t, keys); code != http.StatusOK || header.Get("Cache-Control") != "max-age=7" {
		t.Errorf("%d %v", code, header)
	}
	issuer.SetDown(true)
	if code, _, _ := get(t, keys); code != http.StatusInternalServerError {
		t.Errorf("down: %d", code)
	}
	issuer.SetDown(false)
	issuer.SetDocument("/jwks.json", nil)
	if code, _, _ := get(t, keys); code != http.StatusNotFound {
		t.Errorf("removed: %d", code)
	}
	issuer.SetDocument("/jwks.json", http.RedirectHandler("/x", http.StatusFound))
	issuer.SetDocument("/x", map[string]string{"a": "b"})
	if code, _, body := get(t, keys); code != http.StatusOK || string(body) != `{"a":"b"}` {
		t.Errorf("replaced: %d %s", code, body)
	}
	issuer.SetDocument("/x", func() {})
	if code, _, _ := get(t, issuer.URL()+"/x"); code != http.StatusInternalServerError {
		t.Errorf("not JSON: %d", code)
	}
	if n := issuer.KeyRequests(); n != 4 {
		t.Errorf("the keys were asked for %d times", n)
	}
}

func TestBrokenTokensDiffer(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	names, tokens := make(map[string]bool), make(map[string]string)
	for _, broken := range issuer.Broken("https://notes.example.com/mcp") {
		if names[broken.Name] || broken.Token == "" || strings.ContainsAny(broken.Token, "\r\n") {
			t.Errorf("%s: listed twice, empty or not a header value", broken.Name)
		}
		if other, ok := tokens[broken.Token]; ok {
			t.Errorf("%s is the same as %s", broken.Name, other)
		}
		names[broken.Name], tokens[broken.Token] = true, broken.Name
	}
}
