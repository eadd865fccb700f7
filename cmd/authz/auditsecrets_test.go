package main

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/internal/witness"
	"gatehouse.example/middleware/middlewaretest"
)

// wiretap lets a witness see all that this package's tests send by the default client.
func wiretap(t *testing.T) *witness.Witness {
	t.Helper()
	w, before := witness.New(), http.DefaultClient.Transport
	http.DefaultClient.Transport = w.Over(http.DefaultTransport)
	t.Cleanup(func() { http.DefaultClient.Transport = before })
	return w
}

// operate runs verbs that make secrets, beside the server, and keeps what they print.
func (r *auditedRun) operate(w *witness.Witness) (link, confidential, secret string) {
	r.t.Helper()
	environ := append([]string{"AUTHZ_AUDIT_VERBS=" + filepath.Join(r.dir, "verbs.jsonl"), "AUTHZ_ISSUER=" + r.server.shown("issuer")}, r.environ...)
	verb := func(pattern string, args ...string) string {
		r.t.Helper()
		var out, errs lockedBuffer
		if status := run(r.t.Context(), args, environ, strings.NewReader(""), &out, &errs); status != exitDone {
			r.t.Fatalf("%v: %d %s", args, status, errs.String())
		}
		found := regexp.MustCompile(pattern).FindStringSubmatch(out.String())
		if found == nil {
			r.t.Fatalf("%v prints %s", args, out.String())
		}
		w.Keep(strings.Join(args[:2], " "), found[1])
		return found[1]
	}
	w.Keep("initial token", verb(`^(\S+)`, "client", "token"))
	link = verb(`(http\S+)`, "user", "invite", "ann")
	again := verb(`(http\S+)`, "user", "reset", "ann")
	for _, one := range []string{link, again} {
		if at, err := url.Parse(one); err == nil {
			w.Keep("one-time link", at.Query().Get("token"))
		}
	}
	pattern := "https://mcp.example.com/{tenant}/mcp"
	verb(`pattern secret: (\S+)`, "resource", "add", pattern, "--introspection")
	verb(`"client_secret": "([^"]+)"`, "resource", "show", "https://mcp.example.com/one/mcp", "--credential")
	secret = verb(`client_secret: (\S+)`, "client", "add", "--id", "confidential", "--name", "C", "--redirect-uri", "http://127.0.0.1:49152/callback", "--auth-method", "client_secret_basic")
	return again, "confidential", secret
}

// misuse sends secrets that are wrong, and right ones where they do not belong.
func (r *auditedRun) misuse(w *witness.Witness, link, confidential, secret, access string) {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	v := newVisitor(r.t, r.server, confidential)
	v.client.Jar, v.client.Transport = jar, w.Over(http.DefaultTransport)
	v.request = strings.ReplaceAll(v.request, url.QueryEscape(demoResource), url.QueryEscape(guarded))
	v.signIn(demoPerson, "a wrong password of demo")
	v.signIn(r.secrets["password"], r.secrets["password"])
	_ = v.read(v.client.Get(link))
	issuer := r.server.shown("issuer")
	for _, form := range []url.Values{
		{"grant_type": {"refresh_token"}, "refresh_token": {"gate_rt_" + strings.Repeat("A", 43)}},
		{"grant_type": {"authorization_code"}, "code": {"gate_ac_" + strings.Repeat("B", 43)}, "code_verifier": {strings.Repeat("v", 43)}},
	} {
		for _, one := range []string{secret, "a wrong secret of the client"} {
			q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, issuer+"/token", strings.NewReader(form.Encode()))
			if err != nil {
				r.t.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			q.SetBasicAuth(confidential, one)
			_ = v.read(v.client.Do(q))
		}
		form["client_id"], form["client_secret"] = []string{confidential}, []string{secret}
		_ = v.read(v.client.PostForm(issuer+"/token", form))
	}
	key := middlewaretest.NewProofKey(r.t, jose.ES256)
	for _, token := range []string{access, issuerToken(r.t, key)} {
		q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://"+r.gate.shown("listening on")+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bound"}}`))
		if err != nil {
			r.t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		key.Send(q, guarded, token, nil)
		_ = v.read(v.client.Do(q))
	}
}

// issuerToken returns a token of another issuer that is bound to a key.
func issuerToken(t *testing.T, key *middlewaretest.ProofKey) string {
	t.Helper()
	return middlewaretest.NewIssuer(t).Mint(middlewaretest.Claims{"aud": guarded, "cnf": key.Confirmation()})
}

// wantNothingOf searches all that was written, also by verbs and in spans.
func (r *auditedRun) wantNothingOf(w *witness.Witness, spans *collector, metrics string) {
	r.t.Helper()
	for what, secret := range r.secrets {
		w.Keep(what, secret)
	}
	if w.Known() < 40 {
		r.t.Errorf("only %d secrets are known", w.Known())
	}
	spans.mu.Lock()
	defer spans.mu.Unlock()
	sinks := r.sinks(metrics)
	sinks["spans"] = spans.raw.String()
	verbs, err := os.ReadFile(filepath.Join(r.dir, "verbs.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	sinks["trail of verbs"] = string(verbs)
	w.Search(r.t, sinks)
}
