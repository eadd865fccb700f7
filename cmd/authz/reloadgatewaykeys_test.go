package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
)

// reloadedAtGateway are the keys of the file of gateway whose new values a running gateway takes, each
// with one that differs from the file of TestEveryKeyOfTheGateway, and with more keys where one is a
// mistake without them.
var reloadedAtGateway = map[string]string{
	"resource": "https://other.example.com/mcp", "upstream": "http://127.0.0.1:9/other", "issuer": "https://other.example.com", "scopes": "DIR/other.yaml",
	"resource-name": "Notes", "identity": "none", "assertion-binding": "request\nidentity: assertion", "pass-headers": "[X-Team-Name]",
	"upstream-headers-file": "DIR/headers", "upstream-cert": "DIR/cert.pem\nupstream-key: DIR/key.pem" + overTLS, "upstream-key": "DIR/key.pem\nupstream-cert: DIR/cert.pem" + overTLS,
	"upstream-ca": "DIR/cert.pem" + overTLS, "upstream-server-name": "other.example.com" + overTLS,
	"introspection-client-id": "other\nintrospection-secret: the-secret-of-the-notes-server", "introspection-secret": "the-secret-of-the-notes-server",
	"stale-keys": "1h", "end-streams": "false", "max-body": "1000", "max-token": "4096", "allowed-origins": "[https://app.example.com]",
	"dpop": "accepted", "dpop-window": "1m\ndpop: accepted", "dpop-nonce": "true\ndpop: accepted", "dpop-content-digest": "true\ndpop: accepted",
	"client-cert-header": "X-Ssl-Cert",
}

const overTLS = "\nupstream: https://127.0.0.1:9/other"

// restartAtGateway are those whose new values need a restart.
var restartAtGateway = map[string]string{
	"listen": "127.0.0.1:1", "admin-listen": "127.0.0.1:2", "drain": "1s", "max-connections": "99", "log-format": "json", "trusted-proxies": "[10.0.0.1]",
	"tls-cert": "DIR/cert.pem\ntls-key: DIR/key.pem", "tls-key": "DIR/key.pem\ntls-cert: DIR/cert.pem",
	"session-key": testKey(3), "assertion-key": "DIR-KEY\nidentity: assertion",
	"acme-names": "[auth.example.com]" + acmeAgreed + inFolder, "acme-agree-terms": "true\nacme-names: [auth.example.com]" + inFolder, "acme-email": "ops@example.com" + acmeNamed + inFolder,
	"acme-directory": "https://ca.example.com/directory" + acmeNamed + inFolder, "acme-roots": "DIR/cert.pem" + acmeNamed + inFolder, "acme-tls-alpn": "false\nacme-http-listen: 127.0.0.1:0" + acmeNamed + inFolder,
	"acme-http-listen": "127.0.0.1:0" + acmeNamed + inFolder, "acme-folder": "DIR/acme" + acmeNamed,
	"audit": "DIR/trail.jsonl\naudit-key: " + auditKey, "audit-required": "true\naudit: DIR/trail.jsonl\naudit-key: " + auditKey, "audit-key": auditKey + "\naudit: DIR/trail.jsonl",
}

const inFolder = "\nacme-folder: DIR/acme"

// withoutForwarding are verify-only and the keys that only it has. They need a restart of a gateway that
// forwards, because that does; TestGatewaySettingsThatReload tries verify-only.
var withoutForwarding = []string{"verify-only", "insecure-trust-mcp-headers", "verify-method-header", "verify-uri-header"}

// TestEveryKeyOfTheGateway: a key of the file is taken by a running gateway, or named as one that needs
// a restart. One that this test does not try is a fault.
func TestEveryKeyOfTheGateway(t *testing.T) {
	t.Parallel()
	base := "resource: " + reloadedNotes + "\nupstream: http://127.0.0.1:9\nissuer: https://login.example.com\nscopes: DIR/scopes.yaml\ntrusted-proxies: [192.0.2.1]\n"
	r := startReloading(t, "gateway", base, map[string]string{
		"scopes.yaml": "tools:\n  list_notes: notes:read\n", "other.yaml": "tools:\n  list_notes: notes:write\n", "headers": "X-Team: notes\n",
	})
	writeCertificate(t, r.dir)
	parser, err := kong.New(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	flags := settings.FlagsOf(parser.Model, "gateway")
	for _, key := range settings.FileKeys(flags) {
		if isTwin(flags, key) {
			continue // the key of the secret is named
		}
		value, taken := reloadedAtGateway[key]
		if !taken {
			value = restartAtGateway[key]
		}
		switch {
		case taken && slices.Contains(gatewayRestarts, key), !taken && !slices.Contains(gatewayRestarts, key) && !slices.Contains(withoutForwarding, key):
			t.Errorf("%s is in the wrong list of this file: a reload takes it, or it does not", key)
		case value != "":
			r.tries(t, base, key, strings.ReplaceAll(value, "DIR-KEY", "\""+strings.ReplaceAll(pemOf(t, newP256(t)), "\n", `\n`)+"\""), taken)
		case !slices.Contains(withoutForwarding, key):
			t.Errorf("%s is in no list of this file: say whether a running gateway takes a new value", key)
		}
	}
}

// tries reloads with another value of a key, and with the one before.
func (r *reloading) tries(t *testing.T, base, key, value string, taken bool) {
	t.Helper()
	text := leaveOut(base, key)
	for line := range strings.Lines(value) {
		if also, _, ok := strings.Cut(line, ": "); ok {
			text = leaveOut(text, also)
		}
	}
	r.write(t, text+key+": "+value+"\n")
	got := r.reload(t)
	named, other := keysIn(got.Changed), keysIn(got.Restart)
	if !taken {
		named, other = other, named
	}
	if !got.Done || !slices.Contains(named, key) || slices.Contains(other, key) {
		t.Errorf("%s: %+v", key, got)
	}
	r.write(t, base)
	if got := r.reload(t); !got.Done || len(got.Restart) > 0 {
		t.Errorf("%s, back: %+v", key, got)
	}
}
