package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
)

// auditedRun is a server and a gateway with audit trails, and everything that they write.
type auditedRun struct {
	t                    *testing.T
	dir, store           string
	server, gate         *running
	environ              []string
	serverFile, gateFile string
	serverAdmin          string
	secrets              map[string]string // what nobody may write, by what it is
	more                 []string          // arguments of the server, beside those of every run
}

const auditKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="

func newAuditedRun(t *testing.T) *auditedRun { return newAuditedRunWith(t, nil, nil) }

// newAuditedRunWith is newAuditedRun with more arguments. In those, DIR is the folder of the run.
func newAuditedRunWith(t *testing.T, more, moreAtGate []string) *auditedRun {
	t.Helper()
	dir := t.TempDir()
	r := &auditedRun{t: t, dir: dir, store: "file:" + filepath.Join(dir, "state"), secrets: map[string]string{}}
	r.serverFile, r.gateFile = filepath.Join(dir, "server.jsonl"), filepath.Join(dir, "gateway.jsonl")
	r.secrets["password"], r.secrets["introspection"] = "correct horse battery", "introspection-secret-of-the-resource"
	r.environ = []string{
		"AUTHZ_STORE=" + r.store, "AUTHZ_MASTER_KEYS=" + testKey(1), "AUTHZ_DEV_PASSWORD=" + r.secrets["password"],
		"AUTHZ_DEV_INTROSPECTION_SECRET=" + r.secrets["introspection"],
	}
	write(t, dir, "scopes.yaml", "tools:\n  \"*\": [notes:read]\n")
	for _, arg := range more {
		r.more = append(r.more, strings.ReplaceAll(arg, "DIR", dir))
	}
	r.start()
	args := []string{"--issuer", r.server.shown("issuer"), "--upstream", echo(t), "--audit", r.gateFile, "--scopes", filepath.Join(dir, "scopes.yaml")}
	for _, arg := range moreAtGate {
		args = append(args, strings.ReplaceAll(arg, "DIR", dir))
	}
	r.gate = startGateway(t, deadline, []string{"AUTHZ_AUDIT_KEY=" + auditKey, "AUTHZ_INTROSPECTION_SECRET=" + r.secrets["introspection"]}, args...)
	return r
}

func (r *auditedRun) start() {
	r.t.Helper()
	r.server = start(r.t, r.environ, append([]string{"--dev", "--drain", "0s", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--dev-resource", guarded, "--audit", r.serverFile}, r.more...)...)
	r.serverAdmin = r.server.shown("admin on")
}

// answer posts a form or JSON and returns the members of the answer.
func (r *auditedRun) answer(path, contentType, body string) map[string]any {
	r.t.Helper()
	res, err := http.Post(r.server.shown("issuer")+path, contentType, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	members := map[string]any{}
	_ = json.NewDecoder(res.Body).Decode(&members) // an empty answer has none
	return members
}

func (r *auditedRun) token(form url.Values) map[string]any {
	r.t.Helper()
	got := r.answer("/token", "application/x-www-form-urlencoded", form.Encode())
	for _, name := range []string{"access_token", "refresh_token"} {
		if value, _ := got[name].(string); value != "" {
			r.secrets[name+" "+form.Get("grant_type")] = value
		}
	}
	return got
}

// consents registers a client, signs in, consents, and returns the client and the code.
func (r *auditedRun) consents() (client, code string) {
	r.t.Helper()
	registered := r.answer("/register", "application/json", `{"redirect_uris":["http://127.0.0.1:49152/callback"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`)
	client, _ = registered["client_id"].(string)
	r.secrets["registration"], _ = registered["registration_access_token"].(string)
	v := newVisitor(r.t, r.server, client)
	v.request = strings.ReplaceAll(v.request, url.QueryEscape(demoResource), url.QueryEscape(guarded))
	if !v.signIn(demoPerson, r.secrets["password"]) {
		r.t.Fatal("the password does not sign in")
	}
	page := v.page()
	form := url.Values{"decision": {"allow"}}
	for _, input := range hiddenInput.FindAllStringSubmatch(page, -1) {
		form.Set(input[1], input[2])
	}
	for _, box := range regexp.MustCompile(`name="scope" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		form.Add("scope", box[1])
	}
	v.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := v.client.PostForm(v.issuer+"/consent", form)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = res.Body.Close()
	to, err := res.Location()
	if err != nil {
		r.t.Fatalf("consent: %s", res.Status)
	}
	at, _ := url.Parse(v.issuer)
	for _, cookie := range v.client.Jar.Cookies(at) {
		r.secrets["cookie "+cookie.Name] = cookie.Value
	}
	r.secrets["code"] = to.Query().Get("code")
	return client, r.secrets["code"]
}

// verb runs an audit verb and returns its output.
func (r *auditedRun) verb(want int, args ...string) string {
	r.t.Helper()
	var out, errs bytes.Buffer
	if status := run(r.t.Context(), append([]string{"audit"}, args...), []string{"AUTHZ_MASTER_KEYS=" + testKey(1)}, strings.NewReader(""), &out, &errs); status != want {
		r.t.Fatalf("audit %v: exit status %d, want %d:\n%s%s", args, status, want, out.String(), errs.String())
	}
	return out.String()
}

// TestWholeRunHasNoSecret plays a consent with all that follows at a server and a gateway, right and
// wrong, and runs verbs. It searches for every secret that was sent, answered or printed in everything
// that they wrote: trails, logs of both forms, output, metrics, spans and the store. The trails of both
// join to what was done with the grant.
func TestWholeRunHasNoSecret(t *testing.T) {
	w, spans := wiretap(t), newCollector(t)
	folder := t.TempDir()
	write(t, folder, "headers", "X-Api-Key: the-credential-at-the-upstream\n")
	w.Keep("credential at the upstream", "the-credential-at-the-upstream")
	r := newAuditedRunWith(t, []string{"--log-format", "json"}, []string{"--upstream-headers-file", filepath.Join(folder, "headers"), "--dpop", "accepted"})
	link, confidential, secret := r.operate(w)
	client, code := r.consents()
	redeem := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client}, "code": {code}, "redirect_uri": {"http://127.0.0.1:49152/callback"},
		"code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}, "resource": {guarded},
	}
	first := r.token(redeem)
	access, _ := first["access_token"].(string)
	for name, token := range map[string]string{"add_note": access, "stolen": "", "Bearer": access[:len(access)-4] + "AAAA", access: access, first["refresh_token"].(string): access} {
		sent(t, r.gate, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`"}}`, token)
	}
	refresh := url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {first["refresh_token"].(string)}}
	r.token(refresh)
	r.misuse(w, link, confidential, secret, access)
	r.token(redeem) // it was used: the grant ends
	r.answer("/revoke", "application/x-www-form-urlencoded", url.Values{"client_id": {client}, "token": {refresh.Get("refresh_token")}}.Encode())
	metrics := scrape(t, r.serverAdmin)
	r.endAll()
	r.wantNothingOf(w, spans, metrics)

	events := map[string]audit.Event{}
	for l, err := range trail.Lines(bytes.NewReader(r.read(r.serverFile))) {
		if err != nil {
			t.Fatal(err)
		}
		events[string(l.Kind)] = l.Event
	}
	grant := string(events["consented"].Grant)
	if grant == "" || events["signed-in"].Person != events["consented"].Person || events["code-reused"].Grant != audit.Grant(grant) {
		t.Fatalf("the events are %v", events)
	}
	trace := r.verb(0, "trace", grant, r.serverFile, r.gateFile)
	for _, want := range []string{" consented ", " token-issued ", " operation by=client ", "method=tools/call name=add_note", " token-refreshed ", " code-reused "} {
		if !strings.Contains(trace, want) {
			t.Errorf("the trace has no %q:\n%s", want, trace)
		}
	}
	if n := strings.Count(trace, "name=[secret]"); n != 2 || strings.Contains(trace, "stolen") {
		t.Errorf("the trace has %d hidden names, or what nobody had a token for:\n%s", n, trace)
	}
	if out := r.verb(0, "search", "--event", "operation-refused", "--json", r.gateFile); strings.Count(out, "\n") != 4 || !strings.Contains(out, `"code":"no_token"`) || !strings.Contains(out, `"code":"bad_token"`) {
		t.Errorf("refused operations: %s", out)
	}
	if out := r.verb(0, "tail", "-n", "1", "--event", "token-issued", r.serverFile); !strings.Contains(out, "grant="+grant) {
		t.Errorf("the tail is %s", out)
	}
	r.verb(0, "verify", "--issuer", r.server.shown("issuer"), "--store", r.store, r.serverFile)
	r.verb(0, "verify", "--issuer", r.server.shown("issuer"), "--audit-key", auditKey, r.serverFile, r.gateFile)
}

func (r *auditedRun) endAll() {
	r.t.Helper()
	for _, one := range []*running{r.gate, r.server} {
		if status := one.ended(r.t); status != exitDone {
			r.t.Errorf("exit status %d: %s", status, one.stderr.String())
		}
	}
}

func (r *auditedRun) read(path string) []byte {
	r.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// sinks returns all that the server and the gateway wrote.
func (r *auditedRun) sinks(metrics string) map[string]string {
	r.t.Helper()
	return map[string]string{
		"trail of the server": string(r.read(r.serverFile)), "trail of the gateway": string(r.read(r.gateFile)), "metrics": metrics,
		"log of the server": r.server.stderr.String(), "log of the gateway": r.gate.stderr.String(),
		"output of the server": r.server.stdout.String(), "output of the gateway": r.gate.stdout.String(),
		"store": string(r.read(filepath.Join(r.dir, "state"))),
	}
}

// TestAuditAcrossStarts: another process is refused, a cut-off end shows by the store, and a
// process that starts after it leaves the gap.
func TestAuditAcrossStarts(t *testing.T) {
	r := newAuditedRun(t)
	var errs bytes.Buffer
	if status := run(t.Context(), []string{"serve", "--dev", "--listen", "127.0.0.1:0", "--audit", r.serverFile}, []string{noLookout}, strings.NewReader(""), &errs, &errs); status != exitRefused || !strings.Contains(errs.String(), "another process writes this file") {
		t.Errorf("a second server ends with %d: %s", status, errs.String())
	}
	issuer := r.server.shown("issuer")
	verify := func(want int) string {
		return r.verb(want, "verify", "--issuer", issuer, "--store", r.store, r.serverFile)
	}
	r.token(url.Values{"grant_type": {"refresh_token"}, "client_id": {"none"}})
	r.endAll()
	if out := verify(0); !strings.Contains(out, "its end is the one that the store knows") {
		t.Errorf("it says %s", out)
	}
	lines := bytes.SplitAfter(r.read(r.serverFile), []byte("\n"))
	write(t, r.dir, "server.jsonl", string(bytes.Join(lines[:3], nil)))
	if out := verify(1); !strings.Contains(out, "the end is cut off") {
		t.Errorf("it says %s", out)
	}
	r.environ = append(r.environ, "AUTHZ_ISSUER="+issuer)
	r.start()
	if status := r.server.ended(t); status != exitDone || !strings.Contains(r.server.stderr.String(), "the end of the audit trail is missing") {
		t.Errorf("it ends with %d, and says %s", status, r.server.stderr.String())
	}
	if out := verify(1); !strings.Contains(out, "are missing before line 4") {
		t.Errorf("it says %s", out)
	}
	r.verb(exitUsage, "search", "--event", "made-up", r.serverFile)
	r.verb(exitUsage, "search", "--since", "yesterday", r.serverFile)
	r.verb(exitRefused, "trace", "nothing", r.serverFile)
}

// stuck is a file that cannot be written.
type stuck struct{ full bool }

func (s *stuck) Write(p []byte) (int, error) {
	if s.full {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

// TestAuditRequired: while a required trail cannot be written, what would be recorded is refused
// before it happens, readiness says so, and documents go on.
func TestAuditRequired(t *testing.T) {
	disk := &stuck{}
	opened, err := trail.Open(t.Context(), trail.Config{Output: disk})
	if err != nil {
		t.Fatal(err)
	}
	for _, required := range []bool{true, false} {
		recorded := auditTrail{opened, required}
		served := recorded.over(http.NotFoundHandler(), harmlessAtServer)
		ask := func(path string) int {
			w := httptest.NewRecorder()
			served.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
			if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
				t.Errorf("%s says nothing about the time to come back", path)
			}
			return w.Code
		}
		disk.full = true
		opened.Record(audit.Event{Kind: audit.Denied})
		wanted := map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusNotFound}[required]
		if got := ask("/token"); got != wanted {
			t.Errorf("required %t: with a full disk the answer is %d, want %d", required, got, wanted)
		}
		if got := ask("/.well-known/oauth-authorization-server"); got != http.StatusNotFound {
			t.Errorf("required %t: a document is %d", required, got)
		}
		if err := recorded.ready(alwaysReady)(t.Context()); (err != nil) != required {
			t.Errorf("required %t: readiness is %v", required, err)
		}
		disk.full = false
		if got := ask("/token"); got != http.StatusNotFound {
			t.Errorf("required %t: with room again the answer is %d", required, got)
		}
	}
}
