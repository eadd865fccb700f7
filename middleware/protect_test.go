package middleware_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

func TestCredentials(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	good := issuer.Mint(claims{"aud": resource})
	for _, tt := range []struct {
		name   string
		target string
		header []string
		status int
		code   string
	}{
		{"bearer", "", []string{"Authorization", "Bearer " + good}, 418, ""},
		{"other case", "", []string{"Authorization", "bEaReR " + good}, 418, ""},
		{"more space", "", []string{"Authorization", "Bearer   " + good}, 418, ""},
		{"other parameters in the query", "?q=access_token&my_access_token=x", []string{"Authorization", "Bearer " + good}, 418, ""},

		// RFC 6750 section 3.1: no credentials, or of a kind that is not supported.
		{"nothing", "", nil, 401, ""},
		{"empty header", "", []string{"Authorization", ""}, 401, ""},
		{"basic", "", []string{"Authorization", "Basic YWxpY2U6c2VjcmV0"}, 401, ""},
		{"dpop", "", []string{"Authorization", "DPoP " + good}, 401, ""},
		{"token without a scheme", "", []string{"Authorization", good}, 401, ""},
		{"scheme with a prefix", "", []string{"Authorization", "XBearer " + good}, 401, ""},
		{"scheme with a colon", "", []string{"Authorization", "Bearer: " + good}, 401, ""},
		{"tab after the scheme", "", []string{"Authorization", "Bearer\t" + good}, 401, ""},
		{"token in the query", "?access_token=" + good, nil, 401, ""},
		{"token in a cookie", "", []string{"Cookie", "access_token=" + good}, 401, ""},
		{"token in another header", "", []string{"X-Access-Token", good, "Proxy-Authorization", "Bearer " + good}, 401, ""},
		{"identity headers", "", []string{"X-Forwarded-User", "reader", "X-Auth-Request-User", "reader", "Remote-User", "reader"}, 401, ""},

		// RFC 6750 section 3.1: malformed, or more than one method.
		{"two headers", "", []string{"Authorization", "Bearer " + good, "Authorization", "Bearer " + good}, 400, "invalid_request"},
		{"two headers, one of them basic", "", []string{"Authorization", "Basic YTpi", "Authorization", "Bearer " + good}, 400, "invalid_request"},
		{"two headers, one of them empty", "", []string{"Authorization", "", "Authorization", "Bearer " + good}, 400, "invalid_request"},
		{"two tokens", "", []string{"Authorization", "Bearer " + good + " " + good}, 400, "invalid_request"},
		{"two challenges in one header", "", []string{"Authorization", "Bearer " + good + ", Bearer " + good}, 400, "invalid_request"},
		{"scheme alone", "", []string{"Authorization", "Bearer"}, 400, "invalid_request"},
		{"scheme and space", "", []string{"Authorization", "Bearer "}, 400, "invalid_request"},
		{"trailing space", "", []string{"Authorization", "Bearer " + good + " "}, 400, "invalid_request"},
		{"padding alone", "", []string{"Authorization", "Bearer =="}, 400, "invalid_request"},
		{"quoted", "", []string{"Authorization", `Bearer "` + good + `"`}, 400, "invalid_request"},
		{"control character", "", []string{"Authorization", "Bearer " + good + "\x00"}, 400, "invalid_request"},
		{"outside ASCII", "", []string{"Authorization", "Bearer é"}, 400, "invalid_request"},
		{"header and query", "?access_token=x", []string{"Authorization", "Bearer " + good}, 400, "invalid_request"},
		{"header and query, escaped", "?a=b&%61ccess%5Ftoken=x", []string{"Authorization", "Bearer " + good}, 400, "invalid_request"},
		{"header and query without a value", "?access_token", []string{"Authorization", "Bearer " + good}, 400, "invalid_request"},
		{"header and query after a semicolon", "?a=b;access_token=x", []string{"Authorization", "Bearer " + good}, 400, "invalid_request"},

		{"not a token", "", []string{"Authorization", "Bearer undefined"}, 401, "invalid_token"},
		{"opaque token", "", []string{"Authorization", "Bearer gho_16C7e42F292c6912E7710c838347Ae178B4a"}, 401, "invalid_token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request := newRequest("POST", resource+tt.target, tt.header...)
			if tt.status == http.StatusTeapot {
				passes(t, guard, request)
				return
			}
			c := refused(t, guard, request, tt.status)
			if get(c, "error") != tt.code {
				t.Errorf("the challenge is %s, want the error %q", c, tt.code)
			}
			if _, described := c.Get("error_description"); described != (tt.code != "") {
				t.Errorf("the challenge is %s", c)
			}
			if want := "notes:read notes:write"; tt.code == "" && get(c, "scope") != want {
				t.Errorf("the challenge is %s, want the scope %q", c, want)
			}
			if strings.Contains(c.String(), good) {
				t.Error("the challenge repeats the token")
			}
		})
	}
}

func TestEveryMethodNeedsAToken(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	token := issuer.Mint(claims{"aud": resource})
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "options", "X-OPTIONS"} {
		refused(t, guard, newRequest(method, resource), http.StatusUnauthorized)
		request := withToken(token)
		request.Method = method
		passes(t, guard, request)
	}
	for _, path := range []string{"/", "/mcp/", "//mcp", "/mcp/../mcp", "/.well-known/oauth-protected-resource", "/healthz"} {
		refused(t, guard, newRequest("GET", "https://notes.example.com"+path), http.StatusUnauthorized)
	}
}

func TestFirstChallenge(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	const meta = `resource_metadata="` + metaURL + `"`
	for _, tt := range []struct {
		name              string
		scopes, challenge []string
		want              string
	}{
		{"all scopes", []string{"a", "b"}, nil, `Bearer scope="a b", ` + meta},
		{"a first step", []string{"a", "b"}, []string{"a"}, `Bearer scope="a", ` + meta},
		{"no scope to begin with", []string{"a"}, []string{}, `Bearer ` + meta},
		{"no scopes at all", nil, nil, `Bearer ` + meta},
	} {
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.Scopes, c.ChallengeScopes = tt.scopes, tt.challenge })
		res := serve(guard.Protect(&inner{}), newRequest("POST", resource))
		if got := res.Header["Www-Authenticate"]; len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestBodyIsNotRead(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	form := "access_token=" + issuer.Mint(claims{"aud": resource})
	request := httptest.NewRequest("POST", resource, strings.NewReader(form))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c := refused(t, guard, request, http.StatusUnauthorized)
	if get(c, "error") != "" {
		t.Errorf("the challenge is %s", c)
	}
	if rest, err := io.ReadAll(request.Body); err != nil || string(rest) != form {
		t.Errorf("the body was read: %d bytes are left, %v", len(rest), err)
	}

	request = httptest.NewRequest("POST", resource, strings.NewReader(form))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "Bearer "+issuer.Mint(claims{"aud": resource}))
	var got []byte
	guard.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
	})).ServeHTTP(httptest.NewRecorder(), request)
	if string(got) != form {
		t.Errorf("the handler got the body %q", got)
	}
}

func TestTokenIsNotPassedOn(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	var logs bytes.Buffer
	guard := newGuard(t, issuer, func(c *middleware.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	raw := issuer.Mint(claims{"aud": resource})
	request := withToken(raw)
	request.Header.Set("X-Other", "stays")
	var h inner
	serve(guard.Protect(&h), request)
	got := h.requests[0]
	if _, ok := got.Header["Authorization"]; ok || got.Header.Get("X-Other") != "stays" {
		t.Errorf("the handler sees %v", got.Header)
	}
	signature := raw[strings.LastIndexByte(raw, '.')+1:]
	if all := fmt.Sprintf("%+v %#v %+v", got, got.Context(), h.tokens[0]); strings.Contains(all, signature) {
		t.Errorf("the handler can reach the token: %s", all)
	}
	if request.Header.Get("Authorization") != "Bearer "+raw {
		t.Error("the request of the caller was changed")
	}
	if _, ok := middleware.TokenFrom(request.Context()); ok {
		t.Error("the context of the caller was changed")
	}
	expired := issuer.Mint(claims{"aud": resource, "exp": 1})
	refused(t, guard, withToken(expired), http.StatusUnauthorized)
	if logs.Len() == 0 || strings.Contains(logs.String(), expired) || strings.Contains(logs.String(), raw) {
		t.Errorf("the log holds a token, or nothing: %s", &logs)
	}
}

func TestTokenFromWithoutAGuard(t *testing.T) {
	if token, ok := middleware.TokenFrom(context.Background()); ok || token != nil {
		t.Errorf("TokenFrom of an empty context is %v, %v", token, ok)
	}
}

func TestRequireScope(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	for _, tt := range []struct {
		granted  string
		required []string
		want     int
	}{
		{"notes:read", []string{"notes:read"}, 418},
		{"notes:write notes:read", []string{"notes:read"}, 418},
		{"notes:write notes:read", []string{"notes:read", "notes:write"}, 418},
		{"", nil, 418},
		{"", []string{"notes:read"}, 403},
		{"notes:write", []string{"notes:read"}, 403},
		{"notes:read", []string{"notes:read", "notes:write"}, 403},
		{"notes:reader notes read notes:rea", []string{"notes:read"}, 403},
		{"NOTES:READ", []string{"notes:read"}, 403},
		{"notes:read,notes:write", []string{"notes:read"}, 403},
		{"*", []string{"notes:read"}, 403},
	} {
		var h inner
		w := httptest.NewRecorder()
		request := withToken(issuer.Mint(claims{"aud": resource, "scope": tt.granted}))
		guard.Protect(guard.RequireScope(tt.required...)(&h)).ServeHTTP(w, request)
		if w.Code != tt.want || (len(h.requests) > 0) != (tt.want == 418) {
			t.Errorf("%q for %q: %d", tt.granted, tt.required, w.Code)
		}
		if w.Code != 403 {
			continue
		}
		// All scopes of the operation, also those that the token has.
		c := checkRefusal(t, w.Result(), w.Body.Bytes())
		if get(c, "error") != "insufficient_scope" || get(c, "scope") != strings.Join(tt.required, " ") || get(c, "resource_metadata") != metaURL {
			t.Errorf("%q for %q: %s", tt.granted, tt.required, c)
		}
	}
}

func TestRequireScopeFailsClosed(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard, other := newGuard(t, issuer), newGuard(t, issuer, func(c *middleware.Config) { c.Resource = "https://other.example.com/mcp" })
	var h inner
	handler := guard.RequireScope("notes:read")(&h)
	if res := serve(handler, withToken(issuer.Mint(claims{"aud": resource, "scope": "notes:read"}))); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without Protect: %s", res.Status)
	}
	request := withToken(issuer.Mint(claims{"aud": "https://other.example.com/mcp", "scope": "notes:read"}))
	if res := serve(other.Protect(handler), request); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("behind the guard of another resource: %s", res.Status)
	}
	if len(h.requests) > 0 {
		t.Error("the handler was reached")
	}
	for _, scope := range []string{"", "a b", "a\"b", "a\n"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("RequireScope(%q) does not panic", scope)
				}
			}()
			guard.RequireScope("notes:read", scope)
		}()
	}
}
