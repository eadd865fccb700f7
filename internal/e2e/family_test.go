package e2e

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// flow is one public client that gets tokens for one resource, over plain HTTP.
type flow struct {
	authz    *process
	resource string
	client   string
	verifier string
	code     string
}

const (
	flowRedirect = "http://127.0.0.1:4711/callback"
	// devResource is the resource of a --dev server by default.
	devResource = "http://127.0.0.1:8081/mcp"
)

// newFlow registers a client and has the person allow it.
func newFlow(t testing.TB, authz *process, resource string) *flow {
	t.Helper()
	registration := `{"redirect_uris":["` + flowRedirect + `"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`
	resp, err := http.Post(authz.URL+"/register", "application/json", strings.NewReader(registration))
	if err != nil {
		t.Fatal(err)
	}
	status, answer := readJSON(t, resp)
	if status != http.StatusCreated {
		t.Fatalf("register: %d %v", status, answer)
	}
	return flowOf(t, authz, answer["client_id"].(string), resource)
}

// flowOf has the person allow a client that exists.
func flowOf(t testing.TB, authz *process, client, resource string) *flow {
	t.Helper()
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	f := &flow{authz: authz, resource: resource, client: client, verifier: base64.RawURLEncoding.EncodeToString(secret)}
	sum := sha256.Sum256([]byte(f.verifier))
	redirect := allow(t, newBrowser(t), authz.URL+"/authorize?"+url.Values{
		"response_type": {"code"}, "client_id": {f.client}, "redirect_uri": {flowRedirect}, "resource": {resource},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "state": {"s"},
	}.Encode())
	if f.code = redirect.Query().Get("code"); f.code == "" {
		t.Fatalf("no code in %s", redirect)
	}
	return f
}

// introspectionSecret lets the resource servers of a --dev server ask about tokens.
const introspectionSecret = "introspection secret of the tests"

// startIntrospected is startAuthz with the introspection secret that flow.active uses.
func startIntrospected(t testing.TB, args ...string) *process {
	t.Helper()
	return startAuthz(t, []string{"AUTHZ_DEV_INTROSPECTION_SECRET=" + introspectionSecret}, args...)
}

// active reports whether an access token is active, as a resource server asks (RFC 7662).
func (f *flow) active(t testing.TB, token string) bool {
	t.Helper()
	form := url.Values{"token": {token}}.Encode()
	req, err := http.NewRequest(http.MethodPost, f.authz.URL+"/introspect", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(f.resource), url.QueryEscape(introspectionSecret))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	status, answer := readJSON(t, resp)
	active, ok := answer["active"].(bool)
	if status != http.StatusOK || !ok {
		t.Fatalf("introspect: %d %v", status, answer)
	}
	return active
}

// checkDead expects that neither token is accepted.
func (f *flow) checkDead(t testing.TB, access, refresh string) {
	t.Helper()
	if f.active(t, access) {
		t.Error("the access token of the family is still active")
	}
	if status, answer := f.refresh(t, refresh); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("the refresh token of the family: %d %v, want invalid_grant", status, answer)
	}
}

func readJSON(t testing.TB, resp *http.Response) (int, map[string]any) {
	t.Helper()
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	return resp.StatusCode, answer
}

func (f *flow) token(t testing.TB, values url.Values) (int, map[string]any) {
	t.Helper()
	values.Set("client_id", f.client)
	resp, err := http.PostForm(f.authz.URL+"/token", values)
	if err != nil {
		t.Fatal(err)
	}
	return readJSON(t, resp)
}

func (f *flow) redeem(t testing.TB) (int, map[string]any) {
	t.Helper()
	return f.token(t, url.Values{"grant_type": {"authorization_code"}, "code": {f.code}, "code_verifier": {f.verifier}, "redirect_uri": {flowRedirect}})
}

func (f *flow) refresh(t testing.TB, token string) (int, map[string]any) {
	t.Helper()
	return f.token(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// tokens redeems the code.
func (f *flow) tokens(t testing.TB) map[string]any {
	t.Helper()
	status, answer := f.redeem(t)
	if status != http.StatusOK {
		t.Fatalf("redeem: %d %v", status, answer)
	}
	return answer
}

// hello starts a session with a protected server and returns its answer, read and closed.
func hello(t testing.TB, resource, token string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, resource, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp
}

// A token for one server is refused by another one of the same issuer, whose introspection request
// gets no information about it either.
func TestTokenIsForOneServer(t *testing.T) {
	first, second := redistest.FreeAddress(t), redistest.FreeAddress(t)
	authz := startIntrospected(t, "--dev-resource", "http://"+first+"/mcp", "--dev-resource", "http://"+second+"/mcp")
	startDemo(t, nil, "--listen", first, "--issuer", authz.URL)
	startDemo(t, nil, "--listen", second, "--issuer", authz.URL)
	f := newFlow(t, authz, "http://"+first+"/mcp")
	token := f.tokens(t)["access_token"].(string)
	if resp := hello(t, "http://"+first+"/mcp", token); resp.StatusCode != http.StatusOK {
		t.Errorf("its own server answers %s", resp.Status)
	}
	resp := hello(t, "http://"+second+"/mcp", token)
	if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(got, `error="invalid_token"`) {
		t.Errorf("the other server answers %s %q, want 401 and invalid_token", resp.Status, got)
	}
	other := *f
	other.resource = "http://" + second + "/mcp"
	if !f.active(t, token) || other.active(t, token) {
		t.Errorf("introspection says active %t to its own server and %t to the other one", f.active(t, token), other.active(t, token))
	}
}

// A code that is used twice ends its family: the tokens of the first use are revoked. A use that
// fails a check does not count and ends nothing.
func TestReplayedCodeEndsTheFamily(t *testing.T) {
	authz := startIntrospected(t)
	f := newFlow(t, authz, devResource)
	tokens := f.tokens(t)
	access, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)

	thief := *f
	thief.verifier = strings.Repeat("x", 43)
	if status, answer := thief.redeem(t); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("second use without the verifier: %d %v", status, answer)
	}
	if !f.active(t, access) {
		t.Fatal("a replay that cannot prove anything has ended the family")
	}
	if status, answer := f.redeem(t); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("second use: %d %v", status, answer)
	}
	f.checkDead(t, access, refresh)
}

// A refresh token that comes back after its window ends its family.
func TestStaleRefreshTokenEndsTheFamily(t *testing.T) {
	authz := startIntrospected(t, "--refresh-window", "1s")
	f := newFlow(t, authz, devResource)
	first := f.tokens(t)["refresh_token"].(string)
	status, answer := f.refresh(t, first)
	second, _ := answer["refresh_token"].(string)
	access, _ := answer["access_token"].(string)
	if status != http.StatusOK || second == "" || !f.active(t, access) {
		t.Fatalf("refresh: %d %v", status, answer)
	}
	deadline := time.Now().Add(patience)
	for { // inside the window the first token still gets the same answer
		status, again := f.refresh(t, first)
		if status == http.StatusBadRequest && again["error"] == "invalid_grant" {
			break
		}
		if status != http.StatusOK || again["refresh_token"] != second {
			t.Fatalf("inside the window: %d %v, want the same successor", status, again)
		}
		if time.Now().After(deadline) {
			t.Fatal("the window does not end")
		}
	}
	f.checkDead(t, access, second)
}

// Clients refresh at the same time: all of them get the same successor, and it works.
func TestConcurrentRefreshesAgree(t *testing.T) {
	authz := startIntrospected(t)
	f := newFlow(t, authz, devResource)
	token := f.tokens(t)["refresh_token"].(string)
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {f.client}}
	var wg sync.WaitGroup
	var answers [64]*http.Response
	var errs [64]error
	for i := range answers {
		wg.Go(func() { answers[i], errs[i] = http.PostForm(authz.URL+"/token", form) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	successors := map[string]int{}
	for i, resp := range answers {
		status, answer := readJSON(t, resp)
		successor, _ := answer["refresh_token"].(string)
		access, _ := answer["access_token"].(string)
		if status != http.StatusOK || successor == "" || !f.active(t, access) {
			t.Fatalf("refresh %d: %d %v", i, status, answer)
		}
		successors[successor]++
	}
	if len(successors) != 1 || successors[token] != 0 {
		t.Fatalf("the answers hold %d different refresh tokens, want one new one", len(successors))
	}
	for successor := range successors {
		if status, answer := f.refresh(t, successor); status != http.StatusOK {
			t.Errorf("the successor: %d %v", status, answer)
		}
	}
}
