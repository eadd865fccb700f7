//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	listNotes = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_notes","arguments":{}}}`
	addNote   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_note","arguments":{"text":"milk"}}}`
	pingAny   = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
)

// attempt is one request to an example, and the expected response.
type attempt struct {
	name          string
	authorization []string
	query         string
	body          string // default: listNotes
	kind          string // default: application/json

	status int
	code   string // of the challenge
	scope  string // of the challenge; "-" for no challenge
}

const allScopes = "notes:read notes:write"

// send makes the attempt, and returns the answer with its body read.
func (a attempt) send(t *testing.T, server *process) (*http.Response, string) {
	t.Helper()
	body, kind := a.body, a.kind
	if body == "" {
		body = listNotes
	}
	if kind == "" {
		kind = "application/json"
	}
	req, err := http.NewRequest(http.MethodPost, server.URL+"/mcp"+a.query, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": a.authorization, "Content-Type": {kind}, "Accept": {"application/json, text/event-stream"}}
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		t.Fatalf("%s: %v", a.name, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", a.name, err)
	}
	return resp, string(raw)
}

// check makes the attempt and compares the answer.
func (a attempt) check(t *testing.T, server *process) {
	t.Helper()
	resp, body := a.send(t, server)
	if resp.StatusCode != a.status {
		t.Errorf("%s: %d %s, want %d", a.name, resp.StatusCode, body, a.status)
		return
	}
	challenges, err := metadata.ParseChallenges(resp.Header["Www-Authenticate"])
	if a.status == http.StatusOK || a.scope == "-" {
		if len(challenges) != 0 || err != nil {
			t.Errorf("%s: a challenge %q, want none", a.name, resp.Header["Www-Authenticate"])
		}
		return
	}
	if err != nil || len(challenges) != 1 {
		t.Errorf("%s: the challenge is %q, %v", a.name, resp.Header["Www-Authenticate"], err)
		return
	}
	where := server.URL + "/.well-known/oauth-protected-resource/mcp"
	for name, want := range map[string]string{"error": a.code, "scope": a.scope, "resource_metadata": where} {
		if got, _ := challenges[0].Get(name); got != want {
			t.Errorf("%s: the challenge has %s=%q, want %q", a.name, name, got, want)
		}
	}
}

func bearer(token string) []string { return []string{"Bearer " + token} }

// TestServersInOtherLanguages: people sign in to each example with its clients, their tokens
// allow only what they cover, and tokens for another server of the same issuer are refused.
func TestServersInOtherLanguages(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		address, other := lowAddress(t), "http://127.0.0.1:1/mcp"
		resource := "http://" + address + "/mcp"
		authz := startIntrospected(t, "--dev-resource", resource, "--dev-resource", other)
		server := startLanguage(t, l, address, authz.URL, resource, introspectionSecret)
		checkMetadata(t, server, authz.URL)

		session := connect(t, server, sdkHandler(t, &grants{}, everyScope), "2025-11-25")
		say(t, session, "add_note", map[string]any{"text": "milk"})
		if got := say(t, session, "list_notes", map[string]any{}); !strings.Contains(got, "milk") {
			t.Errorf("list_notes = %s, want the note", got)
		}

		mine := newFlow(t, authz, resource)
		tokens := mine.tokens(t)
		good := tokens["access_token"].(string)
		_, narrowed := mine.token(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens["refresh_token"].(string)}, "scope": {"notes:read"}})
		reader := narrowed["access_token"].(string)
		foreign := newFlow(t, authz, other).tokens(t)["access_token"].(string)
		for _, a := range []attempt{
			{name: "good token", authorization: bearer(good), status: 200},
			{name: "good token that writes", authorization: bearer(good), body: addNote, status: 200},
			{name: "token that reads", authorization: bearer(reader), status: 200},
			{name: "token that reads, to write", authorization: bearer(reader), body: addNote, status: 403, code: "insufficient_scope", scope: "notes:write"},
			{name: "token for another server", authorization: bearer(foreign), status: 401, code: "invalid_token", scope: allScopes},
			{name: "refresh token", authorization: bearer(narrowed["refresh_token"].(string)), status: 401, code: "invalid_token", scope: allScopes},
		} {
			a.check(t, server)
		}
	})
}

// checkMetadata expects the document of RFC 9728 with the path of the resource inserted.
func checkMetadata(t *testing.T, server *process, issuer string) {
	t.Helper()
	resp, err := http.Get(server.URL + "/.well-known/oauth-protected-resource/mcp")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var document struct {
		Resource             string
		AuthorizationServers []string `json:"authorization_servers"`
		ScopesSupported      []string `json:"scopes_supported"`
		BearerMethods        []string `json:"bearer_methods_supported"`
	}
	err = json.NewDecoder(resp.Body).Decode(&document)
	got := fmt.Sprint(resp.StatusCode, document, err)
	want := fmt.Sprint(200, struct {
		Resource             string
		AuthorizationServers []string
		ScopesSupported      []string
		BearerMethods        []string
	}{server.URL + "/mcp", []string{issuer}, []string{"notes:read", "notes:write"}, []string{"header"}}, nil)
	if kind := resp.Header.Get("Content-Type"); got != want || !strings.HasPrefix(kind, "application/json") {
		t.Errorf("the metadata is %s (%s), want %s", got, kind, want)
	}
}

// TestRefusalsInOtherLanguages: each example refuses what it must, with the challenge that a
// client needs to continue.
func TestRefusalsInOtherLanguages(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		issuer, server := startAttacked(t, l)
		resource := server.URL + "/mcp"
		mint := func(claims middlewaretest.Claims) string {
			if _, ok := claims["aud"]; !ok {
				claims["aud"] = resource
			}
			return issuer.Mint(claims)
		}
		good := mint(middlewaretest.Claims{"scope": allScopes})
		reader := bearer(mint(middlewaretest.Claims{"scope": "notes:read"}))
		stranger := middlewaretest.NewIssuer(t)
		invalid := func(name, token string) attempt {
			return attempt{name: name, authorization: bearer(token), status: 401, code: "invalid_token", scope: allScopes}
		}
		for _, a := range append([]attempt{
			{name: "good token", authorization: bearer(good), status: 200},
			{name: "good token that writes", authorization: bearer(good), body: addNote, status: 200},
			{name: "several audiences", authorization: bearer(mint(middlewaretest.Claims{"aud": []string{resource, "https://other.example.org/mcp"}, "scope": allScopes})), status: 200},
			{name: "clock a little behind", authorization: bearer(mint(middlewaretest.Claims{"scope": allScopes, "iat": time.Now().Add(5 * time.Second).Unix()})), status: 200},
			{name: "no token", status: 401, scope: allScopes},
			{name: "token in the query", query: "?access_token=" + good, status: 401, scope: allScopes},
			{name: "token in the query too", authorization: bearer(good), query: "?access_token=" + good, status: 400, code: "invalid_request", scope: allScopes},
			{name: "two tokens", authorization: []string{"Bearer " + good, "Bearer " + good}, status: 400, code: "invalid_request", scope: allScopes},
			invalid("garbage", "garbage"),
			invalid("other audience", issuer.Mint(middlewaretest.Claims{"aud": "https://other.example.org/mcp", "scope": allScopes})),
			invalid("other issuer", stranger.Mint(middlewaretest.Claims{"aud": resource, "scope": allScopes})),
			invalid("other issuer that says it is ours", stranger.Mint(middlewaretest.Claims{"iss": issuer.URL(), "aud": resource, "scope": allScopes})),
			invalid("expired", mint(middlewaretest.Claims{"exp": time.Now().Add(-time.Minute).Unix()})),
			{name: "to write with a token that reads", authorization: reader, body: addNote, status: 403, code: "insufficient_scope", scope: "notes:write"},
			{name: "to read with a token without scopes", authorization: bearer(mint(middlewaretest.Claims{})), status: 403, code: "insufficient_scope", scope: "notes:read"},
			{name: "to read with a scope that begins so", authorization: bearer(mint(middlewaretest.Claims{"scope": "notes:reader xnotes:read"})), status: 403, code: "insufficient_scope", scope: "notes:read"},
			{name: "a scope twice", authorization: bearer(mint(middlewaretest.Claims{"scope": "notes:read notes:read"})), status: 200},
			{name: "a method without a scope", authorization: bearer(mint(middlewaretest.Claims{})), body: pingAny, status: 200},
			{name: "a tool that is not named", authorization: bearer(good), body: strings.Replace(addNote, "add_note", "constructor", 1), status: 403, scope: "-"},
			{name: "a tool without a name", authorization: bearer(good), body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, status: 403, scope: "-"},
			{name: "several messages", authorization: reader, body: "[" + addNote + "]", status: 400, code: "invalid_request", scope: allScopes},
			{name: "a string", authorization: reader, body: `"tools/call"`, status: 400},
			{name: "null", authorization: reader, body: `null`, status: 400},
			{name: "not JSON", authorization: reader, body: `{`, status: 400},
			{name: "no body", authorization: reader, body: " ", status: 400},
		}, tricks(reader)...) {
			if a.status == 400 && a.code == "" {
				if resp, body := a.send(t, server); resp.StatusCode != 400 {
					t.Errorf("%s: %s %s, want 400", a.name, resp.Status, body)
				}
				continue
			}
			a.check(t, server)
		}
	})
}

// tricks are requests that try to write with a token for reading, by a message that the guard of
// an example might parse differently from its server.
func tricks(reader []string) []attempt {
	refused := attempt{authorization: reader, status: 403, code: "insufficient_scope", scope: "notes:write"}
	var out []attempt
	for name, change := range map[string]func(*attempt){
		"another content type":                  func(a *attempt) { a.kind = "text/plain" },
		"a content type that holds the right":   func(a *attempt) { a.kind = "text/plain; application/json" },
		"a name with escapes":                   func(a *attempt) { a.body = strings.Replace(addNote, "add_note", `add\u005fnote`, 1) },
		"a method with escapes":                 func(a *attempt) { a.body = strings.Replace(addNote, "tools/call", `tools\/c\u0061ll`, 1) },
		"space before the message":              func(a *attempt) { a.body = "\r\n\t " + addNote },
		"a member with another case beside it":  func(a *attempt) { a.body = strings.Replace(addNote, `"method"`, `"Method":"ping","method"`, 1) },
		"another params beside it, in capitals": func(a *attempt) { a.body = strings.Replace(addNote, `"params"`, `"PARAMS":{},"params"`, 1) },
	} {
		a := refused
		a.name, a.body = name, addNote
		change(&a)
		out = append(out, a)
	}
	return out
}

// TestDuplicatesInOtherLanguages: with a member twice in a message, the guard of an example and
// its server read the same value, so a call that the token does not cover is never made.
func TestDuplicatesInOtherLanguages(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		issuer, server := startAttacked(t, l)
		reader := bearer(issuer.Mint(middlewaretest.Claims{"aud": server.URL + "/mcp", "scope": "notes:read"}))
		for _, body := range []string{
			strings.Replace(addNote, `"method"`, `"method":"ping","method"`, 1),
			strings.Replace(addNote, `"params"`, `"method":"ping","params"`, 1),
			strings.Replace(addNote, `"name"`, `"name":"list_notes","name"`, 1),
			strings.Replace(addNote, `"arguments"`, `"name":"list_notes","arguments"`, 1),
			strings.TrimSuffix(addNote, "}") + `,"params":{"name":"list_notes"}}`,
		} {
			attempt{authorization: reader, body: body}.send(t, server)
		}
		if resp, body := (attempt{authorization: reader}).send(t, server); resp.StatusCode != 200 || strings.Contains(body, "milk") {
			t.Errorf("list_notes: %s %s, want no note", resp.Status, body)
		}
	})
}

// TestPythonHandsOnWhatItJudged: the application behind the guard may parse JSON differently, so
// it gets the message as the guard parsed it.
func TestPythonHandsOnWhatItJudged(t *testing.T) {
	t.Parallel()
	cmd := pythonServer(t)
	cmd.Args = []string{cmd.Path, "-B", "-c", `
import guard, sys
print(guard.authorize({"scope": ""}, sys.stdin.buffer.read()).decode())`}
	cmd.Env = append(cleanEnvironment(), "RESOURCE=https://notes.example.com/mcp", "ISSUER=https://auth.example.com")
	cmd.Stdin = strings.NewReader(`{"method":"tools/call","params":{"name":"add_note"},"params":{"name":"list_notes"},"method":"ping"}`)
	out, err := cmd.CombinedOutput()
	if want := `{"method": "ping", "params": {"name": "list_notes"}}` + "\n"; err != nil || string(out) != want {
		t.Errorf("the message is handed on as %s (%v), want %s", out, err, want)
	}
}

// TestAttacksInOtherLanguages: an example refuses every attack but those with a reason in its
// entry, and fetches the keys about once for all of them.
func TestAttacksInOtherLanguages(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		issuer, server := startAttacked(t, l)
		begin := time.Now()
		watch := &attacked{TB: t}
		middlewaretest.Attack(watch, issuer, server.URL+"/mcp", passOn(server))
		for _, complaint := range watch.failures {
			name, _, _ := strings.Cut(complaint, " is let through")
			name = strings.TrimSuffix(name, ", lowercase scheme")
			if l.passes[name] == "" {
				t.Error(complaint)
			}
			watch.passed = append(watch.passed, name)
		}
		for name := range l.passes {
			if !slices.Contains(watch.passed, name) {
				t.Errorf("%q is refused, so it is no exception", name)
			}
		}
		if n, most := issuer.KeyRequests(), 2+int(time.Since(begin)/(30*time.Second)); n > most {
			t.Errorf("the keys were fetched %d times, want at most %d", n, most)
		}
	})
}

// attacked is a test that records the failures that an attack reports.
type attacked struct {
	testing.TB
	failures, passed []string
}

func (a *attacked) Errorf(format string, args ...any) {
	a.failures = append(a.failures, fmt.Sprintf(format, args...))
}

// passOn sends requests to an example as they are. What cannot be sent over HTTP, and
// CONNECT, at which servers end the connection, counts as malformed.
func passOn(server *process) http.Handler {
	client := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.RequestURI = ""
		resp, err := client.Do(out)
		if err != nil {
			if !strings.Contains(err.Error(), "invalid header field value") && r.Method != http.MethodConnect {
				w.WriteHeader(http.StatusBadGateway)
				_, _ = io.WriteString(w, err.Error())
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		defer resp.Body.Close()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
}

// TestKeysInOtherLanguages: while the issuer does not answer, an example with keys continues,
// and one without keys or without the key of the token answers 503 and not 401 after a try. A new
// key is accepted once the example may fetch again.
func TestKeysInOtherLanguages(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		issuer, server := startAttacked(t, l)
		good := func() attempt {
			return attempt{name: "good token", status: 200,
				authorization: bearer(issuer.Mint(middlewaretest.Claims{"aud": server.URL + "/mcp", "scope": allScopes}))}
		}
		issuer.SetDown(true)
		resp, body := good().send(t, server)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("without keys: %s %v %s, want 503 with Retry-After and no challenge", resp.Status, resp.Header, body)
		}
		issuer.SetDown(false)
		answers(t, server, good, 200)
		issuer.SetDown(true)
		if !l.introspects { // it asks about every token
			good().check(t, server)
		}
		issuer.Rotate("ES256")
		answers(t, server, good, 503)
		issuer.SetDown(false)
		before, begin := issuer.KeyRequests(), time.Now()
		answers(t, server, good, 200)
		if n, most := issuer.KeyRequests()-before, 1+int(time.Since(begin)/(30*time.Second)); n > most {
			t.Errorf("the new key had the keys fetched %d times, want at most %d", n, most)
		}
	})
}

// answers makes an attempt until it gets a status: an example fetches keys again after half
// a minute.
func answers(t *testing.T, server *process, next func() attempt, want int) {
	t.Helper()
	deadline := time.Now().Add(3 * patience)
	for {
		resp, body := next().send(t, server)
		if resp.StatusCode == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %s %s, want %d", resp.Status, body, want)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// TestRevocationInOtherLanguages: the example with introspection refuses a token as soon as it
// is revoked, and answers 503 when the issuer does not answer.
func TestRevocationInOtherLanguages(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		if !l.introspects {
			t.Skip("it does not ask the issuer")
		}
		issuer, server := startAttacked(t, l)
		token := issuer.Mint(middlewaretest.Claims{"aud": server.URL + "/mcp", "scope": allScopes})
		attempt{name: "good token", authorization: bearer(token), status: 200}.check(t, server)
		issuer.Revoke(token)
		attempt{name: "revoked token", authorization: bearer(token), status: 401, code: "invalid_token", scope: allScopes}.check(t, server)
		says := func(text string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
		}
		issuer.SetDocument("/elsewhere", says(`{"active":true}`))
		for name, odd := range map[string]any{
			"nothing":    nil,
			"a redirect": http.RedirectHandler(issuer.URL()+"/elsewhere", http.StatusTemporaryRedirect),
			"no object":  says("active"),
			"null":       says("null"),
		} {
			issuer.SetDocument("/introspect", odd)
			resp, body := attempt{authorization: bearer(token)}.send(t, server)
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
				t.Errorf("the issuer answers %s: %s %s, want 503 with Retry-After", name, resp.Status, body)
			}
		}
		issuer.SetDocument("/introspect", says(`{"active":"true"}`))
		attempt{name: "active in a string", authorization: bearer(token), status: 401, code: "invalid_token", scope: allScopes}.check(t, server)
	})
}
