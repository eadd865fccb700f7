package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// flow is one public client that gets tokens for one resource, over plain HTTP.
type flow struct {
	authz    *process
	resource string
	client   string
	verifier string
	code     string
}

const flowRedirect = "http://127.0.0.1:4711/callback"

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
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	f := &flow{authz: authz, resource: resource, client: answer["client_id"].(string), verifier: base64.RawURLEncoding.EncodeToString(secret)}
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

func status(t testing.TB, resource, token string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, resource, bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)))
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
	return resp.StatusCode
}

// A token for one server is refused by another one of the same issuer.
func TestTokenIsForOneServer(t *testing.T) {
	first, second := freeAddress(t), freeAddress(t)
	authz := startAuthz(t, nil, "--dev-resource", "http://"+first+"/mcp", "--dev-resource", "http://"+second+"/mcp")
	startDemo(t, nil, "--listen", first, "--issuer", authz.URL)
	startDemo(t, nil, "--listen", second, "--issuer", authz.URL)
	token := newFlow(t, authz, "http://"+first+"/mcp").tokens(t)["access_token"].(string)
	if got := status(t, "http://"+first+"/mcp", token); got == http.StatusUnauthorized || got == http.StatusForbidden {
		t.Errorf("its own server answers %d", got)
	}
	if got := status(t, "http://"+second+"/mcp", token); got != http.StatusUnauthorized {
		t.Errorf("the other server answers %d, want 401", got)
	}
}

// A code that is used twice ends its family: the tokens of the first use die.
func TestReplayedCodeEndsTheFamily(t *testing.T) {
	authz := startAuthz(t, nil)
	f := newFlow(t, authz, "http://127.0.0.1:8081/mcp")
	tokens := f.tokens(t)
	if status, answer := f.redeem(t); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("second use: %d %v", status, answer)
	}
	if status, answer := f.refresh(t, tokens["refresh_token"].(string)); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("refresh after replay: %d %v", status, answer)
	}
}

// A refresh token that comes back after its window ends its family.
func TestStaleRefreshTokenEndsTheFamily(t *testing.T) {
	authz := startAuthz(t, nil, "--refresh-window", "1s")
	f := newFlow(t, authz, "http://127.0.0.1:8081/mcp")
	first := f.tokens(t)["refresh_token"].(string)
	_, answer := f.refresh(t, first)
	second, _ := answer["refresh_token"].(string)
	if second == "" {
		t.Fatalf("refresh: %v", answer)
	}
	deadline := time.Now().Add(patience)
	for { // inside the window the first token still gets the same answer
		status, again := f.refresh(t, first)
		if status == http.StatusBadRequest {
			break
		}
		if again["refresh_token"] != second {
			t.Fatalf("inside the window: %d %v, want the same successor", status, again)
		}
		if time.Now().After(deadline) {
			t.Fatal("the window does not end")
		}
	}
	if status, answer := f.refresh(t, second); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("the successor after the reuse: %d %v", status, answer)
	}
}

// Clients refresh at the same time: all of them get the same successor, and it works.
func TestConcurrentRefreshesAgree(t *testing.T) {
	authz := startAuthz(t, nil)
	f := newFlow(t, authz, "http://127.0.0.1:8081/mcp")
	token := f.tokens(t)["refresh_token"].(string)
	var wg sync.WaitGroup
	successors := make([]any, 64)
	for i := range successors {
		wg.Go(func() {
			if status, answer := f.refresh(t, token); status == http.StatusOK {
				successors[i] = answer["refresh_token"]
			}
		})
	}
	wg.Wait()
	for i, successor := range successors {
		if successor == nil || successor != successors[0] {
			t.Fatalf("refresh %d got %v, refresh 0 got %v", i, successor, successors[0])
		}
	}
	if status, answer := f.refresh(t, successors[0].(string)); status != http.StatusOK {
		t.Errorf("the successor: %d %v", status, answer)
	}
}
