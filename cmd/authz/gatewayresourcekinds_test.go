package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/middleware/middlewaretest"
)

// asked is a provider that answers questions about tokens, as Google and GitHub do.
type asked struct {
	url string
	mu  sync.Mutex
	all []string // the requests: method, path, Authorization and body
}

func newAsked(t *testing.T) *asked {
	t.Helper()
	a := &asked{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.all = append(a.all, strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("Authorization"), string(body)}, " "))
		a.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "/applications/") {
			_, _ = io.WriteString(w, `{"scopes":["repo"],"app":{"client_id":"app-1"},"user":{"id":583231},"expires_at":null,"created_at":"2011-09-06T17:26:27Z"}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"aud":"app-2","azp":"app-2","sub":"110169484474386276334","scope":"openid","exp":"%d"}`, time.Now().Add(time.Hour).Unix())
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// asked returns what was asked so far.
func (a *asked) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

// Tokens of Google and of GitHub are accepted at the resource whose issuer says so, and at no other.
func TestGatewayResourcesOfProviders(t *testing.T) {
	github, google, upstream := newAsked(t), newAsked(t), echo(t)
	entry := func(resource, issuers string) string {
		return "  - resource: " + resource + "\n    upstream: " + upstream + "\n    issuers:\n" + issuers
	}
	ofGitHub := "      - url: " + github.url + "\n        profile: github\n        insecure-no-audience: true\n        audiences: app-1\n" +
		"        introspection: {endpoint: \"" + github.url + "/api\", opaque: true, client-id: app-1, client-secret: 0123456789abcdef, per-hour: 50}\n"
	ofGoogle := "      - url: " + google.url + "\n        profile: google\n        insecure-no-audience: true\n        audiences: app-2\n" +
		"        introspection: {endpoint: \"" + google.url + "/tokeninfo\", opaque: true}\n"
	r := startSeveral(t, "resources:\n"+entry(notesURL, ofGitHub)+entry(filesURL, ofGoogle))
	for _, where := range []string{notesURL, filesURL} {
		if !strings.Contains(r.stderr.String(), "resource "+where+": insecure-no-audience") {
			t.Errorf("no warning about %s:\n%s", where, r.stderr.String())
		}
	}
	const hubToken, googleToken = "gho_16C7e42F292c6912E7710c838347Ae178B4a", "ya29.a0AfH6SMBx-jA_k1b2C3d4E5f6G7h8I9"
	for _, tt := range []struct {
		at, token string
		status    int
		subject   string
	}{
		{notesURL, hubToken, 200, "583231"}, {filesURL, googleToken, 200, "110169484474386276334"},
		{notesURL, googleToken, 401, ""}, {filesURL, hubToken, 401, ""},
	} {
		if status, _, got := at(t, r, "POST", tt.at, tt.token); status != tt.status || got.Get("Gatehouse-Subject") != tt.subject {
			t.Errorf("%.4s at %s: %d for %q", tt.token, tt.at, status, got.Get("Gatehouse-Subject"))
		}
	}
	if got := github.asked(); len(got) != 1 || !strings.HasPrefix(got[0], "POST /api/applications/app-1/token Basic ") || !strings.Contains(got[0], hubToken) {
		t.Errorf("GitHub is asked %q", got)
	}
	if got := google.asked(); len(got) != 1 || got[0] != "POST /tokeninfo Bearer "+googleToken+" " {
		t.Errorf("Google is asked %q", got)
	}
	for entries, want := range map[string]string{
		strings.Replace(ofGoogle, "opaque: true", "opaque: true, client-id: a, client-secret: 0123456789abcdef", 1):      "the question needs no credentials",
		strings.Replace(ofGitHub, "client-secret: 0123456789abcdef, ", "", 1):                                            "the question needs the client id and the secret of the application",
		strings.Replace(ofGitHub, "audiences: app-1", "audiences: [app-1, app-9]", 1):                                    "name its client id, and no other, in Audiences",
		strings.Replace(ofGoogle, "        insecure-no-audience: true\n", "", 1):                                         "its tokens have no audience",
		strings.Replace(ofGoogle, "opaque: true", "fresh: 5s", 1):                                                        "its tokens are opaque",
		"      - url: https://auth.example.com\n        introspection: {client-secret: 0123456789abcdef, per-hour: 5}\n": "PerHour is for the profiles Google and GitHub alone",
	} {
		if _, _, err := planned(t, "resources:\n"+entry(notesURL, entries)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", entries, err, want)
		}
	}
}

// The resources of one application of GitHub count its questions together, also after a reload that
// changes one of them, and those of another application count apart.
func TestGatewayResourcesOfOneApplication(t *testing.T) {
	github, upstream := newAsked(t), echo(t)
	entry := func(resource, app, name string) string {
		return "  - resource: " + resource + "\n    upstream: " + upstream + "\n    resource-name: " + name + "\n    issuers:\n" +
			"      - url: " + github.url + "\n        profile: github\n        insecure-no-audience: true\n        audiences: " + app + "\n" +
			"        introspection: {endpoint: \"" + github.url + "\", opaque: true, client-id: " + app + ", client-secret: 0123456789abcdef, per-hour: 4}\n" // one for new tokens
	}
	const otherURL = "https://other.example.com/mcp"
	r := startReloading(t, "gateway", "resources:\n"+entry(notesURL, "app-1", "a")+entry(filesURL, "app-1", "a")+entry(otherURL, "app-2", "a"), nil)
	sent := 0
	ask := func(resource string) int {
		status, _, _ := at(t, r.running, "POST", resource, fmt.Sprintf("gho_%036d", sent))
		sent++
		return status
	}
	if status := ask(notesURL); status != http.StatusOK {
		t.Fatalf("the first question: %d", status)
	}
	if status := ask(filesURL); status != http.StatusServiceUnavailable {
		t.Errorf("another resource of the application: %d", status)
	}
	for _, list := range []string{entry(notesURL, "app-1", "b"), entry(notesURL, "app-1", "b") + entry(filesURL, "app-1", "a")} {
		r.write(t, "resources:\n"+list+entry(otherURL, "app-2", "a"))
		if got := r.reload(t); !got.Done {
			t.Fatalf("%+v", got)
		}
	}
	for _, resource := range []string{notesURL, filesURL} {
		if status := ask(resource); status != http.StatusServiceUnavailable {
			t.Errorf("%s after the reload: %d", resource, status)
		}
	}
	if ask(otherURL); !strings.Contains(strings.Join(github.asked(), " "), "/applications/app-2/") || len(github.asked()) != 2 {
		t.Errorf("asked %q", github.asked())
	}
}

// Tokens pass up to the size that a resource allows, over HTTP/1.1 and HTTP/2, and the listener
// leaves room for the longest alone.
func TestGatewayMaxToken(t *testing.T) {
	issuer, upstream := middlewaretest.NewIssuer(t), echo(t)
	sized := func(size int) string {
		return issuer.Mint(middlewaretest.Claims{"aud": []string{notesURL, filesURL}, "groups": strings.Repeat("g", size*3/4)})
	}
	entry := func(resource, own string) string {
		return "  - resource: " + resource + "\n    upstream: " + upstream + "\n    issuers: [" + issuer.URL() + "]\n" + own
	}
	large := "resources:\n" + entry(notesURL, "    max-token: 62000\n") + entry(filesURL, "")
	r, usual := startSeveral(t, large), startSeveral(t, "resources:\n"+entry(notesURL, "")+entry(filesURL, ""))
	for _, tt := range []struct {
		what string
		of   *running
		at   string
		size int
		want int
	}{
		{"60 KiB where they are allowed", r, notesURL, 60 << 10, 200},
		{"60 KiB at the other resource", r, filesURL, 60 << 10, 401},
		{"more than is allowed", r, notesURL, 62 << 10, 401},
		{"more than the listener reads", r, notesURL, 128 << 10, 431},
		{"7 KiB by default", usual, notesURL, 7 << 10, 200},
		{"9 KiB by default", usual, notesURL, 9 << 10, 401},
		{"60 KiB by default", usual, notesURL, 60 << 10, 431},
	} {
		if status, header, _ := at(t, tt.of, "POST", tt.at, sized(tt.size)); status != tt.want || status == 401 && !strings.Contains(header.Get("WWW-Authenticate"), "too long") {
			t.Errorf("%s: %d %v", tt.what, status, header)
		}
	}
	dir := t.TempDir()
	pool := writeCertificate(t, dir)
	secure := startGateway(t, deadline, nil, "--issuer", issuer.URL(), "--upstream", upstream, "--max-token", "62000", "--tls-cert", dir+"/cert.pem", "--tls-key", dir+"/key.pem")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+secure.shown("listening on")+"/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+sized(60<<10))
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 200 || res.ProtoMajor != 2 {
		t.Errorf("60 KiB over HTTP/2: %s %s", res.Proto, res.Status)
	}
	for _, size := range []string{"0", "65537"} {
		if says := refusedGateway(t, "--max-token", size); !strings.Contains(says, "max-token "+size+" is not a size of tokens: it must be 1 to 65536") {
			t.Error(says)
		}
	}
	if _, _, err := planned(t, large+"    max-token: 65537\n"); err == nil || !strings.Contains(err.Error(), "tokens have 1 to 65536 bytes") {
		t.Error(err)
	}
}

// A resource that is no server of the protocol has rules by method and path, beside one that is.
func TestGatewayResourcesWithRoutes(t *testing.T) {
	issuer, upstream := middlewaretest.NewIssuer(t), echo(t)
	entry := func(resource, own string) string {
		return "  - resource: " + resource + "\n    upstream: " + upstream + "\n    issuers: [" + issuer.URL() + "]\n" + own
	}
	const routes = "    scopes:\n      routes:\n        GET /api/notes/{id}: notes:read\n        \"POST /api/notes\": [notes:write]\n        GET /api/health: []\n"
	api := "https://notes.example.com/api"
	r := startSeveral(t, "session-key: "+testKey(1)+"\nresources:\n"+entry(api, routes)+entry(notesURL, "    scopes:\n      methods:\n        ping: notes:read\n"))
	token := issuer.Mint(middlewaretest.Claims{"aud": []string{api, notesURL}, "scope": "notes:read"})
	for _, tt := range []struct {
		method, url string
		want        int
	}{
		{"GET", api + "/notes/7", 200}, {"GET", api + "/health", 200}, {"POST", api + "/notes", 403}, {"GET", api + "/other", 403},
		{"GET", api + "/Notes/7", 403}, {"GET", api + "/notes/7;x=y", 400}, {"POST", notesURL, 200},
	} {
		status, header, _ := at(t, r, tt.method, tt.url, token)
		if status != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.url, status, tt.want)
		}
		if session := header.Get("Mcp-Session-Id"); status == 200 && (session == "7") != strings.HasPrefix(tt.url, api) {
			t.Errorf("%s: the session is %q", tt.url, session)
		}
	}
	if _, header, _ := at(t, r, "POST", api+"/notes", token); !strings.Contains(header.Get("WWW-Authenticate"), `scope="notes:write"`) {
		t.Errorf("the challenge is %s", header.Get("WWW-Authenticate"))
	}
	plan, _, err := planned(t, "resources:\n"+entry(api, routes+"    dpop: required\n    dpop-nonce: true\n"), func(s *gatewaySettings) { s.SessionKey = settings.Secret(testKey(1)) })
	if err != nil || plan.configs[0].Guard.Sessions != nil || plan.configs[0].Guard.DPoP.Nonces == nil {
		t.Errorf("nonces are not made with the key that gateways share: %v", err)
	}
	for text, want := range map[string]string{
		strings.Replace(routes, "GET /api/health", "OPTIONS /api/health", 1): "OPTIONS never reaches the handler",
		routes + "      tools:\n        a: notes:read\n":                     "they are for handlers without messages of the protocol",
		"    scopes:\n      routes: {\"GET /a\": notes:read}\n":              "routes must not be in braces",
	} {
		if _, _, err := planned(t, "resources:\n"+entry(api, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}
