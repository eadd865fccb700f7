package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

func TestDevNeedsNothing(t *testing.T) {
	r := start(t, nil, "--dev", "--listen", "127.0.0.1:0")
	issuer := r.shown("issuer")
	if !strings.HasPrefix(issuer, "http://127.0.0.1:") || strings.HasSuffix(issuer, ":0") || strings.HasSuffix(issuer, ":8080") {
		t.Errorf("issuer %q does not follow the listener", issuer)
	}
	if r.shown("connect to") != "http://127.0.0.1:8081/mcp" {
		t.Errorf("connect to %q", r.shown("connect to"))
	}
	if got := r.shown("sign in"); !strings.HasPrefix(got, "demo / ") || len(got) < len("demo / ")+24 {
		t.Errorf("sign in %q: no random password", got)
	}
	if got := r.shown("introspect"); !strings.Contains(got, "secret: ") {
		t.Errorf("introspect %q: no random secret", got)
	}
	if strings.Contains(r.stdout.String(), "admin on") {
		t.Error("the admin listener is on without being asked for")
	}
	if status, _ := get(t, http.DefaultClient, issuer+"/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	status, body := get(t, http.DefaultClient, issuer+"/.well-known/oauth-authorization-server")
	var document struct {
		Issuer       string   `json:"issuer"`
		Registration string   `json:"registration_endpoint"`
		Scopes       []string `json:"scopes_supported"`
	}
	if err := json.Unmarshal([]byte(body), &document); err != nil || status != 200 {
		t.Fatalf("metadata: %d %v %s", status, err, body)
	}
	if document.Issuer != issuer || document.Registration != issuer+"/register" || !slices.Contains(document.Scopes, "notes:read") {
		t.Errorf("metadata: %+v", document)
	}
	if status := r.ended(t); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// Each relaxation is one line of the block after "ready". Warnings about the store and about
// settings that the operator chose are in the log. There is no warning without a reason.
func TestRelaxedIsOneBlock(t *testing.T) {
	const (
		lost     = "lost at exit"
		key      = "the master key is made up"
		register = "anybody who reaches this server may register clients"
		often    = "clients may register as often as they like"
		resource = "tokens are for a demo resource"
		person   = "there is a person demo"
		shared   = "resources introspect with their URI and one shared secret"
		plain    = "http does not encrypt passwords and tokens"
		ajar     = "any client can still connect with a metadata document"
		network  = "is open to other machines"
		here     = "clients may have documents, keys and logos fetched from this machine"
		ports    = "cookies are shared between the ports of a host"
		keeps    = "the store does not report how it keeps records" // the test's Redis knows no settings
		counts   = "each process counts its limits by itself"       // nor all commands
	)
	all := []string{ports, lost, key, register, often, resource, person, shared, plain, network, keeps, counts, here, ajar}
	redis := miniredis.RunT(t)
	tests := []struct {
		name    string
		environ []string
		args    []string
		want    []string
	}{
		{"alone", nil, nil, []string{ports, lost, key, register, often, resource, person, shared, plain}},
		{"own key", []string{"AUTHZ_MASTER_KEYS=" + testKey(1)}, nil, []string{ports, lost, register, often, resource, person, shared, plain}},
		{"own store", []string{"AUTHZ_MASTER_KEYS=" + testKey(1)}, []string{"--store", "redis://" + redis.Addr()}, []string{ports, keeps, counts, register, often, resource, person, shared, plain}},
		{"closed", nil, []string{"--registration", "closed"}, []string{ports, lost, key, resource, person, shared, plain, ajar}},
		{"open by choice", nil, []string{"--registration", "open"}, []string{ports, lost, key, often, resource, person, shared, plain}},
		{"a bound by choice", nil, []string{"--registration-quota", "600"}, []string{ports, lost, key, register, resource, person, shared, plain}},
		{"fetches from here", nil, []string{"--insecure-allow-loopback"}, []string{ports, lost, key, register, often, here, resource, person, shared, plain}},
		{"every interface", nil, []string{"--listen", "0.0.0.0:0"}, all[:len(all)-4]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, tt.environ, append([]string{"--dev", "--listen", "127.0.0.1:0"}, tt.args...)...)
			for _, sentence := range all {
				want := 0
				if slices.Contains(tt.want, sentence) {
					want = 1
				}
				if got := strings.Count(r.stdout.String()+r.stderr.String(), sentence); got != want {
					t.Errorf("%q is printed %d times, want %d", sentence, got, want)
				}
			}
			logged := strings.Count(r.stderr.String(), "level=WARN")
			if got := logged + strings.Count(r.stdout.String(), "\n  - "); got != len(tt.want) || strings.Contains(r.stderr.String(), lost) {
				t.Errorf("%d warnings, want %d:\n%s%s", got, len(tt.want), r.stdout.String(), r.stderr.String())
			}
			if ready, block, _ := strings.Cut(r.stdout.String(), "Relaxed by --dev"); !strings.Contains(ready, "connect to") || strings.Contains(block, "connect to") || strings.Contains(ready, "\n  - ") {
				t.Errorf("the block is not after what people need:\n%s", r.stdout.String())
			}
		})
	}
}

func TestDevSecretsOfTheOperatorAreNotPrinted(t *testing.T) {
	r := start(t, []string{"AUTHZ_DEV_PASSWORD=horse-battery", "AUTHZ_DEV_INTROSPECTION_SECRET=staple-staple-staple", "AUTHZ_MASTER_KEYS=" + testKey(1)},
		"--dev", "--listen", "127.0.0.1:0")
	out := r.stdout.String() + r.stderr.String()
	for _, hidden := range []string{"horse", "staple", testKey(1)} {
		if strings.Contains(out, hidden) {
			t.Errorf("%q is printed:\n%s", hidden, out)
		}
	}
	if got := r.shown("sign in"); got != "demo, with the password in AUTHZ_DEV_PASSWORD" {
		t.Errorf("sign in %q", got)
	}
	introspect(t, r.shown("issuer"), "http://127.0.0.1:8081/mcp", "staple-staple-staple", http.StatusOK)
	introspect(t, r.shown("issuer"), "http://127.0.0.1:8081/mcp", "wrong", http.StatusUnauthorized)
	introspect(t, r.shown("issuer"), "demo", "staple-staple-staple", http.StatusUnauthorized)
}
