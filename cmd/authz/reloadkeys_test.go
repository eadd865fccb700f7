package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// reloadedKeys are the keys of the file of serve whose new values a running server takes, each with one
// that differs from baseServer.
var reloadedKeys = map[string]string{
	"registration": "closed", "registration-quota": "5", "registration-redirect-hosts": "[example.com]", "registration-schemes": "[cursor]",
	"registration-refuse": "[loopback]", "registration-scopes": "[notes:read]", "registration-grant-types": "[authorization_code]",
	"client-unused": "2d", "client-idle": "20d", "client-documents": "deny", "client-documents-allow": "[example.com]", "client-documents-deny": "[example.com]",
	"client-documents-pinned": `["https://client.example.org/one=DIR/document.json"]`, "assertion-audience": "issuer-or-endpoint",
	"access-token-ttl": "7m", "code-ttl": "50s", "refresh-window": "20s", "refresh-idle": "20d", "refresh-max": "80d",
	"session-idle": "1h", "session-max": "10h", "consent-remember": "[1d]", "insecure-remember-unvouched": "true", "audit-verbs": "DIR/verbs.jsonl",
	"dev-resource": "[https://notes.example.com/mcp]", "dev-introspection-secret": "not-used-without-dev",
	"limit-token": "7", "limit-client": "7", "limit-introspection": "7", "limit-registration": "7", "limit-documents": "7000", "limit-pages": "7000",
	"groups":              "{staff: [ada]}",
	"clients":             "\n  - {client_id: one, client_name: One, redirect_uris: [https://client.example.org/callback]}",
	"software-statements": "\n  - {issuer: https://publisher.example.com, jwks_file: DIR/keys.json}",
	"pre-approved":        "\n  - {client_id: one, resource: https://notes.example.com/mcp, scopes: [\"notes:read\"]}",
	"pages":               "{name: Example}",
	"sign-in":             "\n  providers:\n    - {id: company, preset: github, client_id: gatehouse, client_secret: the-secret-at-company, allow: {people: [ada]}}",
	"resources":           "\n  - {uri: https://notes.example.com/mcp, name: Other}",
}

// restartKeys are those whose new values need a restart. A text has more keys where one is a mistake
// without them.
var restartKeys = map[string]string{
	"issuer": "https://other.example.com", "store": "redis://127.0.0.1:6379", "records": "sealed", "master-keys": testKey(9),
	"listen": "127.0.0.1:1", "admin-listen": "127.0.0.1:2", "tls-cert": "DIR/cert.pem\ntls-key: DIR/key.pem", "tls-key": "DIR/key.pem\ntls-cert: DIR/cert.pem",
	"acme-names": "[auth.example.com]" + acmeAgreed, "acme-agree-terms": "true\nacme-names: [auth.example.com]", "acme-email": "ops@example.com" + acmeNamed,
	"acme-directory": "https://ca.example.com/directory" + acmeNamed, "acme-roots": "DIR/cert.pem" + acmeNamed, "acme-tls-alpn": "false\nacme-http-listen: 127.0.0.1:0" + acmeNamed,
	"acme-http-listen": "127.0.0.1:0" + acmeNamed,
	"drain":            "3s", "max-connections": "77", "trusted-proxies": "[192.0.2.1]", "signing-algorithm": "EdDSA", "key-rotation": "20d", "key-cache": "2m",
	"log-format": "json", "proxy": "http://proxy.example.com:3128", "proxy-by-name": "true\nproxy: http://proxy.example.com:3128", "egress-check": "[example.com]",
	"dev-password": "not-used-without-dev", "registry-at": "/registry",
	"audit": "DIR/trail.jsonl", "audit-required": "true\naudit: DIR/trail.jsonl",
}

const (
	acmeAgreed = "\nacme-agree-terms: true"
	acmeNamed  = "\nacme-names: [auth.example.com]" + acmeAgreed
)

// otherKeys are keys with a test of their own.
var otherKeys = map[string]func(*testing.T){
	"dev":                     TestSettingsThatNeedARestart,
	"registry":                TestReloadOfWhatIsMadeUp,
	"insecure-allow-loopback": TestReloadOfWhatIsMadeUp, // it needs dev
}

// fileOf are keys that name the file of a secret: the value in it counts, and the key of the secret is
// named.
var fileOf = map[string]struct{ secret, value string }{
	"master-keys-file":              {"master-keys", testKey(9)},
	"store-file":                    {"store", "redis://127.0.0.1:6379"},
	"proxy-file":                    {"proxy", "http://proxy.example.com:3128"},
	"dev-password-file":             {"dev-password", "not-used-without-dev"},
	"dev-introspection-secret-file": {"dev-introspection-secret", "not-used-without-dev"},
}

// TestEveryKeyIsReloadedOrNeedsARestart: a key of the file that no test of reloads tries fails here. What
// the settings say about themselves is what the tests try.
func TestEveryKeyIsReloadedOrNeedsARestart(t *testing.T) {
	parser, err := kong.New(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	known := settingNames(parser.Model)
	for _, key := range known {
		tables := 0
		for _, there := range []bool{reloadedKeys[key] != "", restartKeys[key] != "", otherKeys[key] != nil, fileOf[key].secret != ""} {
			if there {
				tables++
			}
		}
		if tables != 1 {
			t.Errorf("%s is in %d tables of this file: say whether a running server takes a new value", key, tables)
		}
	}
	for _, key := range serveReloads {
		if reloadedKeys[key] == "" {
			t.Errorf("%s is not tried", key)
		}
	}
	for _, key := range append(keysOfTable(reloadedKeys), keysOfTable(restartKeys)...) {
		if !slices.Contains(known, key) {
			t.Errorf("%s is no setting", key)
		}
	}
}

func keysOfTable(table map[string]string) (keys []string) {
	for key := range table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// named writes the files that the tables name.
func (r *reloading) named(t *testing.T) {
	t.Helper()
	write(t, r.dir, "document.json", `{"client_id":"https://client.example.org/one","client_name":"One","redirect_uris":["https://client.example.org/callback"],"token_endpoint_auth_method":"none"}`)
	write(t, r.dir, "keys.json", `{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`)
	writeCertificate(t, r.dir)
}

// with is baseServer with another value of a key.
func with(key, value string) string {
	text := leaveOut(baseServer, strings.TrimSuffix(key, "-file"))
	for line := range strings.Lines(value) {
		if also, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
			text = leaveOut(text, also)
		}
	}
	return text + key + ": " + value + "\n"
}

// TestEachSettingThatReloads: a new value of each of them is named and in force, and so is the old
// one when it is back.
func TestEachSettingThatReloads(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	r.named(t)
	before, series := "", `provider="company"`
	if strings.Contains(scrape(t, r.admin), series) {
		t.Error("there are series of a provider before its time")
	}
	for key, value := range reloadedKeys {
		r.write(t, with(key, value))
		got, want := r.reload(t), []string{key}
		if before != "" {
			want = append(want, before) // that has its old value again
		}
		keys := keysIn(got.Changed)
		slices.Sort(keys)
		slices.Sort(want)
		if !got.Done || !slices.Equal(keys, want) || len(got.Restart) > 0 {
			t.Errorf("%s: %+v", key, got)
		}
		before = key
	}
	r.write(t, baseServer)
	r.reload(t)
	if got := r.reload(t); !got.Done || len(got.Changed)+len(got.Restart) > 0 {
		t.Errorf("nothing has changed: %+v", got)
	}
	if !strings.Contains(scrape(t, r.admin), `gatehouse_provider_requests_total{outcome="ok",`+series+`}`) {
		t.Error("a provider that a reload brought has no series")
	}
}

// TestSettingsThatNeedARestart: a new value of such a setting is named and does not count; others in
// the same file do.
func TestSettingsThatNeedARestart(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	r.named(t)
	for key, value := range restartKeys {
		r.write(t, with(key, value)+"code-ttl: 40s\n")
		got := r.reload(t)
		unexpected := slices.ContainsFunc(got.Restart, func(c change) bool { return c.Key != key && !strings.Contains(value, "\n"+c.Key+": ") })
		if !got.Done || !slices.Contains(keysIn(got.Restart), key) || unexpected || !slices.Equal(keysIn(got.Changed), []string{"code-ttl"}) {
			t.Errorf("%s: %+v", key, got)
		}
		r.write(t, baseServer)
		if got := r.reload(t); len(got.Restart) > 0 || len(got.Changed) != 1 {
			t.Errorf("%s is the old one again: %+v", key, got)
		}
	}
	// What a restart would refuse together with the settings before is refused now.
	r.write(t, strings.Replace(leaveOut(baseServer, "resources"), "embedded:", "redis://127.0.0.1:6379", 1))
	if got := r.reload(t); got.Done || !strings.Contains(strings.Join(got.Mistakes, " "), "need a restart") {
		t.Errorf("no resources over a store in this process: %+v", got)
	}
	r.write(t, "dev: true\n"+baseServer)
	if got := r.reload(t); got.Done {
		t.Errorf("dev: %+v", got)
	}
}

// TestSecretsInFilesAtAReload: of a secret in a file the value counts, and the key that is named is that
// of the secret.
func TestSecretsInFilesAtAReload(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	for file, one := range fileOf {
		write(t, r.dir, "value", one.value)
		r.write(t, with(file, "DIR/value"))
		got := r.reload(t)
		if keys := append(keysIn(got.Changed), keysIn(got.Restart)...); !got.Done || !slices.Equal(keys, []string{one.secret}) {
			t.Errorf("%s: %+v", file, got)
		}
		r.write(t, baseServer)
		r.reload(t)
	}
}
