package main

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	notesURL   = "https://notes.example.com/mcp"
	reportsURL = "https://notes.example.com/mcp/reports" // below the other, on its host
	filesURL   = "https://files.example.com/mcp"
	plainURL   = "https://plain.example.com/mcp"
)

// bound is a gateway of several resources, and a client with a key. Its token is for all of them,
// so that no audience hides what the proofs are for.
type bound struct {
	t      *testing.T
	r      *running
	issuer *middlewaretest.Issuer
	key    *middlewaretest.ProofKey
	token  string
}

// ofFour begins a file in which resources share an issuer, and each says itself which proofs it
// wants.
func ofFour(t *testing.T, issuer *middlewaretest.Issuer, upstream string) string {
	t.Helper()
	out := "dpop: required\ntrusted-proxies: 127.0.0.1\nsession-key: " + testKey(1) + "\nresources:\n"
	for resource, own := range map[string]string{
		notesURL: "    dpop-nonce: true\n", reportsURL: "", filesURL: "    dpop: accepted\n    dpop-nonce: true\n",
		plainURL: "    dpop: off\n    client-cert-header: X-Client-Pem\n",
	} {
		out += "  - resource: " + resource + "\n    issuers: [" + issuer.URL() + "]\n" + own
		if upstream != "" {
			out += "    upstream: " + upstream + "\n"
		}
	}
	return out
}

func newBound(t *testing.T) *bound {
	t.Helper()
	b := &bound{t: t, issuer: middlewaretest.NewIssuer(t), key: middlewaretest.NewProofKey(t, jose.ES256)}
	b.r = startSeveral(t, ofFour(t, b.issuer, echo(t)))
	b.token = b.mint(b.key.Confirmation())
	return b
}

// mint returns a token for all resources, bound as cnf says.
func (b *bound) mint(cnf map[string]any) string {
	b.t.Helper()
	c := middlewaretest.Claims{"aud": []string{notesURL, reportsURL, filesURL, plainURL}}
	if cnf != nil {
		c["cnf"] = cnf
	}
	return b.issuer.Mint(c)
}

// prove returns a proof for a URL, with the nonce if it is not empty.
func (b *bound) prove(url, nonce string) string {
	b.t.Helper()
	var more middlewaretest.Claims
	if nonce != "" {
		more = middlewaretest.Claims{"nonce": nonce}
	}
	return b.key.Prove("POST", url, b.token, more)
}

// send sends a proof to a resource and returns the status, the error code of the challenge and the
// nonce in the answer.
func (b *bound) send(resource, proof string) (status int, code, nonce string) {
	b.t.Helper()
	status, answer, got := at(b.t, b.r, "POST", resource, b.token, "Authorization", "DPoP "+b.token, "DPoP", proof)
	if got.Get("Dpop") != "" || got.Get("Authorization") != "" {
		b.t.Errorf("%s: the server gets the proof or the token: %v", resource, got)
	}
	_, code, _ = strings.Cut(answer.Get("WWW-Authenticate"), `error="`)
	code, _, _ = strings.Cut(code, `"`)
	return status, code, answer.Get("DPoP-Nonce")
}

// Each resource decides itself which proofs it wants. A proof is for one of them and good once, and
// a nonce of one is unknown at the others, although they share issuer, keys and session key.
func TestGatewayResourcesAndProofs(t *testing.T) {
	b := newBound(t)
	_, code, nonce := b.send(notesURL, b.prove(notesURL, ""))
	if code != "use_dpop_nonce" || nonce == "" {
		t.Fatalf("without a nonce: %s %s", code, nonce)
	}
	_, _, foreign := b.send(filesURL, b.prove(filesURL, ""))
	used := b.prove(notesURL, nonce)
	for _, tt := range []struct {
		what, at, proof string
		status          int
		code            string
	}{
		{"a proof", notesURL, used, 200, ""},
		{"the same again", notesURL, used, 401, "invalid_dpop_proof"},
		{"the same elsewhere", filesURL, used, 401, "invalid_dpop_proof"},
		{"the same below", reportsURL, used, 401, "invalid_dpop_proof"},
		{"a fresh proof for another resource", filesURL, b.prove(notesURL, foreign), 401, "invalid_dpop_proof"},
		{"a fresh proof for the resource above", reportsURL, b.prove(notesURL, ""), 401, "invalid_dpop_proof"},
		{"a fresh proof for the resource below", notesURL, b.prove(reportsURL, nonce), 401, "invalid_dpop_proof"},
		{"the nonce of another resource", filesURL, b.prove(filesURL, nonce), 401, "use_dpop_nonce"},
		{"its own nonce", filesURL, b.prove(filesURL, foreign), 200, ""},
		{"no nonce where none is wanted", reportsURL, b.prove(reportsURL, ""), 200, ""},
		{"a proof where none is accepted", plainURL, b.prove(plainURL, ""), 401, ""},
	} {
		if status, code, _ := b.send(tt.at, tt.proof); status != tt.status || code != tt.code {
			t.Errorf("%s: %d %s, want %d %s", tt.what, status, code, tt.status, tt.code)
		}
	}
	for resource, want := range map[string]int{notesURL: 401, reportsURL: 401, filesURL: 200, plainURL: 200} {
		if status, _, _ := at(t, b.r, "POST", resource, b.mint(nil)); status != want {
			t.Errorf("a token that is not bound at %s: %d, want %d", resource, status, want)
		}
		if status, _, _ := at(t, b.r, "POST", resource, b.token); status != 401 {
			t.Errorf("a bound token as a bearer token at %s: %d", resource, status)
		}
	}
	if n := b.issuer.KeyRequests(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// A resource that takes certificates from a proxy does so alone, and its server never gets them.
func TestGatewayResourcesAndCertificates(t *testing.T) {
	b := newBound(t)
	dir := t.TempDir()
	writeCertificate(t, dir)
	text, err := os.ReadFile(dir + "/cert.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(block.Bytes)
	token := b.mint(map[string]any{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])})
	for resource, want := range map[string]int{plainURL: 200, notesURL: 401, reportsURL: 401, filesURL: 401} {
		status, _, got := at(t, b.r, "POST", resource, token, "X-Client-Pem", url.PathEscape(string(text)), "X_client_pem", "forged")
		if status != want || got.Get("X-Client-Pem") != "" || len(got["X_client_pem"]) != 0 {
			t.Errorf("%s: %d, want %d; the server gets %q", resource, status, want, got.Get("X-Client-Pem"))
		}
	}
	_, _, got := at(t, b.r, "POST", filesURL, b.mint(nil), "X-Client-Pem", "forged", "X_client_pem", "forged", "X-Other", "kept")
	if got.Get("X-Other") != "kept" || got.Get("X-Client-Pem") != "" || len(got["X_client_pem"]) != 0 {
		t.Errorf("the server of another resource gets %v", got)
	}
	if status, _, _ := at(t, b.r, "POST", plainURL, token); status != 401 {
		t.Errorf("without the certificate: %d", status)
	}
}

// A proxy that asks about several resources names the URL, and with it the resource whose rules for
// proofs apply.
func TestGatewayResourcesAndProofsAtVerify(t *testing.T) {
	b := &bound{t: t, issuer: middlewaretest.NewIssuer(t), key: middlewaretest.NewProofKey(t, jose.ES256)}
	b.r = startSeveral(t, "verify-only: true\nverify-method-header: X-Original-Method\nverify-uri-header: X-Original-Uri\n"+ofFour(t, b.issuer, ""))
	b.token = b.mint(b.key.Confirmation())
	ask := func(resource, proof string) (int, http.Header) {
		path := strings.TrimPrefix(resource, "https://notes.example.com")
		path = strings.TrimPrefix(path, "https://files.example.com")
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+b.r.shown("listening on")+"/verify", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "DPoP " + b.token, "DPoP": proof, "X-Original-URL": resource, "X-Original-Method": "POST", "X-Original-Uri": path} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode, res.Header
	}
	_, header := ask(notesURL, b.prove(notesURL, ""))
	nonce := header.Get("DPoP-Nonce")
	if nonce == "" {
		t.Fatalf("no nonce: %v", header)
	}
	used := b.prove(notesURL, nonce)
	for _, tt := range []struct {
		what, resource, proof string
		want                  int
	}{
		{"a proof", notesURL, used, 200},
		{"the same again", notesURL, used, 401},
		{"a proof for another resource", filesURL, b.prove(notesURL, ""), 401},
		{"the nonce of another resource", filesURL, b.prove(filesURL, nonce), 401},
		{"no nonce where none is wanted", reportsURL, b.prove(reportsURL, ""), 200},
		{"a proof for the resource above", reportsURL, b.prove(notesURL, ""), 401},
	} {
		if got, header := ask(tt.resource, tt.proof); got != tt.want {
			t.Errorf("%s: %d %v, want %d", tt.what, got, header, tt.want)
		}
	}
}

// TestProofsOfAResourceThatComesBack: a proof that was used stays used where one reload takes its resource out, and a later
// one adds it again, whatever else is changed in between.
func TestProofsOfAResourceThatComesBack(t *testing.T) {
	t.Parallel()
	b := &bound{t: t, issuer: middlewaretest.NewIssuer(t), key: middlewaretest.NewProofKey(t, jose.ES256)}
	b.token = b.mint(b.key.Confirmation())
	upstream := echo(t)
	text := func(resources ...string) string {
		out := "dpop: required\nresources:\n"
		for _, resource := range resources {
			out += guardedAt(resource, upstream, b.issuer.URL())
		}
		return out
	}
	r := startReloading(t, "gateway", text(notesURL, filesURL), nil)
	b.r = r.running
	used := b.prove(filesURL, "")
	if status, code, _ := b.send(filesURL, used); status != http.StatusOK {
		t.Fatalf("a proof: %d %s", status, code)
	}
	for step, file := range []string{text(notesURL), strings.Replace(text(notesURL), "required", "off", 1), text(notesURL, filesURL)} {
		if r.write(t, file); !r.reload(t).Done {
			t.Fatalf("reload %d is refused", step)
		}
	}
	if status, code, _ := b.send(filesURL, used); status != http.StatusUnauthorized || code != "invalid_dpop_proof" {
		t.Errorf("the proof again: %d %s", status, code)
	}
	if status, code, _ := b.send(filesURL, b.prove(filesURL, "")); status != http.StatusOK {
		t.Errorf("a new proof: %d %s", status, code)
	}
}

// TestMemoriesOfProofsEnd: a memory of a resource that is guarded no more is kept for a day. A plan that is refused
// ends nothing.
func TestMemoriesOfProofsEnd(t *testing.T) {
	all, now := usedProofs{}, time.Now()
	plan := func(resources ...string) *gatewayPlan {
		out := new(gatewayPlan)
		for _, resource := range resources {
			out.configs = append(out.configs, gateway.Config{Guard: middleware.Config{Resource: resource, DPoP: middleware.DPoP{Use: middleware.DPoPAccepted}}})
		}
		out.remember(all)
		return out
	}
	both := plan(notesURL, filesURL)
	all.inForce(both, now)
	first := both.configs[1].Guard.DPoP.Proofs
	for range 2 {
		plan(notesURL) // refused, and the files are guarded still
		now = now.Add(2 * proofsKept)
		if again := plan(notesURL, filesURL); again.configs[1].Guard.DPoP.Proofs != first {
			t.Error("a plan that was refused ended a memory")
		}
	}
	for _, step := range []struct {
		after time.Duration
		kept  bool
	}{{time.Hour, true}, {time.Hour + proofsKept, true}, {time.Hour + proofsKept + time.Second, false}} {
		if all.inForce(plan(notesURL), now.Add(step.after)); (all[filesURL] != nil) != step.kept || all[notesURL] == nil {
			t.Errorf("after %s: %v", step.after, all)
		}
	}
	again := plan(notesURL, filesURL)
	if again.configs[0].Guard.DPoP.Proofs != both.configs[0].Guard.DPoP.Proofs || again.configs[1].Guard.DPoP.Proofs == first {
		t.Error("the memories are not those of the resources")
	}
}
