package authz_test

// A flow is a transcript in testdata/flows, one folder per specification. It is a txtar
// archive: a text that names the rule and the section of its specification, then sections
// that are played from top to bottom against a server of its own. Lines that start with # are comments. $NAME is a variable.
//
// Sections that send a request. What follows the colon is for the reader.
//
//	request: …     "METHOD PATH", then lines; no cookies, as programs do it
//	redeem: …      POST /token that exchanges $code, with everything right
//	refresh: …     POST /token that uses $refresh_token, with everything right
//	introspect: …  POST /introspect of $access_token by the notes server
//	revoke: …      POST /revoke of $refresh_token
//	ask: …         GET /authorize with everything right, in the browser
//	open: …        "METHOD PATH", then lines; in the browser, with its cookies
//	follow: …      the browser goes where the last answer sent it
//	submit: …      the browser sends the form of the last page, lines replace inputs
//	authorize: …   the whole way through sign-in and consent; keeps $code; the answer is
//	               the redirect back to the client. Also "decision=deny" and "untick=SCOPE"
//	tokens: …      authorize, then redeem, naming the resources if there are several; keeps
//	               $code, $access_token, $refresh_token
//
// Their lines:
//
//	client NAME    the request is that of this client of testClients: its id, its redirect
//	               URI, its secret by the method that it registered
//	name=value     a parameter; the first line of a name replaces what was there, further
//	               ones add to it
//	-name          the parameter is left out
//	Name: value    a header; "Basic: ID SECRET" is HTTP Basic as it stands, "Encoded: ID
//	               SECRET" the percent-encoded form; "-Name:" leaves a header out
//	!              everything below is the body, byte for byte
//
// Every request but tokens and a last authorize is followed by its expectation:
//
//	answers STATUS             a success
//	page STATUS                a page for people, with all its headers
//	redirects URL              303 to that URL, whatever its query
//	refuses STATUS CODE        an error for programs: JSON, a sentence, not cached, and the
//	                           store was not written to at all
//	shows STATUS CODE          an error page: nothing is redirected or written
//	sends back CODE [URL]      303 to the client's redirect URI with error, a sentence, iss
//	                           and state, without a code; nothing written
//
// "and writes" at the end of one of the last three expects that the store was written
// to. Further lines of an expectation:
//
//	header NAME = VALUE     header NAME ~ PART     no header NAME
//	json MEMBER = VALUE     json MEMBER ~ PART     no json MEMBER     json is TEXT
//	query MEMBER = VALUE    query MEMBER ~ PART    no query MEMBER    of the Location
//	claim MEMBER = VALUE    no claim MEMBER        jose MEMBER = VALUE    of the access token
//	body has TEXT           body lacks TEXT        log has TEXT
//	keep json MEMBER as VARIABLE                   keep query MEMBER as VARIABLE
//
// Sections that change the state of the test:
//
//	setup          first of all; lines: issuer URL, registration closed, refresh-window
//	               DURATION, refresh-idle DURATION, refresh-max DURATION, access-token-ttl
//	               DURATION, session-idle DURATION, consent-remember off, no default
//	               resource, one resource
//	client NAME    RFC 7591 metadata in JSON, stored as if it had registered itself;
//	               "client NAME configured" as if the operator had entered it
//	browser NAME   go on in another browser
//	advance 61s    the clock moves
//	store down     nothing reaches the store until "store up"
//	restart        a new process over the same store
//	disable NAME   the person is disabled; "remove NAME" removes, "add NAME" adds one
//	let NAME VALUE a variable

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

func TestFlows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/flows/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no flows: %v", err)
	}
	good, bad := 0, 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "testdata/flows/"), ".txtar")
		if len(strings.TrimSpace(string(archive.Comment))) < 20 {
			t.Errorf("%s does not say what it shows", file)
		}
		g, b := tally(archive)
		good, bad = good+g, bad+b
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runFlow(t, archive)
		})
	}
	if bad <= good {
		t.Errorf("%d expectations of a refusal and %d of a success: refusals must outnumber successes", bad, good)
	}
	t.Logf("%d flows, %d successes, %d refusals", len(files), good, bad)
}

// tally counts the expectations of successes and of refusals.
func tally(archive *txtar.Archive) (good, bad int) {
	for _, section := range archive.Files {
		if section.Name != "expect" {
			continue
		}
		switch word, _, _ := strings.Cut(lines(section.Data)[0], " "); word {
		case "refuses", "shows", "sends":
			bad++
		default:
			good++
		}
	}
	return good, bad
}

// flow is a transcript that is being played.
type flow struct {
	t        *testing.T
	h        *harness
	vars     map[string]string
	cast     map[string]testClient
	browsers map[string]*browser
	browser  *browser

	at       string // the section, for messages
	answer   reply
	expected bool  // the answer was checked
	writes   int64 // of the store, during the last request
	redirect string
	state    string
	settings []string
}

func runFlow(t *testing.T, archive *txtar.Archive) {
	f := &flow{t: t, cast: testClients(), vars: map[string]string{}, browsers: map[string]*browser{}, expected: true}
	sections := archive.Files
	if len(sections) > 0 && sections[0].Name == "setup" {
		f.settings = lines(sections[0].Data)
		sections = sections[1:]
	}
	f.begin()
	acts := f.acts()
	for i, section := range sections {
		verb, _, _ := strings.Cut(section.Name, ":")
		words := strings.Fields(verb)
		f.at = section.Name
		if section.Name == "expect" {
			f.at = "expect after " + sections[i-1].Name
		}
		act, ok := acts[words[0]]
		if !ok {
			t.Fatalf("there is no section %q", section.Name)
		}
		act(words[1:], section.Data)
	}
	f.checkExpected()
}

func lines(data []byte) []string {
	var out []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimRight(line, "\n"); strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

func (f *flow) fatalf(format string, args ...any) {
	f.t.Helper()
	f.t.Fatalf("-- "+f.at+" --\n"+format, args...)
}

func (f *flow) errorf(format string, args ...any) {
	f.t.Helper()
	f.t.Errorf("-- "+f.at+" --\n"+format+"\n%s", append(args, f.answer)...)
}

func (f *flow) begin() {
	b := setup{issuer: secureIssuer}
	for _, line := range f.settings {
		if issuer, ok := strings.CutPrefix(line, "issuer "); ok {
			b.issuer = issuer
		}
	}
	b.config = func(c *authz.Config) { f.configure(c) }
	f.h = newHarness(f.t, b)
	f.browser = f.h.newBrowser()
	f.browsers["first"] = f.browser
	for name, value := range map[string]string{
		"issuer": f.h.issuer, "notes": notes, "tasks": tasks, "notes_secret": notesSecret, "tasks_secret": tasksSecret,
		"verifier": verifier, "challenge": challenge, "state": "af0ifjsldkj", "person": personName, "password": personPassword,
		"long": strings.Repeat("a", 5000), "huge": strings.Repeat("a", 70<<10),
	} {
		f.vars[name] = value
	}
	for name, m := range f.cast {
		f.know(name, m)
	}
}

func (f *flow) know(name string, m testClient) {
	f.cast[name] = m
	f.vars[name], f.vars[name+"_redirect"], f.vars[name+"_secret"] = m.ID, m.redirect, m.secret
}

func (f *flow) configure(c *authz.Config) {
	for _, line := range f.settings {
		key, value, _ := strings.Cut(line, " ")
		d, _ := time.ParseDuration(value)
		switch {
		case key == "issuer":
		case key == "registration":
			c.Registration = authz.Registration(value)
		case key == "refresh-window":
			c.RefreshWindow = d
		case key == "refresh-idle":
			c.RefreshIdle = d
		case key == "refresh-max":
			c.RefreshMax = d
		case key == "access-token-ttl":
			c.AccessTokenTTL = d
		case key == "session-idle":
			c.SessionIdle = d
		case line == "consent-remember off":
			c.ConsentRemember = []time.Duration{}
		case line == "no default resource":
			c.Resources[0].Default = false
		case line == "one resource":
			c.Resources = c.Resources[:1]
		default:
			f.t.Fatalf("there is no setting %q", line)
		}
	}
}

var (
	variable = regexp.MustCompile(`\$([a-z_0-9]+)|\$\{([a-z_0-9]+)\}`)
	escaped  = regexp.MustCompile(`\\x[0-9a-f]{2}`)
)

// expand replaces variables and then escapes.
func (f *flow) expand(s string) string {
	f.t.Helper()
	s = variable.ReplaceAllStringFunc(s, func(name string) string {
		value, ok := f.vars[strings.Trim(name, "${}")]
		if !ok {
			f.fatalf("the variable %s has no value", name)
		}
		return value
	})
	return escaped.ReplaceAllStringFunc(s, func(code string) string {
		b, err := hex.DecodeString(code[2:])
		f.must(err)
		return string(b)
	})
}

// checkExpected fails if the last answer was not checked.
func (f *flow) checkExpected() {
	f.t.Helper()
	if !f.expected {
		f.fatalf("the request before this has no expectation")
	}
}

// addClient stores a client from metadata in JSON.
func (f *flow) addClient(words []string, data []byte) {
	f.t.Helper()
	m := testClient{Client: storage.Client{ID: words[0] + "-client", Source: storage.ClientRegistered}}
	if slices.Contains(words, "configured") {
		m.Source = storage.ClientConfigured
	}
	decoder := json.NewDecoder(strings.NewReader(f.expand(string(data))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m.Metadata); err != nil {
		f.fatalf("%v", err)
	}
	if m.Metadata.GrantTypes == nil {
		m.Metadata.GrantTypes = bothGrants
	}
	if m.Metadata.TokenEndpointAuthMethod == "" {
		m.Metadata.TokenEndpointAuthMethod = metadata.AuthMethodNone
	}
	if len(m.Metadata.RedirectURIs) > 0 {
		m.redirect = m.Metadata.RedirectURIs[0]
	}
	f.h.addClient(m.Client)
	f.know(words[0], m)
}

// act performs a section, given the words of its name and its lines.
type act func(words []string, data []byte)

func (f *flow) acts() map[string]act {
	acts := f.requests()
	maps.Copy(acts, f.changes())
	acts["expect"] = func(_ []string, data []byte) { f.expect(data) }
	return acts
}

// requests returns the sections that send a request.
func (f *flow) requests() map[string]act {
	return map[string]act{
		"request":   func(_ []string, data []byte) { f.free(data, false) },
		"open":      func(_ []string, data []byte) { f.free(data, true) },
		"ask":       func(_ []string, data []byte) { f.send(f.asking(data)) },
		"submit":    func(_ []string, data []byte) { f.submitted(data) },
		"authorize": func(_ []string, data []byte) { f.authorize(data) },
		"tokens":    func(_ []string, data []byte) { f.tokens(data) },
		"follow": func(_ []string, _ []byte) {
			target := f.browser.last.url.ResolveReference(f.browser.last.location(f.t)).String()
			f.send(&message{method: http.MethodGet, path: target, browser: true})
		},
		"redeem": func(_ []string, data []byte) {
			c := f.clientOf(data)
			values := redemption(c, f.vars["code"])
			if f.redirect != "" {
				values.Set("redirect_uri", f.redirect)
			}
			f.known("/token", values, &c, data)
		},
		"refresh": func(_ []string, data []byte) {
			c := f.clientOf(data)
			f.known("/token", form("grant_type", "refresh_token", "refresh_token", f.vars["refresh_token"]), &c, data)
		},
		"revoke": func(_ []string, data []byte) {
			c := f.clientOf(data)
			f.known("/revoke", form("token", f.vars["refresh_token"]), &c, data)
		},
		"introspect": func(_ []string, data []byte) {
			m := &message{method: http.MethodPost, path: "/introspect", values: form("token", f.vars["access_token"]), header: http.Header{}}
			if !strings.Contains(string(data), "Basic: ") && !strings.Contains(string(data), "Encoded: ") {
				m.header.Set("Authorization", basicHeader(notes+" "+notesSecret))
			}
			f.fill(m, data)
			f.send(m)
		},
	}
}

// changes returns the sections that change the state of the test.
func (f *flow) changes() map[string]act {
	return map[string]act{
		"client": func(words []string, data []byte) { f.addClient(words, data) },
		"browser": func(words []string, _ []byte) {
			if f.browsers[words[0]] == nil {
				f.browsers[words[0]] = f.h.newBrowser()
			}
			f.browser = f.browsers[words[0]]
		},
		"advance": func(words []string, _ []byte) {
			d, err := time.ParseDuration(words[0])
			f.must(err)
			f.h.clock.advance(d)
		},
		"store":   func(words []string, _ []byte) { f.h.faults.SetDown(words[0] == "down") },
		"restart": func(_ []string, _ []byte) { f.h.restart() },
		"disable": func(words []string, _ []byte) { f.must(admin.DisableUser(f.t.Context(), f.h.store, words[0])) },
		"remove":  func(words []string, _ []byte) { f.must(admin.RemoveUser(f.t.Context(), f.h.store, words[0])) },
		"add":     func(words []string, _ []byte) { f.h.addPerson(words[0]) },
		"let":     func(words []string, _ []byte) { f.vars[words[0]] = f.expand(strings.Join(words[1:], " ")) },
	}
}

func (f *flow) must(err error) {
	f.t.Helper()
	if err != nil {
		f.fatalf("%v", err)
	}
}

// TestFlowFolders checks that every specification has its folder.
func TestFlowFolders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"rfc6749", "rfc7636", "rfc7009", "rfc7662", "rfc8707", "rfc9207", "rfc9068", "rfc8414", "rfc7591", "oauth21", "oidc-prompt", "fosite", "browser", "outage", "remember",
	} {
		entries, err := os.ReadDir(filepath.Join("testdata/flows", name))
		if err != nil || len(entries) == 0 {
			t.Errorf("no flows for %s: %v", name, err)
		}
	}
}
