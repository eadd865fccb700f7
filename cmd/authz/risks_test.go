package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// keyOf returns a master key of 32 bytes as it is configured.
func keyOf(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)[:32]) }

// A key that is not random causes a warning; a key of one repeated byte is refused, and causes a
// warning with --dev.
func TestMasterKeys(t *testing.T) {
	counting := make([]byte, 32)
	backwards := make([]byte, 32)
	for i := range counting {
		counting[i], backwards[i] = byte(i), byte(255-3*i)
	}
	for name, tt := range map[string]struct {
		key     string
		refused bool
	}{
		"zero":                {keyOf(string(make([]byte, 32))), true},
		"one byte":            {keyOf(strings.Repeat("\xff", 32)), true},
		"one letter":          {keyOf(strings.Repeat("a", 32)), true},
		"zero behind another": {testKey(1) + "," + keyOf(string(make([]byte, 32))), true},
		"two bytes":           {keyOf(strings.Repeat("\x01\xfe", 16)), false},
		"half of it twice":    {keyOf(strings.Repeat("0\x8f\x02\xa3u\xee\x16\x99\xc4\x5b\xf1\x0d\x77\xba\x2c\xe3", 2)), false},
		"a number":            {keyOf("\x00\x01" + string(make([]byte, 30))), false},
		"counting":            {keyOf(string(counting)), false},
		"counting backwards":  {keyOf(string(backwards)), false},
		"text":                {keyOf("correct horse battery staple 1234"), false},
		"text behind another": {testKey(1) + "," + keyOf("The quick brown fox jumps over the lazy dog"), false},
	} {
		t.Run(name, func(t *testing.T) {
			const refusal, warning = "is one byte repeated", "warning: master-keys: key"
			status, said := check(t, []string{"AUTHZ_MASTER_KEYS=" + tt.key}, "--config", plainFile(t, ""))
			if tt.refused && (status != exitRefused || strings.Count(said, refusal) != 1) || !tt.refused && (status != exitDone || strings.Count(said, warning) != 1) {
				t.Errorf("exit status %d:\n%s", status, said)
			}
			if status, said := check(t, []string{"AUTHZ_MASTER_KEYS=" + tt.key}, "--dev"); status != exitDone || strings.Count(said, warning) != 1 {
				t.Errorf("with --dev: exit status %d:\n%s", status, said)
			}
			if strings.Contains(said, tt.key) {
				t.Error("the key is printed")
			}
		})
	}
	var out, said lockedBuffer
	zero := []string{"AUTHZ_MASTER_KEYS=" + keyOf(string(make([]byte, 32)))}
	if status := run(t.Context(), []string{"registry", "serve", "--listen", "127.0.0.1:0"}, zero, nil, &out, &said); status != exitRefused {
		t.Errorf("a registry: exit status %d:\n%s", status, said.String())
	}
}

// No random key is taken for a pattern.
func TestRandomKeysAreGood(t *testing.T) {
	key := make([]byte, 32)
	for range 20_000 {
		if _, err := rand.Read(key); err != nil || patterned(key) {
			t.Fatalf("%x, %v", key, err)
		}
	}
}

// plainFile writes a configuration without a risk, followed by more lines.
func plainFile(t *testing.T, more string) string {
	t.Helper()
	return save(t, "gatehouse.yaml", `
issuer: https://auth.example.com
store: redis://127.0.0.1:6379
resources:
  - uri: https://notes.example.com/mcp
`+registered(more)+more)
}

// registered returns the line for registration unless more has one.
func registered(more string) string {
	if strings.Contains(more, "registration:") {
		return ""
	}
	return "registration: open\n"
}

// check runs check-config and returns its exit status and standard error.
func check(t *testing.T, environ []string, args ...string) (int, string) {
	t.Helper()
	var out, said bytes.Buffer
	status := run(t.Context(), append([]string{"check-config"}, args...), environ, nil, &out, &said)
	return status, said.String()
}

// goodKeys returns an environment with a random master key.
func goodKeys() []string { return []string{"AUTHZ_MASTER_KEYS=" + testKey(1)} }

func TestTrustedProxiesSetting(t *testing.T) {
	for network, want := range map[string]bool{
		"0.0.0.0/0": true, "::/0": true, "0.0.0.0/1": true, "128.0.0.0/1": true, "8000::/1": true, "::ffff:0:0/96": true, "::ffff:0.0.0.0/97": true,
		"64.0.0.0/8": true, "11.0.0.0/8": true, "10.0.0.0/7": true, "2001::/16": true, "fc00::/6": true, "100.0.0.0/9": true,
		"10.0.0.0/8": false, "172.16.0.0/12": false, "192.168.0.0/16": false, "127.0.0.0/8": false, "fd00::/8": false, "fc00::/7": false,
		"192.0.2.1/32": false, "198.51.0.0/16": false, "192.0.0.0/12": false, "2001:db8::/32": false, "2001:d00::/24": false,
	} {
		if got := wide(netip.MustParsePrefix(network)); got != want {
			t.Errorf("%s: too wide is %t", network, got)
		}
		if status, said := check(t, goodKeys(), "--config", plainFile(t, "trusted-proxies: ["+network+", 192.0.2.7]\n")); status != exitDone || strings.Contains(said, "warning: trusted-proxies "+netip.MustParsePrefix(network).Masked().String()) != want {
			t.Errorf("%s: exit status %d:\n%s", network, status, said)
		}
	}
}

func TestAdminListener(t *testing.T) {
	for listen, want := range map[string]bool{
		":9090": true, "0.0.0.0:9090": true, "[::]:9090": true, "[::ffff:0.0.0.0]:9090": true, "203.0.113.5:9090": true, "[2001:db8::1]:9090": true,
		"127.0.0.1:9090": false, "[::1]:9090": false, "localhost:9090": false, "10.0.0.1:9090": false, "[fd00::1]:9090": false, "off": false,
	} {
		if status, said := check(t, goodKeys(), "--config", plainFile(t, ""), "--admin-listen", listen); status != exitDone || strings.Contains(said, "warning: admin-listen "+listen) != want {
			t.Errorf("%s: exit status %d:\n%s", listen, status, said)
		}
	}
}

func TestStoreWithoutTLS(t *testing.T) {
	for url, want := range map[string]string{
		"redis://redis.example.com:6379":                  "redis.example.com:6379",
		"redis://gate:hunter22@10.0.0.1":                  "10.0.0.1:6379",
		"redis+sentinel://127.0.0.1:1,10.0.0.2:2/main":    "10.0.0.2:2",
		"redis+cluster://a.example.com:1,b.example.com:2": "a.example.com:1, b.example.com:2",
		"redis://[2001:db8::1]:6379":                      "[2001:db8::1]:6379",
		"redis://localhost.example.com":                   "localhost.example.com:6379",
		"rediss://redis.example.com":                      "",
		"rediss+sentinel://10.0.0.1:1/main":               "",
		"rediss+cluster://10.0.0.1:1":                     "",
		"redis://localhost":                               "",
		"redis://127.0.0.2:6379":                          "",
		"redis://[::1]:6379/3":                            "",
		"redis+sentinel://127.0.0.1:1,[::1]:2/main?db=3":  "",
		"embedded:": "",
	} {
		_, said := check(t, append(goodKeys(), "AUTHZ_STORE="+url), "--config", plainFile(t, ""))
		if want != "" && !strings.Contains(said, "warning: store "+want+": without TLS") || want == "" && strings.Contains(said, "without TLS") {
			t.Errorf("%s:\n%s", url, said)
		}
		if strings.Contains(said, "hunter22") {
			t.Errorf("%s: a password is printed:\n%s", url, said)
		}
	}
}

// Closed registration with open client documents causes a warning.
func TestClients(t *testing.T) {
	for _, registration := range []string{"open", "token", "closed"} {
		for _, documents := range []string{"ask", "allow", "deny", "off"} {
			_, said := check(t, goodKeys(), "--config", plainFile(t, "registration: "+registration+"\nclient-documents: "+documents+"\n"))
			vouched := strings.Contains(said, "warning: client-documents allow: ")
			ajar := strings.Contains(said, "warning: registration closed: ")
			if vouched != (documents == "allow") || ajar != (registration == "closed" && (documents == "ask" || documents == "allow")) {
				t.Errorf("registration %s, documents %s:\n%s", registration, documents, said)
			}
		}
	}
}

// TestOpenListener: a listener that others reach without TLS causes a warning, unless it has a
// certificate, from a file or from an authority.
func TestOpenListener(t *testing.T) {
	for lines, want := range map[string]bool{
		"listen: 0.0.0.0:8080\n":                                                   true,
		"listen: 127.0.0.1:8080\n":                                                 false,
		"listen: 0.0.0.0:8080\ntls-cert: c.pem\ntls-key: k.pem\n":                  false,
		"listen: 0.0.0.0:8080\nacme-names: [auth.example.com]" + acmeAgreed + "\n": false,
	} {
		if _, said := check(t, goodKeys(), "--config", plainFile(t, lines)); strings.Contains(said, "is open to other machines without TLS") != want {
			t.Errorf("%q:\n%s", lines, said)
		}
	}
}

// hazard is a weak setting, and the beginning of the warning about it.
type hazard struct {
	name string
	line string // in the file
	args []string
	says string
}

// Any two hazards together, all, and none: each causes exactly one warning, and warnings alone are
// no failure. With a mistake beside them the exit status is 1, and the warnings are still printed.
func TestWarningsTogether(t *testing.T) {
	hazards := []hazard{
		{"a wide network", "trusted-proxies: [0.0.0.0/0]\n", nil, "trusted-proxies 0.0.0.0/0: "},
		{"an open admin listener", "", []string{"--admin-listen", ":9090"}, "admin-listen :9090: "},
		{"a plain store", "", []string{"--store", "redis://redis.example.com"}, "store redis.example.com:6379: "},
		{"documents for all", "client-documents: allow\n", nil, "client-documents allow: "},
		{"a pattern", "", []string{"--master-keys-file", save(t, "counting", keyOf("abcdefghijklmnopqrstuvwxyzabcdefgh"))}, "master-keys: key 1 follows a pattern"},
		{"an open listener", "", []string{"--listen", "0.0.0.0:8080"}, "listen 0.0.0.0:8080 is open"},
		{"a secret in sight", "", []string{"--dev-password", "hunter22"}, "dev-password is on the command line"},
	}
	together := func(which []hazard, broken bool) {
		lines, args, names := "", []string(nil), []string(nil)
		for _, h := range which {
			lines, args, names = lines+h.line, append(args, h.args...), append(names, h.name)
		}
		if broken {
			args = append(args, "--code-ttl", "0s")
		}
		environ := goodKeys()
		if slices.Contains(args, "--master-keys-file") {
			environ = nil
		}
		status, said := check(t, environ, append([]string{"--config", plainFile(t, lines)}, args...)...)
		want := exitDone
		if broken {
			want = exitRefused
		}
		expected := len(which)
		for _, h := range which {
			if strings.Count(said, "authz: warning: "+h.says) != 1 {
				t.Errorf("%q: no line begins with %q:\n%s", names, h.says, said)
			}
			if h.name == "a secret in sight" {
				expected++ // and it has no effect
			}
		}
		if got := strings.Count(said, "warning: "); status != want || got != expected {
			t.Errorf("%q, a mistake beside it: %t: exit status %d, %d warnings, want %d and %d:\n%s", names, broken, status, got, want, expected, said)
		}
	}
	together(nil, false)
	for i := range hazards {
		for j := i; j < len(hazards); j++ {
			together([]hazard{hazards[i], hazards[j]}[:1+min(1, j-i)], j%2 == 1)
		}
	}
	together(hazards, false)
	together(hazards, true)
}

// The start logs the same warnings as check-config.
func TestStartSaysTheSame(t *testing.T) {
	redis := miniredis.RunT(t)
	config := save(t, "gatehouse.yaml", fmt.Sprintf(`
issuer: https://auth.example.com
listen: 0.0.0.0:0
admin-listen: 0.0.0.0:0
store: redis://%s
registration: closed
client-documents: allow
trusted-proxies: ["::/0"]
resources:
  - uri: https://notes.example.com/mcp
`, redis.Addr()))
	environ := []string{"AUTHZ_MASTER_KEYS=" + keyOf("abcdefghijklmnopqrstuvwxyzabcdefgh"), "AUTHZ_DEV_PASSWORD=hunter22"}
	r := start(t, environ, "--config", config)
	_, said := check(t, environ, "--config", config)
	count := 0
	for line := range strings.Lines(said) {
		sentence := strings.TrimSpace(strings.TrimPrefix(line, "authz: warning: "))
		count++
		if !strings.Contains(r.stderr.String(), sentence) {
			t.Errorf("the start does not say: %s", sentence)
		}
	}
	if count != 7 {
		t.Errorf("%d warnings:\n%s", count, said)
	}
}

// A lifetime of six minutes or less causes a warning, because clients that refresh five minutes
// early would refresh at each call. The default causes none.
func TestAccessTokenLifeIsWarnedAbout(t *testing.T) {
	for life, want := range map[string]bool{"": false, "10m": false, "361s": false, "1h": false, "6m": true, "360s": true, "5m": true, "1s": true} {
		args := []string{"--config", plainFile(t, "")}
		if life != "" {
			args = append(args, "--access-token-ttl", life)
		}
		status, said := check(t, goodKeys(), args...)
		if got := strings.Contains(said, "warning: access-token-ttl "); status != exitDone || got != want {
			t.Errorf("%q: exit status %d, warned about: %t, want %t\n%s", life, status, got, want, said)
		}
	}
	var out, said bytes.Buffer
	if status := run(t.Context(), []string{"check-config", "--effective", "--config", plainFile(t, "")}, goodKeys(), nil, &out, &said); status != exitDone || !strings.Contains(out.String(), "access-token-ttl: 10m  # default") {
		t.Errorf("exit status %d:\n%s%s", status, out.String(), said.String())
	}
}
