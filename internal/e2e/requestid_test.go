package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/storage/redis/redistest"
)

// TestOneIDJoinsTheRealPrograms: the id in a response finds the request in the logs of the
// gateway, of the server behind it and of the authorization server.
func TestOneIDJoinsTheRealPrograms(t *testing.T) {
	received := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received <- r.Header.Get("X-Request-Id")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	t.Cleanup(upstream.Close)
	address := redistest.FreeAddress(t)
	resource := "http://" + address + "/mcp"
	server := startAuthz(t, []string{"AUTHZ_DEV_INTROSPECTION_SECRET=" + introspectionSecret}, "--dev-resource", resource)
	token := newFlow(t, server, resource).tokens(t)["access_token"].(string)

	gateway := startGateway(t, server.URL, upstream.URL, "--listen", address)
	if id := callThrough(t, gateway, token, http.StatusOK); id != <-received {
		t.Error("the server behind gets another id than the client")
	}
	gateway.Stop(t)

	gateway = start(t, build(t, "authz"), address, []string{"AUTHZ_INTROSPECTION_SECRET=not the secret of this resource"}, []string{
		"gateway", "--listen", address, "--resource", resource, "--upstream", upstream.URL + "/mcp", "--issuer", server.URL})
	id := callThrough(t, gateway, token, http.StatusServiceUnavailable)
	gateway.awaitOutput(t, " request="+id)
	server.awaitOutput(t, " parent="+id)
}

// callThrough makes a call with a token and returns the id in the response.
func callThrough(t *testing.T, to *process, token string, status int) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, to.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-Id", "of-the-client")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	id := resp.Header.Get("X-Request-Id")
	if resp.StatusCode != status || len(id) != 26 {
		t.Fatalf("%s about %q; want %d", resp.Status, id, status)
	}
	return id
}
