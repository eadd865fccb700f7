package doctor_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/doctor"
)

// stops returns which clients stop at each finding, by the table of a report.
func stops(r *doctor.Report) map[string][]string {
	all := map[string][]string{}
	for _, way := range r.As {
		if way.Stops != "" {
			all[way.Finding] = append(all[way.Finding], way.Client)
		}
	}
	return all
}

// named returns the clients of the findings with an ID.
func named(r *doctor.Report, id string) (all []string) {
	for _, f := range r.Findings {
		if f.ID == id {
			all = append(all, f.Clients...)
		}
	}
	return all
}

// TestClientsAreThoseOfTheTable: at every animal a finding names a client if and only if the table
// says that the client stops there for that reason. Findings about what comes after the table name
// those that they can stop.
func TestClientsAreThoseOfTheTable(t *testing.T) {
	reports, inTable := map[string]*doctor.Report{}, map[string]bool{}
	for _, a := range zoo() {
		s := healthy(notes, issuer)
		a.change(s)
		reports[a.name] = examined(t, s)
		for id := range stops(reports[a.name]) {
			inTable[id] = true
		}
	}
	can := map[string][]string{}
	for _, e := range doctor.Catalogue() {
		can[e.ID] = e.Clients
	}
	for name, report := range reports {
		stopped := stops(report)
		for id, clients := range stopped {
			if got := slices.Sorted(slices.Values(named(report, id))); !slices.Equal(got, slices.Sorted(slices.Values(clients))) {
				t.Errorf("%s: %s names %v, by the table it stops %v", name, id, got, clients)
			}
			for _, c := range clients {
				if !slices.Contains(can[id], c) {
					t.Errorf("%s: %s stops %s, which is not in the catalogue", name, id, c)
				}
			}
		}
		for _, f := range report.Findings {
			if inTable[f.ID] && stopped[f.ID] == nil && len(f.Clients) > 0 {
				t.Errorf("%s: %s names %v, by the table it stops nobody", name, f.ID, f.Clients)
			}
			if !inTable[f.ID] && !slices.Equal(f.Clients, append([]string{}, can[f.ID]...)) {
				t.Errorf("%s: %s names %v, not those of the catalogue", name, f.ID, f.Clients)
			}
		}
	}
}

// TestStopsInWords: the text says whom a fault stops, and whom one can stop that shows later.
func TestStopsInWords(t *testing.T) {
	s := healthy(notes, issuer)
	s.resource["resource"] = "https://notes.example.com"
	s.with("POST "+issuer+"/token", answer(400, "text/html", html))
	var out strings.Builder
	report := examined(t, s)
	if err := report.WriteText(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  stops: gemini-cli\n", "  can stop: claude-code, codex, "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if f := found(report, "resource-wider"); len(f.Clients) != 1 { // the Go SDK and VS Code use the document at the root
		t.Errorf("%+v", f)
	}
}

// TestEachRegistration: what happens to several clients at their registration is one finding with
// their names.
func TestEachRegistration(t *testing.T) {
	s := healthy(notes, issuer)
	s.with("POST "+issuer+"/register", answer(400, jsonType, `{"error":"invalid_redirect_uri"}`))
	report := examined(t, s)
	f := found(report, "registration-refused")
	if n := strings.Count(fmt.Sprint(report.Findings), "registration-refused"); n != 1 || !strings.HasPrefix(f.Saw, "claude-code, codex, vscode, ") {
		t.Errorf("%d findings, the first: %+v", n, f)
	}
}

// slowAt answers some requests after a time.
type slowAt struct {
	inner http.RoundTripper
	at    func(*http.Request) time.Duration
	asked func(*http.Request)
}

func (s slowAt) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.asked != nil {
		s.asked(r)
	}
	select {
	case <-time.After(s.at(r)):
		return s.inner.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestTimeIsNoFault: a server that is too slow for the time of an examination is called slow, and
// nothing is said to be missing, whatever it is that is slow. No client is said to stop.
func TestTimeIsNoFault(t *testing.T) {
	mine := func(part string, d time.Duration) func(*http.Request) time.Duration {
		return func(r *http.Request) time.Duration {
			return map[bool]time.Duration{true: d}[strings.Contains(r.URL.String(), part)]
		}
	}
	for name, at := range map[string]func(*http.Request) time.Duration{
		"calls": mine("example.com/mcp", 6*time.Second), "everything": mine("", 4*time.Second), "resource metadata": mine("protected-resource", 7*time.Second),
		"metadata": mine("auth.example.org/.well-known", 7*time.Second), "too slow for metadata": mine("auth.example.org/.well-known", 9*time.Second),
		"too slow for resource metadata": mine("protected-resource", 9*time.Second), "registration": mine("/register", 7*time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := healthy(notes, issuer).open()
				begin := time.Now()
				report, err := doctor.Check(t.Context(), notes, doctor.Options{Transport: slowAt{inner: s, at: at}, Register: true, Now: func() time.Time { return now }})
				if err != nil || time.Since(begin) > doctor.MaxTime {
					t.Fatalf("after %s: %v", time.Since(begin), err)
				}
				for _, f := range report.Findings {
					if f.ID != "slow" && f.ID != "not-finished" {
						t.Errorf("%s: %s", f.ID, f.Saw)
					}
				}
				for _, way := range report.As {
					if way.Stops != "" || name == "calls" && way.Open != "" { // of which a third of the time is enough
						t.Errorf("%s stops at %s, open: %s", way.Client, way.Finding, way.Open)
					}
				}
			})
		})
	}
}

// TestKeptByCache: an answer that a cache has kept has an Age, and the Date of when it was made or of now:
// neither is a wrong clock. One that is wrong nevertheless shows.
func TestKeptByCache(t *testing.T) {
	for _, c := range []struct {
		date, age, say string
	}{
		{"Mon, 23 Nov 2026 11:50:00 GMT", "600", ""},
		{"Mon, 23 Nov 2026 11:50:00 GMT", "545", ""},
		{"Mon, 23 Nov 2026 11:50:00 GMT", "480", "the header Date is Mon, 23 Nov 2026 11:50:00 GMT with Age 480, -2m0s off"},
		{"Mon, 23 Nov 2026 12:00:00 GMT", "600", ""},
		{"Mon, 23 Nov 2026 12:10:00 GMT", "600", "the header Date is Mon, 23 Nov 2026 12:10:00 GMT with Age 600, 10m0s off"},
		{"Mon, 23 Nov 1826 12:00:00 GMT", "99999999999999999999", "with Age 99999999999999999999, -1156652h45m52s off"},
		{"Mon, 23 Nov 2026 11:50:00 GMT", "-600", ", -10m0s off"},
		{"Mon, 23 Nov 2026 11:50:00 GMT", "600, 600", ", -10m0s off"},
		{"", "600", ""},
	} {
		s := healthy(notes, issuer)
		header("GET "+servers, "Date", c.date)(s)
		dated := s.routes["GET "+servers]
		s.with("GET "+servers, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Age", c.age)
			dated(w, r)
		})
		report := examined(t, s)
		f := found(report, "wrong-clock")
		if (f == nil) != (c.say == "") || f != nil && !strings.Contains(f.Saw, c.say) {
			t.Errorf("Date %s and Age %s: %+v, want %q", c.date, c.age, f, c.say)
		}
	}
}

// TestFirstAnswersCount: calls whose bodies never end leave time for the metadata.
func TestFirstAnswersCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := healthy(notes, issuer).open()
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.String() == notes {
				return dripping{inner: s}.RoundTrip(r)
			}
			return s.RoundTrip(r)
		})
		report, err := doctor.Check(t.Context(), notes, doctor.Options{Transport: transport, Register: true, Now: func() time.Time { return now }})
		if err != nil || !slices.Equal(above(report), []string{"too-large"}) || !strings.Contains(report.Findings[0].Saw, "did not end in time") {
			t.Errorf("%v: %+v", err, report)
		}
		for _, way := range report.As {
			if way.Open != "" || way.Stops != "" {
				t.Errorf("%+v", way)
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNotRegistered: without a registration nobody knows whether it goes well, and the table says so.
func TestNotRegistered(t *testing.T) {
	s := healthy(notes, issuer)
	delete(s.server, "client_id_metadata_document_supported")
	o := options(s.open())
	o.Register = false
	report, err := doctor.Check(t.Context(), notes, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range report.As {
		last := way.Steps[9]
		if last.OK || !last.Open || way.Stops != "" || !strings.Contains(way.Open, "--register") {
			t.Errorf("%+v", way)
		}
	}
	var out strings.Builder
	if err := report.WriteText(&out, false); err != nil || !strings.Contains(out.String(), " ok  -\n") || strings.Contains(out.String(), " X") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestComesAgain: where a server asks to come again in some seconds, the doctor does so once, and
// says it.
func TestComesAgain(t *testing.T) {
	for after, want := range map[string]int{"1": 2, "3": 2, "4": 1, "60": 1, "-1": 1, "Mon, 23 Nov 2026 12:00:01 GMT": 1} {
		s, count := healthy(notes, issuer), 0
		s.with("GET "+servers, func(w http.ResponseWriter, r *http.Request) {
			if count++; count == 1 {
				later(after)(w, r)
				return
			}
			s.routes["GET "+openid](w, r)
		})
		o, slept := options(s.open()), time.Duration(0)
		o.Sleep = func(_ context.Context, d time.Duration) error { slept += d; return nil }
		report, err := doctor.Check(t.Context(), notes, o)
		if err != nil || found(report, "rate-limited") == nil || len(above(report)) != 1 {
			t.Errorf("%s: %v, %v", after, err, above(report))
		}
		if asked := min(count, want); asked != want || want == 1 && slept != 0 || want == 2 && fmt.Sprint(slept) != after+"s" {
			t.Errorf("%s: asked %d times, slept %s", after, count, slept)
		}
		open := slices.ContainsFunc(report.As, func(w doctor.Way) bool { return w.Open != "" })
		if open != (want == 1) {
			t.Errorf("%s: %+v", after, report.As)
		}
	}
}

// TestLimitedEverywhere: a server that asks to come later at everything is no server without metadata.
func TestLimitedEverywhere(t *testing.T) {
	s := healthy(notes, issuer)
	everywhere(later("30"))(s)
	report := examined(t, s)
	if got := slices.Compact(above(report)); !slices.Equal(got, []string{"rate-limited"}) {
		t.Errorf("found %v", got)
	}
	if len(slices.Collect(maps.Keys(stops(report)))) > 0 {
		t.Errorf("%+v", report.As)
	}
}

// TestMalformedHeader: a header with control characters is a finding, not the end.
func TestMalformedHeader(t *testing.T) {
	target := raw(t, "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"\x1b[31mred\"\r\nContent-Length: 0\r\n\r\n")
	report, err := doctor.Check(t.Context(), target, doctor.Options{})
	if err != nil || len(above(report)) != 1 || found(report, "header-malformed") == nil {
		t.Fatalf("%v, %+v", err, report)
	}
	if n := len(found(report, "header-malformed").Clients); n != len(doctor.Clients()) {
		t.Errorf("%d clients: %+v", n, report.Findings)
	}
}

// TestHangsUp: where http has no answer, https is proposed.
func TestHangsUp(t *testing.T) {
	_, err := doctor.Check(t.Context(), raw(t, ""), doctor.Options{})
	if err == nil || !strings.Contains(err.Error(), "write https://") {
		t.Error(err)
	}
}

// raw answers each connection with some bytes.
func raw(t *testing.T, text string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = buffer.WriteString(text)
		_ = buffer.Flush()
		_ = c.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL + "/mcp"
}
