package doctor_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// The redirect URIs of the doctor's own client.
const (
	ownLoopback = "http://127.0.0.1:33418/callback"
	ownWeb      = "https://doctor.example.com/callback/end"
)

// matches reports whether a redirect URI is one of those of the doctor's own client (RFC 9700 section
// 2.1): exactly, but for the port on loopback.
func matches(redirect string) bool {
	return redirect == ownWeb || regexp.MustCompile(`^http://127\.0\.0\.1:[0-9]+/callback$`).MatchString(redirect)
}

// challengeOf256 reports whether a text can be a challenge of S256 (RFC 7636 section 4.2).
func challengeOf256(text string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`).MatchString(text)
}

// unfit reports whether a client must not be registered.
func unfit(client map[string]any) bool {
	redirects, _ := client["redirect_uris"].([]any)
	for _, redirect := range redirects {
		u, err := url.Parse(fmt.Sprint(redirect))
		if err != nil || strings.Contains(fmt.Sprint(redirect), "#") || slices.Contains([]string{"javascript", "data", "file", "vbscript"}, u.Scheme) ||
			u.Scheme == "http" && u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost" {
			return true
		}
	}
	return len(redirects) == 0 || strings.Contains(fmt.Sprint(client["response_types"]), "token")
}

// alone examines the authorization server of a description without the protected one.
func alone(t *testing.T, s *stable, change func(*doctor.Options)) *doctor.Report {
	t.Helper()
	o := options(s.open())
	o.Token = ""
	change(&o)
	requests := 0
	o.Progress = func(string, string) { requests++ }
	report, err := doctor.CheckServer(t.Context(), s.issuer, o)
	if err != nil {
		t.Fatal(err)
	}
	if requests > doctor.MaxRequests {
		t.Errorf("%d requests", requests)
	}
	return report
}

// TestHarnessHealthy: a healthy authorization server has nothing above a note, with a client that is
// registered and with one that is given.
func TestHarnessHealthy(t *testing.T) {
	for name, change := range map[string]func(*doctor.Options){
		"registered":        func(*doctor.Options) {},
		"nothing is known":  func(o *doctor.Options) { o.Register = false },
		"given":             func(o *doctor.Options) { o.Register, o.ClientID = false, "client-of-this-test" },
		"given, with https": func(o *doctor.Options) { o.Register, o.ClientID, o.RedirectURI = false, "client-of-this-test", ownWeb },
	} {
		for _, at := range []string{issuer, tenant} {
			t.Run(name+" at "+at, func(t *testing.T) {
				report := alone(t, healthy(notes, at), change)
				for _, f := range report.Findings {
					if f.Severity != doctor.Note {
						t.Errorf("%s: %s", f.ID, f.Saw)
					}
				}
				if len(report.Left) > 0 {
					t.Errorf("left %q", report.Left)
				}
			})
		}
	}
}

// TestHarnessZoo expects that each authorization server with one fault is named by its finding, and
// that nothing else is found above a note.
func TestHarnessZoo(t *testing.T) {
	for _, a := range harnessZoo() {
		t.Run(a.name, func(t *testing.T) {
			s := healthy(notes, issuer)
			a.change(s)
			expectNamed(t, a, alone(t, s, func(*doctor.Options) {}))
		})
	}
}

func harnessZoo() []animal {
	return slices.Concat(matchAnimals, proofAnimals, policyAnimals, pageAnimals, originAnimals, documentAnimals)
}

// takes returns a change of an authorization server that takes a redirect URI for a known one, and
// everything else as ever.
func takes(redirect string) func(*stable) {
	return authorizing(func(v url.Values) bool { return v.Get("redirect_uri") == redirect }, signInPage)
}

var matchAnimals = []animal{
	{"any subdomain", "redirect-subdomain", takes("https://other.doctor.example.com/callback/end"), ""},
	{"dot segments", "redirect-traversal", takes(ownWeb + "/../other"), ""},
	{"any port", "redirect-port", takes("https://doctor.example.com:8443/callback/end"), ""},
	{"http for https", "redirect-http", takes("http://doctor.example.com/callback/end"), ""},
	{"a user name", "redirect-userinfo", takes("https://doctor@doctor.example.com/callback/end"), ""},
	{"parameters more", "redirect-query", takes(ownWeb + "?added=1"), ""},
	{"capitals", "redirect-case", takes("https://doctor.example.com/CALLBACK/END"), ""},
	{"a slash more", "redirect-slash", takes(ownWeb + "/"), ""},
	{"a fragment", "redirect-fragment", takes(ownWeb + "#part"), ""},
	{"localhost", "redirect-localhost", takes("http://localhost:33418/callback"), ""},
	{"a sign-in page at a random address", "redirect-slash", func(s *stable) {
		page := func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, fmt.Sprintf("/interaction/%p-1", r), http.StatusSeeOther)
		}
		authorizing(func(v url.Values) bool {
			return (matches(v.Get("redirect_uri")) || v.Get("redirect_uri") == ownWeb+"/") && challengeOf256(v.Get("code_challenge")) &&
				v.Get("code_challenge_method") == "S256" && v.Get("response_type") == "code"
		}, always(page))(s)
	}, ""},
	{"errors for everybody", "redirects-unmatched", authorizing(func(v url.Values) bool { return strings.Contains(v.Get("redirect_uri"), "other.") }, func(s *stable) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { s.back(w, r, "invalid_request") }
	}), ""},
	{"a code for nobody, anywhere", "redirects-unmatched", authorizing(func(v url.Values) bool { return strings.Contains(v.Get("redirect_uri"), "/callback") }, func(s *stable) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			v := r.URL.Query()
			if !matches(v.Get("redirect_uri")) && !strings.Contains(v.Get("redirect_uri"), "other.") || !correct(url.Values{
				"redirect_uri": {ownWeb}, "code_challenge": v["code_challenge"], "code_challenge_method": v["code_challenge_method"], "response_type": v["response_type"]}) {
				s.authorize(w, r)
				return
			}
			http.Redirect(w, r, v.Get("redirect_uri")+"?code=one&iss="+url.QueryEscape(s.issuer), http.StatusFound)
		}
	}), "code-without-person"},
	{"an error page with 200", "refusal-status", authorizing(func(v url.Values) bool { return strings.HasSuffix(v.Get("redirect_uri"), "/end/") },
		always(answer(200, "text/html", "<title>This is an error</title>"))), ""},
}

var proofAnimals = []animal{
	{"plain in silence", "pkce-plain-accepted", authorizing(func(v url.Values) bool { return v.Get("code_challenge_method") == "plain" }, signInPage), ""},
	{"a code for plain", "pkce-plain-accepted", authorizing(func(v url.Values) bool { return v.Get("code_challenge_method") == "plain" }, func(s *stable) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.FormValue("redirect_uri")+"?code=one&iss="+url.QueryEscape(s.issuer), http.StatusFound)
		}
	}), ""},
	{"short challenges", "pkce-challenge-length", authorizing(func(v url.Values) bool { return len(v.Get("code_challenge")) == 42 }, signInPage), ""},
	{"any challenge", "pkce-challenge-alphabet", authorizing(func(v url.Values) bool { return strings.HasSuffix(v.Get("code_challenge"), "=") }, signInPage), ""},
}

// registersAll registers the clients for which fits says so, and refuses others as ever.
func registersAll(fits func(client string) bool) func(*stable) {
	return func(s *stable) {
		s.with("POST "+issuer+"/register", func(w http.ResponseWriter, r *http.Request) { s.registerIf(w, r, fits) })
	}
}

var policyAnimals = []animal{
	{"data as redirect URI", "registers-scheme", registersAll(func(c string) bool { return strings.Contains(c, "data:") }), ""},
	{"files as redirect URI", "registers-scheme", registersAll(func(c string) bool { return strings.Contains(c, "file:") }), ""},
	{"scripts of another kind", "registers-scheme", registersAll(func(c string) bool { return strings.Contains(c, "vbscript:") }), ""},
	{"http for everybody", "registers-http", registersAll(func(c string) bool { return strings.Contains(c, "http://doctor") }), ""},
	{"fragments are registered", "registers-fragment", registersAll(func(c string) bool { return strings.Contains(c, "#") }), ""},
	{"no redirect URI", "registers-without-redirect", registersAll(func(c string) bool { return !strings.Contains(c, "redirect_uris") }), ""},
	{"the implicit grant", "registers-implicit", registersAll(func(c string) bool { return strings.Contains(c, "implicit") }), ""},
}

// TestHarnessWithoutWeb: a server that refuses https for an application of the desktop is asked with a
// loopback address alone.
func TestHarnessWithoutWeb(t *testing.T) {
	s := healthy(notes, issuer)
	registersAll(func(string) bool { return false })(s)
	refuse := s.routes["POST "+issuer+"/register"]
	s.with("POST "+issuer+"/register", func(w http.ResponseWriter, r *http.Request) {
		if body := readAll(r); strings.Contains(body, ownWeb) {
			answer(400, jsonType, `{"error":"invalid_redirect_uri"}`)(w, r)
			return
		}
		refuse(w, r)
	})
	asked := map[string]bool{}
	s.with("GET "+issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Query().Get("redirect_uri")] = true
		s.authorize(w, r)
	})
	report := alone(t, s, func(*doctor.Options) {})
	if !asked[ownLoopback+"/"] || asked[ownWeb+"/"] || len(above(report)) > 0 {
		t.Errorf("asked %v, found %v", asked, above(report))
	}
}

// TestHarnessUnknown: nothing is told of redirect URIs where the correct request is refused.
func TestHarnessUnknown(t *testing.T) {
	s := healthy(notes, issuer)
	report := alone(t, s, func(o *doctor.Options) { o.Register, o.ClientID = false, "a-client-that-nobody-knows" })
	if got := above(report); !slices.Equal(got, []string{"authorize-refused"}) {
		t.Errorf("found %v", got)
	}
}

// TestHarnessLeavesOut: what there is no room for is listed, and what matters most was asked.
func TestHarnessLeavesOut(t *testing.T) {
	s := healthy(notes, tenant)
	delete(s.server, "client_id_metadata_document_supported")
	report := alone(t, s, func(*doctor.Options) {})
	f := found(report, "left-out")
	if f == nil || !strings.Contains(f.Saw, "the registration of ") || strings.Contains(f.Saw, "an authorization request") {
		t.Errorf("%+v", report.Findings)
	}
	if len(report.Left) > 0 {
		t.Errorf("left %q", report.Left)
	}
}
