package doctor_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"

	"gatehouse.example/doctor"
)

// registering returns a change of the answers to registrations.
func registering(change func(client map[string]any)) func(*stable) {
	return func(s *stable) {
		s.with("POST "+issuer+"/register", func(w http.ResponseWriter, r *http.Request) {
			recorder := httptest.NewRecorder()
			s.register(recorder, r)
			var client map[string]any
			if err := json.Unmarshal(recorder.Body.Bytes(), &client); err != nil {
				panic(err)
			}
			if client["client_id"] != nil {
				change(client)
			}
			for name, values := range recorder.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(recorder.Code)
			_ = json.NewEncoder(w).Encode(client)
		})
	}
}

var registerAnimals = []animal{
	{"registration refused", "registration-refused", route("POST "+issuer+"/register", answer(400, jsonType, `{"error":"invalid_redirect_uri"}`)), ""},
	{"registration needs a token", "registration-locked", route("POST "+issuer+"/register", answer(401, jsonType, `{"error":"invalid_token"}`)), ""},
	{"a registration without client_id", "registration-answer", registering(func(c map[string]any) { delete(c, "client_id") }), ""},
	{"a page in place of a registration", "registration-answer", route("POST "+issuer+"/register", answer(200, "text/html", html)), ""},
	{"redirect URIs are left out", "registration-redirects", registering(func(c map[string]any) { delete(c, "redirect_uris") }), ""},
	{"a secret for everybody", "registration-method", registering(func(c map[string]any) { c["token_endpoint_auth_method"] = "client_secret_basic" }), ""},
	{"a method is left out", "registration-method", registering(func(c map[string]any) { delete(c, "token_endpoint_auth_method") }), ""},
	{"a cacheable registration", "registration-cacheable", header("POST "+issuer+"/register", "Cache-Control", ""), ""},
	{"a registration for good", "registration-stays", registering(func(c map[string]any) { delete(c, "registration_client_uri") }), ""},
	{"a registration that cannot be removed", "registration-stays", route("DELETE "+issuer+"/register/client-of-this-test", answer(405, "", "")), ""},
	{"a script as redirect URI", "registers-script", func(s *stable) {
		s.with("POST "+issuer+"/register", answer(201, jsonType, `{"client_id":"client-of-this-test","token_endpoint_auth_method":"none"}`, "Cache-Control", "no-store", "Access-Control-Allow-Origin", "*"))
	}, "registration-redirects"},
}

// authorizing returns a change of the answers to some authorization requests of the known client.
func authorizing(fits func(url.Values) bool, handler func(*stable) http.HandlerFunc) func(*stable) {
	return func(s *stable) {
		s.with("GET "+issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
			if v := r.URL.Query(); v.Get("client_id") == "client-of-this-test" && fits(v) {
				handler(s)(w, r)
				return
			}
			s.authorize(w, r)
		})
	}
}

func always(h http.HandlerFunc) func(*stable) http.HandlerFunc {
	return func(*stable) http.HandlerFunc { return h }
}

func anything(url.Values) bool { return true }

var (
	signInPage = always(answer(200, "text/html", html))
	errorPage  = always(answer(400, "text/html", html))
)

var tryAnimals = []animal{
	{"an unknown resource", "authorize-refused", authorizing(anything, func(s *stable) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { s.back(w, r, "invalid_target") }
	}), ""},
	{"500 for a known client", "authorize-refused", authorizing(anything, always(answer(500, "text/html", html))), "server-fault"},
	{"a code for nobody", "code-without-person", authorizing(anything, func(s *stable) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.FormValue("redirect_uri")+"?code=one&iss="+url.QueryEscape(s.issuer), http.StatusFound)
		}
	}), ""},
	{"one port", "loopback-port", authorizing(func(v url.Values) bool { return v.Get("redirect_uri") == "http://127.0.0.1:45123/callback" }, errorPage), ""},
	{"any path", "redirect-unmatched", authorizing(func(v url.Values) bool { return v.Get("redirect_uri") == "http://127.0.0.1:33418/callback/other" }, signInPage), ""},
	{"no state, no sign-in", "state-required", authorizing(func(v url.Values) bool { return v.Get("state") == "" }, errorPage), ""},
	{"PKCE if you like", "pkce-optional", authorizing(func(v url.Values) bool { return v.Get("code_challenge") == "" }, signInPage), ""},
	{"tokens in URLs", "implicit", authorizing(func(v url.Values) bool { return v.Get("response_type") == "token" }, signInPage), ""},
	{"errors without iss", "iss-absent", authorizing(func(v url.Values) bool { return v.Get("code_challenge") == "" }, always(answer(302, "", "", "Location", "http://127.0.0.1:33418/callback?error=invalid_request"))), ""},
}

// TestFragmentOfTokens: where a token was asked for, the error comes in the fragment, and so does iss.
func TestFragmentOfTokens(t *testing.T) {
	s := healthy(notes, issuer)
	authorizing(func(v url.Values) bool { return v.Get("response_type") == "token" }, func(s *stable) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			v := url.Values{"error": {"unsupported_response_type"}, "state": {r.FormValue("state")}, "iss": {s.issuer}}
			http.Redirect(w, r, r.FormValue("redirect_uri")+"#"+v.Encode(), http.StatusFound)
		}
	})(s)
	if got := above(examined(t, s)); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

// TestRecordedBodies: what is sent is what was recorded from the products.
func TestRecordedBodies(t *testing.T) {
	records := map[string]string{
		"claude-code": "claude-code-2.1", "codex": "codex-0.169", "gemini-cli": "gemini-cli-0.61", "inspector": "inspector-cli", "mcp-remote": "mcp-remote-0.15",
	}
	for _, name := range doctor.Clients() {
		record := records[name]
		if record == "" {
			record = name
		}
		ours, err := os.ReadFile("clients/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile("../dcr/testdata/clients/" + record + ".json")
		if err != nil || string(ours) != string(theirs) {
			t.Errorf("%s differs from its record %s: %v", name, record, err)
		}
	}
}

// TestLeft: what cannot be removed is listed, and nothing is registered unless that is wanted.
func TestLeft(t *testing.T) {
	s := healthy(notes, issuer)
	s.with("DELETE "+issuer+"/register/client-of-this-test", answer(404, "", ""))
	if left := examined(t, s).Left; len(left) != len(doctor.Clients())+1 {
		t.Errorf("left %q", left)
	}
	s = healthy(notes, issuer)
	s.with("POST "+issuer+"/register", func(http.ResponseWriter, *http.Request) { t.Error("registered") })
	o := options(s.open())
	o.Register = false
	if _, err := doctor.Check(t.Context(), s.target, o); err != nil {
		t.Error(err)
	}
}
