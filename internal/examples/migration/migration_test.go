package migration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware/middlewaretest"
)

const resource = "https://notes.example.com/mcp"

// library is a library of others: a server with it, and the same server with the guard.
type library struct {
	name          string
	before, after func(resource, issuer string, handler http.Handler) (http.Handler, error)
	subject       func(*http.Request) string
	form          middlewaretest.Form
}

func libraries() []library {
	atJWT := middlewaretest.Form{Type: "at+jwt"}
	auth0 := middlewaretest.Form{Type: "JWT", Claims: func(c middlewaretest.Claims) middlewaretest.Claims {
		if client, ok := c["client_id"]; ok {
			c["azp"] = client
			delete(c, "client_id")
		}
		if c["scope"] == nil {
			c["scope"] = ""
		}
		return c
	}}
	return []library{
		{"go-jwt-middleware", auth0Before, auth0After, auth0Subject, auth0},
		{"go-sdk-auth", goSDKBefore, goSDKAfter, goSDKSubject, atJWT},
		{"go-oidc", goOIDCBefore, goOIDCAfter, goOIDCSubject, atJWT},
	}
}

// newIssuer returns an issuer whose metadata are also where these libraries look for them.
func newIssuer(t *testing.T, l library) *middlewaretest.Issuer {
	t.Helper()
	issuer := middlewaretest.NewIssuer(t)
	issuer.Rotate(jose.RS256)
	issuer.SetForm(l.form)
	issuer.SetDocument("/.well-known/openid-configuration", metadata.AuthorizationServer{
		Issuer: issuer.URL(), AuthorizationEndpoint: issuer.URL() + "/authorize", TokenEndpoint: issuer.URL() + "/token",
		JWKSURI: issuer.URL() + "/jwks.json", ResponseTypesSupported: []string{"code"},
	})
	return issuer
}

// server builds one of the two servers. Its handler answers with the subject.
func server(t *testing.T, build func(string, string, http.Handler) (http.Handler, error), issuer string, subject func(*http.Request) string) http.Handler {
	t.Helper()
	handler, err := build(resource, issuer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, subject(r)) }))
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func ask(handler http.Handler, url, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// TestBothAccept: a good token has the same subject before and after the change.
func TestBothAccept(t *testing.T) {
	for _, l := range libraries() {
		issuer := newIssuer(t, l)
		token := issuer.Mint(middlewaretest.Claims{"aud": resource})
		after := guardSubject
		if l.name == "go-sdk-auth" {
			after = func(r *http.Request) string { return strings.TrimPrefix(goSDKSubject(r), issuer.URL()+"|") }
		}
		for when, handler := range map[string]http.Handler{
			"before": server(t, l.before, issuer.URL(), l.subject), "after": server(t, l.after, issuer.URL(), after),
		} {
			if w := ask(handler, resource, token); w.Code != http.StatusOK || w.Body.String() != "reader" {
				t.Errorf("%s %s: %d %s", l.name, when, w.Code, w.Body)
			}
		}
	}
}

// TestWhatOnlyTheOldAccept: the guard refuses every broken token. Those that the page of a library
// lists are tokens that the library accepts.
func TestWhatOnlyTheOldAccept(t *testing.T) {
	for _, l := range libraries() {
		issuer := newIssuer(t, l)
		before, after := server(t, l.before, issuer.URL(), l.subject), server(t, l.after, issuer.URL(), guardSubject)
		accepted := map[string]bool{}
		for _, b := range issuer.Broken(resource) {
			if l.form.Type == "JWT" && b.Name == "typ: JWT" {
				continue // a good token of this provider
			}
			accepted[b.Name] = ask(before, resource, b.Token).Code == http.StatusOK
			w := ask(after, resource, b.Token)
			if w.Code != http.StatusUnauthorized && w.Code != http.StatusBadRequest || !strings.Contains(w.Header().Get("WWW-Authenticate"), "resource_metadata=") {
				t.Errorf("%s after, %s: %d %v", l.name, b.Name, w.Code, w.Header())
			}
		}
		_, list, _ := strings.Cut(page(t, l.name), "\n## What the guard refuses in addition\n")
		list, _, _ = strings.Cut(list, "\n## ")
		listed := regexp.MustCompile("`([a-z0-9]+: [^`]+)`").FindAllStringSubmatch(list, -1)
		if len(listed) == 0 {
			t.Errorf("the page of %s lists no token", l.name)
		}
		for _, name := range listed {
			if !accepted[name[1]] {
				t.Errorf("the page of %s says that the library accepts %q", l.name, name[1])
			}
		}
	}
}

// TestAnswers: what the two answer without a token, for metadata, and while the issuer is down.
func TestAnswers(t *testing.T) {
	for _, l := range libraries() {
		issuer := newIssuer(t, l)
		handlers := []http.Handler{server(t, l.before, issuer.URL(), l.subject), server(t, l.after, issuer.URL(), guardSubject)}
		token := issuer.Mint(middlewaretest.Claims{"aud": resource})
		issuer.SetDown(true) // before the first fetch of keys
		where, err := metadata.ResourceMetadataURL(resource)
		if err != nil {
			t.Fatal(err)
		}
		var rows strings.Builder
		for _, row := range []struct{ name, url, token string }{{"no token", resource, ""}, {"a good token, but the issuer is down", resource, token}, {"the resource metadata", where, ""}} {
			fmt.Fprintf(&rows, "| %s |", row.name)
			for _, handler := range handlers {
				fmt.Fprintf(&rows, " %s |", answer(ask(handler, row.url, row.token)))
			}
			rows.WriteString("\n")
		}
		if !strings.Contains(page(t, l.name), "\n"+rows.String()+"\n") {
			t.Errorf("the page of %s does not say\n%s", l.name, rows.String())
		}
	}
}

// answer describes an answer in a cell of a table.
func answer(w *httptest.ResponseRecorder) string {
	out := fmt.Sprint(w.Code)
	for _, name := range []string{"WWW-Authenticate", "Retry-After"} {
		if w.Header().Get(name) != "" {
			out += ", `" + name + "`"
		}
	}
	return out
}

// page returns the migration page of a library.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "migration", name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var indent = regexp.MustCompile(`(?m)^\s+`)

// TestPagesShowThisCode: every snippet of the pages is in this package, line by line.
func TestPagesShowThisCode(t *testing.T) {
	var code strings.Builder
	for _, name := range []string{"migration.go", "auth0.go", "gosdk.go", "gooidc.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.WriteString("\n" + indent.ReplaceAllString(string(text), ""))
	}
	for _, l := range libraries() {
		snippets := regexp.MustCompile("(?s)\n```go\n(.*?)\n```\n").FindAllStringSubmatch(page(t, l.name), -1)
		if len(snippets) < 2 {
			t.Errorf("the page of %s shows %d snippets, want before and after", l.name, len(snippets))
		}
		for _, snippet := range snippets {
			if !strings.Contains(code.String(), "\n"+indent.ReplaceAllString(snippet[1], "")+"\n") {
				t.Errorf("the page of %s shows what is not compiled:\n%s", l.name, snippet[1])
			}
		}
	}
}
