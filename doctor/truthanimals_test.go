package doctor_test

import (
	"net/http"
	"net/url"
	"strings"
)

// later answers that the client may come again.
func later(after string) http.HandlerFunc {
	return answer(http.StatusTooManyRequests, "text/plain", "slow down", "Retry-After", after)
}

// wrong reports whether an authorization request of the known client is one that a server refuses.
func wrong(v url.Values) bool {
	return v.Get("code_challenge") == "" || v.Get("response_type") != "code" || strings.HasSuffix(v.Get("redirect_uri"), "/other")
}

// ownErrors sends errors to a page of the server, wherever they come from.
func ownErrors(page http.HandlerFunc) func(*stable) {
	return func(s *stable) {
		s.with("GET "+issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
			if v := r.URL.Query(); v.Get("client_id") != "client-of-this-test" || wrong(v) {
				page(w, r)
				return
			}
			s.authorize(w, r)
		})
	}
}

// silentToPages removes what lets pages of a browser use the servers.
func silentToPages(s *stable) {
	s.open()
	for route, handler := range s.routes {
		s.routes[route] = func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			handler(&rewriter{&rewriter{w, "Access-Control-Allow-Origin", ""}, "Access-Control-Expose-Headers", ""}, r)
		}
	}
}

// everywhere answers every request in the same way.
func everywhere(handler http.HandlerFunc) func(*stable) {
	return func(s *stable) {
		s.open()
		for route := range s.routes {
			s.routes[route] = handler
		}
	}
}

// lazy asks for a token only when tools are listed.
func lazy(s *stable) {
	s.with("POST "+notes, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && r.Header.Get("Mcp-Session-Id") == "" {
			answer(200, jsonType, `{"jsonrpc":"2.0","id":1,"result":{}}`, "Mcp-Session-Id", "one", "Access-Control-Allow-Origin", "*")(w, r)
			return
		}
		s.guard(w, r)
	})
}

// truthAnimals are servers about which an examination must not say more than it saw.
var truthAnimals = []animal{
	{"429 at the calls", "rate-limited", route("POST "+notes, later("60")), ""},
	{"503 and come later", "rate-limited", route("POST "+notes, answer(503, "", "", "Retry-After", "120")), ""},
	{"429 at the resource metadata", "rate-limited", func(s *stable) {
		s.with("GET "+placed, later("60"))
		s.with("GET "+places, later("60"))
	}, ""},
	{"429 at the metadata of the server", "rate-limited", func(s *stable) {
		s.with("GET "+servers, later("60"))
		s.with("GET "+openid, later("60"))
	}, ""},
	{"429 at the registration", "rate-limited", route("POST "+issuer+"/register", later("60")), ""},
	{"429 at the token endpoint", "rate-limited", route("POST "+issuer+"/token", later("60")), ""},
	{"errors at a page with 200", "try-unsure", ownErrors(answer(200, "text/html", "<title>Something is wrong</title>")), ""},
	{"errors at another address", "try-unsure", ownErrors(answer(302, "", "", "Location", "/error?code=1")), ""},
	{"the same page for everybody", "try-unsure", route("GET "+issuer+"/authorize", answer(200, "text/html", "<div id=app></div>")), ""},
	{"a link to metadata elsewhere", "challenge-elsewhere", challenge(`Bearer resource_metadata="https://meta.example.net/notes"`), ""},
	{"a token is asked for late", "open-at-first", lazy, ""},
	{"a challenge without end", "too-large", challenge(`Bearer resource_metadata="%s", realm="%s"`, placed, strings.Repeat("x", 20<<10)), ""},
	{"a proxy signs people in everywhere", "sign-in-page", everywhere(answer(302, "", "", "Location", "https://login.example.com/?next=x")), ""},
	{"a page everywhere", "sign-in-page", everywhere(answer(200, "text/html", html)), ""},
	{"401 everywhere", "resource-metadata-locked", everywhere(answer(401, "", "")), "challenge-missing token-refused"},
	{"one authorization server without a scheme", "resource-servers", resource("authorization_servers", []string{issuer, "auth.example.org"}), ""},
	{"not for pages", "cors-none", silentToPages, ""},
	{"silent about grant types", "grant-types-missing", server("grant_types_supported", nil), ""},
}
