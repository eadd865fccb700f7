package main

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
)

// TestVisit is the browser of TestDoctorSignIn: it opens the address that is its argument.
func TestVisit(t *testing.T) {
	if flag.NArg() == 0 {
		t.Skip("a browser for TestDoctorSignIn")
	}
	if os.Getenv("AUTHZ_TOKEN") != "" {
		t.Fatal("the browser has our secrets")
	}
	answer, err := http.Get(flag.Arg(0))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}

// TestDoctorSignIn: the address at which a person signs in is printed and opened by the command of
// BROWSER, which inherits no setting of ours. The answer comes back to the doctor.
func TestDoctorSignIn(t *testing.T) {
	t.Setenv("BROWSER", os.Args[0]+" -test.run=^TestVisit$")
	t.Setenv("AUTHZ_TOKEN", "a token")
	at := patient(t)
	mux := http.NewServeMux()
	signIn := httptest.NewServer(mux)
	t.Cleanup(signIn.Close)
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		back := url.Values{"code": {"code-of-the-test"}, "state": {q.Get("state")}}
		if q.Get("client_id") == "known" {
			http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
		}
	})
	mux.Handle("/.well-known/oauth-authorization-server", metadataOf(map[string]any{
		"issuer": signIn.URL, "authorization_endpoint": signIn.URL + "/authorize", "token_endpoint": at + "/token",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "client_id_metadata_document_supported": true,
	}))
	mux.Handle("/.well-known/oauth-protected-resource/mcp", metadataOf(map[string]any{"resource": signIn.URL + "/mcp", "authorization_servers": []string{signIn.URL}}))
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	code, stdout, stderr := diagnosed(t, signIn.URL+"/mcp", "--sign-in", "--client-id", "known")
	if code != exitRefused || !strings.Contains(stdout, "error code-refused") || !strings.Contains(stderr, "\n"+signIn.URL+"/authorize?") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	if strings.Contains(stdout+stderr, "code-of-the-test") {
		t.Errorf("the code is shown:\n%s\n%s", stdout, stderr)
	}
	if code, _, _ := diagnosed(t, at+"/well", "--client-id", "known"); code != exitUsage {
		t.Errorf("--client-id without --sign-in: exit %d", code)
	}
}

func metadataOf(members map[string]any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(members)
	})
}
