package metadata_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

func TestCanonical(t *testing.T) {
	for raw, want := range map[string]string{
		"https://notes.example.com":                "https://notes.example.com",
		"https://notes.example.com/":               "https://notes.example.com",
		"https://notes.example.com/mcp":            "https://notes.example.com/mcp",
		"https://notes.example.com/mcp/":           "https://notes.example.com/mcp/",
		"https://notes.example.com//":              "https://notes.example.com//",
		"https://notes.example.com/a/../b":         "https://notes.example.com/a/../b",
		"https://notes.example.com/%7Ea":           "https://notes.example.com/%7Ea",
		"https://notes.example.com/a%2Fb":          "https://notes.example.com/a%2Fb",
		"https://notes.example.com/a%2fb":          "https://notes.example.com/a%2fb",
		"HTTPS://Notes.Example.COM/MCP":            "https://notes.example.com/MCP",
		"https://notes.example.com:443/mcp":        "https://notes.example.com/mcp",
		"https://notes.example.com:8443/mcp":       "https://notes.example.com:8443/mcp",
		"https://notes.example.com:80/mcp":         "https://notes.example.com:80/mcp",
		"http://127.0.0.1:80/mcp":                  "http://127.0.0.1/mcp",
		"http://127.0.0.1:8081/mcp":                "http://127.0.0.1:8081/mcp",
		"http://[::1]:8081/mcp":                    "http://[::1]:8081/mcp",
		"http://[2001:DB8::1]/mcp":                 "http://[2001:db8::1]/mcp",
		"https://notes.example.com?tenant=a":       "https://notes.example.com?tenant=a",
		"https://notes.example.com/?tenant=a":      "https://notes.example.com/?tenant=a",
		"https://notes.example.com/mcp?b=2&a=1":    "https://notes.example.com/mcp?b=2&a=1",
		"https://notes.example.com/mcp?":           "https://notes.example.com/mcp?",
		"https://notes.example.com./mcp":           "https://notes.example.com./mcp",
		"https://xn--bcher-kva.example.com/mcp":    "https://xn--bcher-kva.example.com/mcp",
		"https://notes.example.com/" + long(2000):  "https://notes.example.com/" + long(2000),
		"http://anything.example.com/not-loopback": "http://anything.example.com/not-loopback",
	} {
		got, err := metadata.Canonical(raw)
		if err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v; want %q", raw, got, err, want)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, raw := range []string{
		"", " ", "notes.example.com", "/mcp", "//notes.example.com/mcp", "mcp", "?a=b",
		"https:", "https://", "https:///mcp", "https:/mcp", "https:mcp", "https://:443/mcp", "https://?a", "://notes.example.com",
		"ftp://notes.example.com", "ws://notes.example.com", "file:///etc/passwd", "javascript://notes.example.com/%0aalert(1)",
		"urn:ietf:params:oauth", "mailto:a@example.com", "data:text/plain,x",
		"https://notes.example.com/mcp#", "https://notes.example.com/mcp#a", "https://notes.example.com#",
		"https://user@notes.example.com/mcp", "https://user:secret@notes.example.com/mcp", "https://@notes.example.com/mcp",
		"https://notes.example.com:0/mcp", "https://notes.example.com:/mcp", "https://notes.example.com:65536/mcp",
		"https://notes.example.com:0443/mcp", "https://notes.example.com:443x/mcp", "https://notes.example.com:-1/mcp", "https://notes.example.com:99999999999/",
		"https://notes.example.com\\@evil.example.org/mcp", "https://notes.example.com/a b", "https://notes.example.com/\tb",
		"https://notes.example.com/\r\nX: y", "https://notes.example.com/\x00", "https://notes.example.com/\x7f", "https://notes.example.com/é",
		"https://bücher.example.com/mcp", "https://b%C3%BCcher.example.com/mcp", "https://notes%2eexample.com/mcp", "https://notes%25.example.com/mcp",
		"https://notes.example.com/%zz", "https://notes.example.com/%", "https://notes.example.com/a|b", "https://notes.example.com/?q=\"", "https://notes.example.com/<x>",
		"https://::1/mcp", "https://[::1/mcp", "https://::1]/mcp", "https://[]/mcp", "https://[127.0.0.1]/mcp", "https://[fe80::1%25eth0]/mcp", "https://[::1]x/mcp",
		"https://.example.com/mcp", "https://notes..example.com/mcp", "https://*.example.com/mcp",
		" https://notes.example.com/mcp", "https://notes.example.com/mcp ", "https://notes.example.com/" + long(2048),
	} {
		got, err := metadata.Canonical(raw)
		if got != "" || !errors.Is(err, metadata.ErrResourceURI) {
			t.Errorf("Canonical(%q) = %q, %v; want ErrResourceURI", raw, got, err)
		}
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func TestValidIssuer(t *testing.T) {
	for _, raw := range []string{
		"https://auth.example.com",
		"https://auth.example.com:8443",
		"https://auth.example.com/tenant",
		"https://auth.example.com/tenant/one",
		"http://127.0.0.1:8080",
		"http://127.8.9.10:8080",
		"http://[::1]:8080",
		"http://localhost:8080",
		"http://localhost",
	} {
		if err := metadata.ValidIssuer(raw); err != nil {
			t.Errorf("ValidIssuer(%q) = %v", raw, err)
		}
	}
}

func TestValidIssuerRefuses(t *testing.T) {
	for _, raw := range []string{
		"", "auth.example.com", "/", "https://", "https:auth.example.com",
		"https://auth.example.com/", "https://auth.example.com/tenant/", "https://auth.example.com//", "https://auth.example.com//tenant",
		"https://auth.example.com?", "https://auth.example.com?a=b", "https://auth.example.com/tenant?a", "https://auth.example.com#", "https://auth.example.com#a",
		"https://AUTH.example.com", "HTTPS://auth.example.com", "https://auth.example.com:443", "http://127.0.0.1:80",
		"https://auth.example.com/a/../b", "https://auth.example.com/./a", "https://auth.example.com/..", "https://auth.example.com/.well-known/x",
		"https://auth.example.com/a%2Fb", "https://auth.example.com/%74enant", "https://user@auth.example.com",
		"http://auth.example.com", "http://192.168.1.1:8080", "http://10.0.0.1", "http://0.0.0.0:8080", "http://[::]:8080", "http://128.0.0.1",
		"http://localhost.example.com", "http://127.0.0.1.example.com", "http://LOCALHOST", "http://[::ffff:127.0.0.1]", "http://127.1", "http://2130706433",
		"ftp://auth.example.com", "urn:example:issuer", "javascript:alert(1)", "https://auth.example.com/tenant\n", "https://auth.exämple.com",
	} {
		if err := metadata.ValidIssuer(raw); err == nil {
			t.Errorf("ValidIssuer(%q) passes", raw)
		}
	}
}

func TestIsLoopbackHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.255.255.254": true, "::1": true, "0:0:0:0:0:0:0:1": true,
		"": false, "Localhost": false, "localhost.": false, "localhost.example.com": false, "127.1": false, "127.0.0.01": false, "0x7f.0.0.1": false,
		"128.0.0.1": false, "0.0.0.0": false, "::": false, "::2": false, "::ffff:127.0.0.1": false, "::1%lo": false, "[::1]": false, "10.0.0.1": false,
	} {
		if got := metadata.IsLoopbackHost(host); got != want {
			t.Errorf("IsLoopbackHost(%q) = %v", host, got)
		}
	}
}

// FuzzCanonical: a canonical form is its own canonical form, is printable, and is the same
// resource to url.Parse.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		"https://notes.example.com/mcp", "HTTP://A:80/", "https://[::1]:443?x", "https://h/%2f", "https://::1/", "https://a%C3%A9/", "http://a:b@c/#d", "https://h?",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		once, err := metadata.Canonical(raw)
		if err != nil {
			if once != "" {
				t.Fatalf("Canonical(%q) = %q with an error", raw, once)
			}
			return
		}
		twice, err := metadata.Canonical(once)
		if err != nil || twice != once {
			t.Fatalf("Canonical(%q) = %q, but Canonical of that is %q, %v", raw, once, twice, err)
		}
		before, err1 := url.Parse(raw)
		after, err2 := url.Parse(once)
		if err1 != nil || err2 != nil || before.RawQuery != after.RawQuery || !strings.EqualFold(before.Hostname(), after.Hostname()) {
			t.Fatalf("Canonical(%q) = %q is another resource", raw, once)
		}
		if b, a := before.EscapedPath(), after.EscapedPath(); a != b && (b != "/" || a != "") {
			t.Fatalf("Canonical(%q) changed the path from %q to %q", raw, b, a)
		}
		if metadata.ValidIssuer(raw) == nil && once != raw {
			t.Fatalf("the issuer %q has another spelling, %q", raw, once)
		}
	})
}
