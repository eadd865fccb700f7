package doctor_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// believing returns a change of an authorization server that redirects for these clients to wherever
// they ask for.
func believing(fits func(client string) bool) func(*stable) {
	return func(s *stable) {
		s.with("GET "+issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
			if fits(r.URL.Query().Get("client_id")) {
				protect(w.Header())
				s.back(w, r, "invalid_request")
				return
			}
			s.authorize(w, r)
		})
	}
}

var documentAnimals = []animal{
	{"errors for every document", "document-redirect", believing(func(c string) bool { return strings.HasPrefix(c, "https://") && !strings.Contains(c, "doctor") }), ""},
	{"a sign-in for every document", "document-redirect", func(s *stable) {
		s.with("GET "+issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Query().Get("client_id"), "https://vscode.dev/") {
				answer(200, "text/html; charset=utf-8", "<title>Sign in</title>")(w, r)
				return
			}
			s.authorize(w, r)
		})
	}, ""},
	{"a client with http", "document-id", believing(func(c string) bool { return strings.HasPrefix(c, "http://doctor") }), ""},
	{"a client with a fragment", "document-id", believing(func(c string) bool { return strings.Contains(c, "#") }), ""},
	{"a client with a user name", "document-id", believing(func(c string) bool { return strings.Contains(c, "@") }), ""},
	{"a client with dots", "document-id", believing(func(c string) bool { return strings.Contains(c, "..") }), ""},
	{"a client without a path", "document-id", believing(func(c string) bool { return c == "https://doctor.example.com" }), ""},
}

// TestDocumentsOutOfReach: that a server cannot read the documents of clients is no finding, whatever it
// answers.
func TestDocumentsOutOfReach(t *testing.T) {
	for _, refusal := range []http.HandlerFunc{answer(503, "text/html", html, "Retry-After", "2"), answer(502, "text/html", html), answer(200, "text/html", "<title>Try again</title>")} {
		s := healthy(notes, issuer)
		asked := 0
		s.with("GET "+issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
			if id := r.URL.Query().Get("client_id"); strings.HasPrefix(id, "https://") && !strings.Contains(id, "doctor") {
				asked++
				refusal(w, r)
				return
			}
			s.authorize(w, r)
		})
		if got := above(alone(t, s, func(*doctor.Options) {})); len(got) > 0 || asked != 3 {
			t.Errorf("found %v after %d questions", got, asked)
		}
	}
}

// TestDocumentFetched: a server on loopback that fetches from a URL which cannot be a client_id is
// found, and one that does not is not.
func TestDocumentFetched(t *testing.T) {
	for name, want := range map[string]string{"": "", "#": "with a fragment", "@": "with a user name", "..": "with a dot segment"} {
		t.Run(name, func(t *testing.T) {
			target, _ := onNetwork(t, httptest.NewServer, func(s *stable) {
				s.with("GET "+s.issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
					id := r.URL.Query().Get("client_id")
					if u, err := url.Parse(id); err == nil && u.Scheme == "https" && name != "" && strings.Contains(id, name) {
						if answer, err := http.Get("http://" + u.Host + u.Path); err == nil {
							_ = answer.Body.Close()
						}
					}
					s.authorize(w, r)
				})
			})
			report, err := doctor.CheckServer(t.Context(), strings.TrimSuffix(target, "/mcp"), doctor.Options{})
			if err != nil {
				t.Fatal(err)
			}
			f := found(report, "document-fetched")
			if (f != nil) != (want != "") || f != nil && !strings.Contains(f.Saw, "for a client_id "+want) {
				t.Errorf("%+v", f)
			}
			if want == "" && len(above(report)) > 0 {
				t.Errorf("found %v", above(report))
			}
		})
	}
}
