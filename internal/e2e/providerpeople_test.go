//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/storage/redis/redistest"
)

// masterKey opens the store of a server and of the commands that look into it.
const masterKey = "AUTHZ_MASTER_KEYS=QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="

// throughProviders is the command authz, with two providers of panva's at which people sign in.
type throughProviders struct {
	*testing.T
	*process
	company, other *panva
	client         client
	store          string
}

// startThroughProviders has company asked again about its people each second.
func startThroughProviders(t *testing.T, metadata map[string]any) *throughProviders {
	t.Helper()
	address := redistest.FreeAddress(t)
	s := &throughProviders{T: t, store: redistest.StartServer(t)}
	callback := func(id string) string { return "http://" + address + "/login/" + id + "/callback" }
	more := map[string]any{"backchannel_logout_uri": "http://" + address + "/login/company/logout", "backchannel_logout_session_required": true}
	s.company, s.other = startPanva(t, callback("company"), more), startPanva(t, callback("other"), nil)
	file := filepath.Join(t.TempDir(), "authz.yaml")
	text := fmt.Sprintf(`
sign-in:
  providers:
    - {id: company, name: Example Company, issuer: %q, client_id: gatehouse, client_secret: secret, allow: {domains: [example.com]}, recheck: 1s}
    - {id: other, name: Other Company, issuer: %q, client_id: gatehouse, client_secret: secret, allow: {anybody: true}}
`, s.company.issuer, s.other.issuer)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.process = startAuthz(t, []string{masterKey, "AUTHZ_DEV_INTROSPECTION_SECRET=" + introspectionSecret},
		"--listen", address, "--config", file, "--store", s.store)
	s.client = register(t, s.URL, flowRedirect, "Example Client")
	return s
}

// newVisitor returns a browser that stays at this server, and returns what leads elsewhere.
func (s *throughProviders) newVisitor() *http.Client {
	b := newBrowser(s.T)
	b.CheckRedirect = staysAt(s.URL)
	return b
}

// choose opens the sign-in page of the client's request and presses the button of a provider.
func (s *throughProviders) choose(b *http.Client, provider string) (decision form) {
	s.Helper()
	page, _ := load(s.T, b, newGet(s.T, s.client.authorizeURL("state of the client")))
	values := page.hidden()
	values.Set("provider", provider)
	decision, away := submit(s.T, b, page, values)
	if away != nil || len(decision.fields["decision"]) != 2 || !strings.Contains(decision.text, "Example Client") {
		s.Fatalf("there is no page with the client before the provider, but %s, %s", away, decision.text)
	}
	return decision
}

// depart allows the client, and returns the address at the provider to which that leads.
func (s *throughProviders) depart(b *http.Client, provider string) string {
	s.Helper()
	decision := s.choose(b, provider)
	values := decision.hidden()
	values.Set("decision", "allow")
	page, away := submit(s.T, b, decision, values)
	if away == nil || !strings.HasPrefix(away.String(), s.at(provider).issuer) {
		s.Fatalf("the person is not sent to the provider, but %s, %s", away, page.text)
	}
	return away.String()
}

func (s *throughProviders) at(provider string) *panva {
	if provider == "other" {
		return s.other
	}
	return s.company
}

// comeBack signs in at a provider under a name, and returns the callback, which is not opened.
func (s *throughProviders) comeBack(b *http.Client, provider, name string) *url.URL {
	s.Helper()
	return s.at(provider).visit(b, s.depart(b, provider), s.URL+"/login/", name)
}

// signIn signs in at company under a name, allows the client, and returns its code.
func (s *throughProviders) signIn(b *http.Client, name string) *flow {
	s.Helper()
	consent, _ := load(s.T, b, newGet(s.T, s.comeBack(b, "company", name).String()))
	if want := name + "@example.com (Example Company)"; !strings.Contains(consent.text, want) {
		s.Fatalf("the account %s is not shown before there is a code: %s", want, consent.text)
	}
	page, back := submit(s.T, b, consent, consent.consent("allow", everyScope))
	if back == nil || !strings.HasPrefix(back.String(), flowRedirect) {
		s.Fatalf("the person does not come back to the client, but to %s, %s", back, page.text)
	}
	check(s.T, back.Query(), "state", "state of the client")
	check(s.T, back.Query(), "iss", s.URL)
	return &flow{authz: s.process, resource: devResource, client: s.client.id, verifier: verifier, code: back.Query().Get("code")}
}

// signedIn reports whether a browser has a session.
func (s *throughProviders) signedIn(b *http.Client) bool {
	s.Helper()
	page, back := load(s.T, b, newGet(s.T, s.client.authorizeURL("state")+"&prompt=none"))
	if back == nil {
		s.Fatalf("prompt=none is answered with %s", page.text)
	}
	return back.Query().Get("error") != "login_required"
}

// records returns what "authz KIND ls" lists.
func (s *throughProviders) records(kind string) (records []map[string]any) {
	s.Helper()
	ls := exec.Command(build(s.T, "authz"), kind, "ls", "--json", "--store", s.store, "--issuer", s.URL)
	ls.Env = append(cleanEnvironment(), masterKey)
	ls.Stderr = os.Stderr
	out, err := ls.Output()
	if err != nil {
		s.Fatal(err)
	}
	if err := json.Unmarshal(out, &records); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return records
}

// open opens an address, and returns the answer with its body.
func (s *throughProviders) open(b *http.Client, address string) (*http.Response, string) {
	s.Helper()
	answer, err := b.Get(address)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer, string(body)
}

// TestSignInThroughOIDCProvider: a person signs in at panva's provider, and a client works for
// them until the provider does not know them any more: then their session and grant end, those of
// somebody else go on.
func TestSignInThroughOIDCProvider(t *testing.T) {
	t.Parallel()
	s := startThroughProviders(t, nil)
	ada, kim := s.newVisitor(), s.newVisitor()
	left, stays := s.signIn(ada, "ada"), s.signIn(kim, "kim")
	tokens, others := left.tokens(t), stays.tokens(t)
	status, tokens := left.refresh(t, tokens["refresh_token"].(string))
	if status != http.StatusOK || !left.active(t, tokens["access_token"].(string)) || !s.signedIn(ada) {
		t.Fatalf("refresh: %d %v", status, tokens)
	}

	s.company.tell("remove ada")
	until(t, "the grant ends", func() bool { return !left.active(t, tokens["access_token"].(string)) })
	left.checkDead(t, tokens["access_token"].(string), tokens["refresh_token"].(string))
	if s.signedIn(ada) {
		t.Error("the person whom the provider does not know is still signed in")
	}
	if status, answer := stays.refresh(t, others["refresh_token"].(string)); status != http.StatusOK || !s.signedIn(kim) {
		t.Errorf("somebody else's grant: %d %v", status, answer)
	}
	if n := len(s.records("grant")); n != 1 {
		t.Errorf("%d grants are left, want one", n)
	}
}

// TestOIDCProviderRestsAndRotates: while panva's provider is down, what was begun goes on and new
// sign-ins wait; after it the people whom it removed meanwhile lose their grants, and its new key
// counts.
func TestOIDCProviderRestsAndRotates(t *testing.T) {
	t.Parallel()
	s := startThroughProviders(t, nil)
	ada, kim := s.newVisitor(), s.newVisitor()
	left, stays := s.signIn(ada, "ada"), s.signIn(kim, "kim")
	tokens, others := left.tokens(t), stays.tokens(t)

	s.company.tell("down")
	until(t, "both were asked about in vain", func() bool {
		log := s.Stderr()
		return strings.Count(log, "it is not known whether a person may still sign in") >= 2
	})
	status, tokens := left.refresh(t, tokens["refresh_token"].(string))
	if status != http.StatusOK || !s.signedIn(ada) || !s.signedIn(kim) {
		t.Errorf("while the provider is down: refresh %d %v", status, tokens)
	}
	if page, _ := load(t, s.newVisitor(), newGet(t, s.client.authorizeURL("state"))); len(page.fields["username"]) != 1 {
		t.Errorf("while the provider is down nobody signs in with a password: %s", page.text)
	}

	s.company.tell("remove ada")
	s.company.tell("rotate")
	s.company.tell("up")
	until(t, "the grant of the person who was removed meanwhile ends", func() bool { return !left.active(t, tokens["access_token"].(string)) })
	left.checkDead(t, tokens["access_token"].(string), tokens["refresh_token"].(string))
	if status, answer := stays.refresh(t, others["refresh_token"].(string)); status != http.StatusOK || !s.signedIn(kim) {
		t.Errorf("somebody else's grant: %d %v", status, answer)
	}
	s.signIn(s.newVisitor(), "kim").tokens(t)
}

// TestOIDCProviderLogsOut: a logout at panva's provider ends the session that began with it here, not
// the same person's in another browser, and not what works for them.
func TestOIDCProviderLogsOut(t *testing.T) {
	t.Parallel()
	s := startThroughProviders(t, nil)
	one, two := s.newVisitor(), s.newVisitor()
	held := s.signIn(one, "ada").tokens(t)["access_token"].(string)
	s.signIn(two, "ada")
	s.company.logOut(one)
	until(t, "the session ends", func() bool { return !s.signedIn(one) })
	if !s.signedIn(two) {
		t.Error("the session in another browser ended")
	}
	if !(&flow{authz: s.process, resource: devResource}).active(t, held) {
		t.Error("the grant ended")
	}
}
