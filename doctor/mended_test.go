package doctor_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/doctor"
)

// TestOneCause: what a proxy or a guard does to every path is one finding, not one for each path.
func TestOneCause(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    []string
	}{
		"a page":       {answer(200, "text/html", html), []string{"sign-in-page"}},
		"a redirect":   {answer(302, "", "", "Location", "https://login.example.com/?next=x"), []string{"sign-in-page"}},
		"refused page": {answer(403, "text/html", html), []string{"sign-in-page", "resource-metadata-locked"}}, // Claude Code goes on at 403
		"401":          {answer(401, "", ""), []string{"resource-metadata-locked", "challenge-missing"}},
	} {
		s := healthy(notes, issuer).withoutToken()
		everywhere(c.handler)(s)
		s.issuer = notes // nothing else is asked
		if got := above(examined(t, s)); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %v, want %v", name, got, c.want)
		}
	}
}

// TestGuessed: an authorization server that nobody names is said to be guessed.
func TestGuessed(t *testing.T) {
	s := healthy(notes, issuer)
	everywhere(http.NotFound)(s)
	s.with("POST "+notes, s.guard)
	f := found(examined(t, s), "resource-metadata-missing")
	if f == nil || !strings.Contains(f.Saw, "https://notes.example.com, which clients then guess") {
		t.Errorf("%+v", f)
	}
}

// TestLandingPage: a page at GET is for people, while messages are refused as they should be.
func TestLandingPage(t *testing.T) {
	for _, page := range []http.HandlerFunc{answer(200, "text/html", html), answer(302, "", "", "Location", "https://www.example.com/")} {
		s := healthy(notes, issuer)
		s.with("GET "+notes, page)
		if got := above(examined(t, s)); len(got) > 0 {
			t.Errorf("found %v", got)
		}
	}
}

// TestLateToken: a server that asks for a token when tools are listed or called stops nobody; one that
// does not is open.
func TestLateToken(t *testing.T) {
	for _, change := range []func(*stable){lazy, func(s *stable) {
		s.with("POST "+notes, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			if r.Header.Get("Authorization") == "" && !strings.Contains(string(body), "tools/call") {
				empty(w, r)
				return
			}
			s.guard(w, r)
		})
	}} {
		s := healthy(notes, issuer)
		change(s)
		if report := examined(t, s); len(stops(report)) > 0 || found(report, "open") != nil || found(report, "open-at-first") == nil {
			t.Errorf("%+v", report)
		}
	}
	s := healthy(notes, issuer)
	s.with("POST "+notes, empty)
	if f := found(examined(t, s), "open"); f == nil || !strings.HasSuffix(f.Saw, "to tools/list and tools/call too") {
		t.Errorf("%+v", f)
	}
}

// TestLimitedAfterRefusal: a server of sessions alone that asks to come later at initialize stops nobody,
// as far as is known: clients go on to initialize after the refusal of the other revision.
func TestLimitedAfterRefusal(t *testing.T) {
	s := healthy(notes, issuer)
	s.with("POST "+notes, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		later("60")(w, r)
	})
	if report := examined(t, s.withoutToken()); len(stops(report)) > 0 || found(report, "rate-limited") == nil {
		t.Errorf("%+v", report)
	}
}

// TestElsewhere: metadata at another origin is asked where that is permitted, and else nobody knows
// what clients find there.
func TestElsewhere(t *testing.T) {
	const at = "https://meta.example.net/notes"
	for _, allowed := range []bool{true, false} {
		s := healthy(notes, issuer)
		s.challenge = `Bearer resource_metadata="` + at + `"`
		s.refusal = s.challenge + `, error="invalid_token"`
		s.with("GET "+places, http.NotFound)
		s.with("GET "+placed, http.NotFound)
		o := options(s.open())
		s.routes["GET "+at] = answer(200, jsonType, `{"resource":"`+notes+`","authorization_servers":["`+issuer+`"]}`, "Access-Control-Allow-Origin", "*")
		s.routes["OPTIONS "+at] = permit("GET", "*")
		if allowed {
			o.AllowHosts = []string{"meta.example.net"}
		}
		report, err := doctor.Check(t.Context(), notes, o)
		want := []string{"challenge-elsewhere"}
		if allowed {
			want = append(want, "resource-metadata-not-inserted")
		}
		if got := above(report); err != nil || !slices.Equal(got, want) {
			t.Errorf("allowed: %t: found %v, %v", allowed, got, err)
		}
		for _, way := range report.As {
			stops := way.Client == "gemini-cli"
			if (way.Stops != "") != stops || !stops && (way.Open == "") != allowed {
				t.Errorf("allowed: %t: %+v", allowed, way)
			}
		}
	}
}

// TestElsewhereOnLoopback: a server on this machine may name an authorization server elsewhere, which
// clients on this machine reach. What the doctor does not ask stops nobody.
func TestElsewhereOnLoopback(t *testing.T) {
	target, _ := onNetwork(t, httptest.NewServer, resource("authorization_servers", []string{"https://192.0.2.1"}))
	report, err := doctor.Check(t.Context(), target, doctor.Options{})
	if err != nil || !slices.Equal(above(report), []string{"address-not-asked"}) {
		t.Fatalf("%v, %v", err, above(report))
	}
	for _, way := range report.As {
		if way.Stops != "" || !strings.Contains(way.Open, "--allow-host 192.0.2.1") {
			t.Errorf("%+v", way)
		}
	}
}

// TestTwoNamesOfLoopback: a link to another name of this machine is asked.
func TestTwoNamesOfLoopback(t *testing.T) {
	target, _ := onNetwork(t, httptest.NewServer, func(s *stable) { s.challenge = strings.Replace(s.challenge, "127.0.0.1", "localhost", 1) })
	report, err := doctor.Check(t.Context(), target, doctor.Options{Register: true})
	if err != nil || len(stops(report)) != 1 || !slices.Equal(above(report)[:1], []string{"challenge-elsewhere"}) || strings.Contains(found(report, "challenge-elsewhere").Saw, "not asked") {
		t.Errorf("%v, %+v", err, report)
	}
}

// TestUpperCase: localhost is this machine in any case, so that http is no fault there.
func TestUpperCase(t *testing.T) {
	target, _ := onNetwork(t, httptest.NewServer, func(*stable) {})
	report, err := doctor.Check(t.Context(), strings.Replace(target, "127.0.0.1", "LOCALHOST", 1), doctor.Options{})
	if err != nil || found(report, "plain-http") != nil || len(report.Findings) == 0 {
		t.Errorf("%v, %+v", err, report)
	}
}

// TestEmptyParts: a URL that ends in an empty query or fragment is another one than clients use.
func TestEmptyParts(t *testing.T) {
	for target, want := range map[string]string{notes + "?": "leave out the ? at its end", notes + "#": "leave out the # at its end", notes + "?#": "leave out the ? at its end"} {
		if _, err := doctor.Check(t.Context(), target, doctor.Options{}); !errors.Is(err, doctor.ErrTarget) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestKeysOfClients: a server for clients whose document has a key need not serve others.
func TestKeysOfClients(t *testing.T) {
	s := healthy(notes, issuer)
	delete(s.server, "registration_endpoint")
	s.server["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt"}
	if report := examined(t, s); found(report, "public-clients") != nil {
		t.Errorf("%v", above(report))
	}
}

// TestPagesAreCompared: a page with the words of the sign-in page is one, whatever is random in it; the
// sign-in page of a server that shows it to everybody tells nothing.
func TestPagesAreCompared(t *testing.T) {
	n := 0
	page := func(words string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			n++
			body := `<p>` + words + ` <input name="csrf" value="` + strings.Repeat("x", n) + `"> ` + strings.Repeat("z", 25+n) + ` ` + r.FormValue("redirect_uri")
			answer(200, "text/html", body)(w, r)
		}
	}
	for name, c := range map[string]struct {
		unknown http.HandlerFunc
		other   string
		want    string
	}{
		"accepted":                {answer(400, "text/html", html), "Sign in", "redirect-unmatched"},
		"another page":            {answer(400, "text/html", html), "Error", "try-unsure"},
		"everybody sees the same": {page("Sign in"), "Sign in", "try-unsure"},
	} {
		s := healthy(notes, issuer)
		s.with("GET "+issuer+"/authorize", func(w http.ResponseWriter, r *http.Request) {
			v := r.URL.Query()
			switch {
			case v.Get("client_id") != "client-of-this-test":
				c.unknown(w, r)
			case strings.HasSuffix(v.Get("redirect_uri"), "/other"):
				page(c.other)(w, r)
			case wrong(v):
				s.authorize(w, r)
			default:
				page("Sign in")(w, r)
			}
		})
		report := examined(t, s)
		if found(report, c.want) == nil || c.want == "try-unsure" && len(above(report)) > 0 {
			t.Errorf("%s: %v", name, above(report))
		}
	}
}
