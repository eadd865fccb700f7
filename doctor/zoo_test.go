package doctor_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse.example/doctor"
)

const (
	notes   = "https://notes.example.com/mcp"
	issuer  = "https://auth.example.org"
	tenant  = issuer + "/tenant"
	places  = "https://notes.example.com/.well-known/oauth-protected-resource"
	servers = issuer + "/.well-known/oauth-authorization-server"
	openid  = issuer + "/.well-known/openid-configuration"
)

// examined examines the servers of a description, inside of this process.
func examined(t *testing.T, s *stable) *doctor.Report {
	t.Helper()
	report, err := doctor.Check(context.Background(), s.target, options(s.open()))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func options(s *stable) doctor.Options {
	return doctor.Options{Transport: s, Register: true, Token: s.token, Now: func() time.Time { return now }}
}

// above returns the ids of the findings that are worse than a note.
func above(r *doctor.Report) (ids []string) {
	for _, f := range r.Findings {
		if f.Severity != doctor.Note {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// TestHealthy expects nothing above a note at healthy servers of several shapes.
func TestHealthy(t *testing.T) {
	shapes := map[string]*stable{
		"path":          healthy(notes, issuer),
		"origin":        healthy("https://notes.example.com", issuer),
		"origin, slash": healthy("https://notes.example.com/", issuer),
		"tenant":        healthy(notes, tenant),
		"same host":     healthy("https://notes.example.com/v1/mcp", "https://notes.example.com"),
		"loopback":      healthy("http://127.0.0.1:8081/mcp", "http://127.0.0.1:8080"),
		"port":          healthy("https://notes.example.com:8443/mcp", issuer),
		"header alone":  healthy(notes, issuer),
		"OpenID alone":  healthy(notes, issuer),
		"JSON at GET":   healthy(notes, issuer),
	}
	shapes["JSON at GET"].with("GET "+notes, answer(200, jsonType, `{"name":"notes"}`))
	shapes["header alone"].with("GET "+places, http.NotFound)
	shapes["OpenID alone"].with("GET "+servers, http.NotFound)
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			report := examined(t, s)
			for _, f := range report.Findings {
				if f.Severity != doctor.Note {
					t.Errorf("%s: %s: %s", f.Severity, f.ID, f.Saw)
				}
			}
		})
	}
}

// animal is a server with one fault.
type animal struct {
	name   string
	id     string // of the finding that names it
	change func(*stable)
	also   string // other findings above a note that follow from the fault, with spaces
}

// TestZoo expects that each animal is named by its finding, and that nothing else is found above
// a note.
func TestZoo(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range zoo() {
		seen[a.id] = true
		t.Run(a.name, func(t *testing.T) {
			s := healthy(notes, issuer)
			a.change(s)
			report := examined(t, s)
			expectNamed(t, a, report)
		})
	}
	for _, a := range signInAnimals { // in TestSignInZoo
		seen[a.id] = true
	}
	seen["revoked-token-accepted"], seen["expired-token-accepted"], seen["expiry-not-tried"] = true, true, true // in TestSignInHealthy, TestExpiry
	for _, e := range doctor.Catalogue() {
		if !seen[e.ID] && !elsewhere[e.ID] {
			t.Errorf("no animal has the fault %s", e.ID)
		}
	}
}

// elsewhere are checks that need a network, or a registration: other tests show them.
var elsewhere = map[string]bool{
	"tls-invalid": true, "tls-ends-soon": true, "address-not-asked": true, "unreachable": true, "slow": true, "not-finished": true, "header-malformed": true,
}

func expectNamed(t *testing.T, a animal, report *doctor.Report) {
	t.Helper()
	named := false
	for _, f := range report.Findings {
		named = named || f.ID == a.id
		if f.ID != a.id && f.Severity != doctor.Note && !strings.Contains(" "+a.also+" ", " "+f.ID+" ") {
			t.Errorf("also found %s: %s", f.ID, f.Saw)
		}
		if f.Saw == "" || f.Mend == "" || f.Rule == "" {
			t.Errorf("%s is not complete: %+v", f.ID, f)
		}
	}
	if !named {
		t.Errorf("%s was not found, only %v", a.id, above(report))
	}
}

// member changes a member of a document; nil removes it.
func member(document map[string]any, name string, value any) {
	if value == nil {
		delete(document, name)
		return
	}
	document[name] = value
}

// resource and server return changes of one member.
func resource(name string, value any) func(*stable) {
	return func(s *stable) { member(s.resource, name, value) }
}

func server(name string, value any) func(*stable) {
	return func(s *stable) { member(s.server, name, value) }
}

// route returns a change of one route.
func route(at string, handler http.HandlerFunc) func(*stable) {
	return func(s *stable) { s.with(at, handler) }
}

// header returns a change of one header in the answers of a route of the healthy server.
func header(at, name, value string) func(*stable) {
	return func(s *stable) {
		s.with(at, func(w http.ResponseWriter, r *http.Request) {
			whole := *s
			whole.routes = nil
			whole.open().routes[at](&rewriter{w, name, value}, r)
		})
	}
}

// rewriter changes a header before it is sent; "" removes it.
type rewriter struct {
	http.ResponseWriter
	name, value string
}

func (r *rewriter) WriteHeader(status int) {
	r.rewrite()
	r.ResponseWriter.WriteHeader(status)
}

func (r *rewriter) Write(p []byte) (int, error) {
	r.rewrite()
	return r.ResponseWriter.Write(p)
}

func (r *rewriter) rewrite() {
	if r.value == "" {
		r.Header().Del(r.name)
		return
	}
	r.Header().Set(r.name, r.value)
}

// challenge returns a change of the challenge for requests without a token.
func challenge(format string, values ...any) func(*stable) {
	return func(s *stable) { s.challenge = fmt.Sprintf(format, values...) }
}
