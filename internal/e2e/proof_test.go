//go:build e2e

package e2e

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// proofsByJose signs proofs of DPoP with the npm package jose. It reads a list of jobs, each with a
// private key, and writes a list of proofs with thumbprints.
const proofsByJose = `
import { createHash, randomUUID } from 'node:crypto'
import { SignJWT, calculateJwkThumbprint, importJWK } from 'jose'
let text = ''
for await (const chunk of process.stdin) text += chunk
const out = []
for (const { alg, key, token, method, url } of JSON.parse(text)) {
  const { kty, crv, x, y, n, e } = key
  const jwk = JSON.parse(JSON.stringify({ kty, crv, x, y, n, e }))
  const ath = createHash('sha256').update(token).digest('base64url')
  const proof = await new SignJWT({ htm: method, htu: url, ath, jti: randomUUID() })
    .setProtectedHeader({ alg, typ: 'dpop+jwt', jwk }).setIssuedAt().sign(await importJWK(key, alg))
  out.push({ proof, thumbprint: await calculateJwkThumbprint(jwk) })
}
console.log(JSON.stringify(out))
`

// TestProofsOfJose accepts proofs that another implementation made, under every name of an
// algorithm that it uses.
func TestProofsOfJose(t *testing.T) {
	node, packages := os.Getenv("CONFORMANCE_NODE"), os.Getenv("TYPESCRIPT_SDK")
	if node == "" || packages == "" {
		t.Fatal("CONFORMANCE_NODE and TYPESCRIPT_SDK must name node 22 and a folder with the package jose; scripts/test sets them")
	}
	const resource = "https://notes.example.com/mcp"
	issuer := middlewaretest.NewIssuer(t)
	guard, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{issuer.URL()},
		DPoP: middleware.DPoP{Use: middleware.DPoPRequired, Algorithms: []string{"ES256", "ES384", "ES512", "EdDSA", "RS256", "PS256"}}})
	if err != nil {
		t.Fatal(err)
	}
	type job struct {
		Algorithm string          `json:"alg"`
		Key       jose.JSONWebKey `json:"key"`
		Token     string          `json:"token"`
		Method    string          `json:"method"`
		URL       string          `json:"url"`
	}
	var jobs []job
	var thumbprints []string
	for _, algorithm := range []string{"ES256", "ES384", "ES512", "EdDSA", "Ed25519", "RS256", "PS256"} {
		kind := jose.SignatureAlgorithm(algorithm)
		if algorithm == "Ed25519" {
			kind = jose.EdDSA
		}
		key := jose.JSONWebKey{Key: middlewaretest.NewKey(t, kind)}
		sum, err := key.Thumbprint(crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		thumbprint := base64.RawURLEncoding.EncodeToString(sum)
		token := issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": map[string]string{"jkt": thumbprint}})
		jobs, thumbprints = append(jobs, job{algorithm, key, token, "POST", resource}), append(thumbprints, thumbprint)
	}
	input, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), node, "--input-type=module", "--eval", proofsByJose)
	run.Dir, run.Stdin, run.Stderr = packages, bytes.NewReader(input), os.Stderr
	output, err := run.Output()
	var made []struct{ Proof, Thumbprint string }
	if err != nil || json.Unmarshal(output, &made) != nil || len(made) != len(jobs) {
		t.Fatalf("%v: %s", err, output)
	}
	handler := guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for i, one := range made {
		r := httptest.NewRequest("POST", resource, nil)
		r.Header.Set("Authorization", "DPoP "+jobs[i].Token)
		r.Header.Set("DPoP", one.Proof)
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusTeapot || one.Thumbprint != thumbprints[i] {
			t.Errorf("%s: %d %s, thumbprint %s", jobs[i].Algorithm, w.Code, w.Body, one.Thumbprint)
		}
	}
}
