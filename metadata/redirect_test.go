package metadata_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

func TestParseRedirect(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		kind metadata.RedirectKind
		host string
	}{
		{"https://claude.ai/api/mcp/auth_callback", metadata.RedirectWeb, "claude.ai"},
		{"https://chatgpt.com/connector/oauth/abc123", metadata.RedirectWeb, "chatgpt.com"},
		{"https://vscode.dev/redirect", metadata.RedirectWeb, "vscode.dev"},
		{"https://app.example.com", metadata.RedirectWeb, "app.example.com"},
		{"https://app.example.com:8443/cb?a=b", metadata.RedirectWeb, "app.example.com:8443"},
		{"https://127.0.0.1/cb", metadata.RedirectWeb, "127.0.0.1"},
		{"https://app.example.com:443/cb", metadata.RedirectWeb, "app.example.com"},
		{"http://127.0.0.1:80/cb", metadata.RedirectLoopback, "127.0.0.1"},
		{"http://127.0.0.1/", metadata.RedirectLoopback, "127.0.0.1"},
		{"http://127.0.0.1:33418/", metadata.RedirectLoopback, "127.0.0.1:33418"},
		{"http://127.0.0.1:33418", metadata.RedirectLoopback, "127.0.0.1:33418"},
		{"http://127.3.2.1:1/cb", metadata.RedirectLoopback, "127.3.2.1:1"},
		{"http://[::1]:6276/oauth/callback", metadata.RedirectLoopback, "[::1]:6276"},
		{"http://localhost:6274/oauth/callback", metadata.RedirectLoopback, "localhost:6274"},
		{"http://localhost/callback", metadata.RedirectLoopback, "localhost"},
		{"cursor://anysphere.cursor-mcp/oauth/callback", metadata.RedirectPrivateUse, "cursor://anysphere.cursor-mcp"},
		{"com.example.app:/oauth/cb", metadata.RedirectPrivateUse, "com.example.app:"},
		{"com.example.app:cb", metadata.RedirectPrivateUse, "com.example.app:"},
		{"https://app.example.com/code?CODE=1&code2=state&a[code]=2&x=code", metadata.RedirectWeb, "app.example.com"},
		{"com.example.app://cb?x=y", metadata.RedirectPrivateUse, "com.example.app://cb"},
	} {
		got, err := metadata.ParseRedirect(tt.raw)
		if err != nil || got.Raw != tt.raw || got.Kind != tt.kind || got.Host() != tt.host {
			t.Errorf("ParseRedirect(%q) = %q kind %d host %q, %v; want kind %d host %q", tt.raw, got.Raw, got.Kind, got.Host(), err, tt.kind, tt.host)
		}
	}
}

func TestParseRedirectRefuses(t *testing.T) {
	bad := []string{
		"https://APP.example.com/cb", "", "cb", "/cb", "//app.example.com/cb", "app.example.com/cb", "?a=b", ":", "://x",
		"https:", "https://", "https:///cb", "https:cb", "https:/cb", "http:cb", "https://:8443/cb",
		"https://app.example.com/cb#", "https://app.example.com/cb#x", "com.example.app:/cb#x", "http://127.0.0.1/cb#",
		"https://user@app.example.com/cb", "https://user:pw@app.example.com/cb", "http://user:pw@127.0.0.1:9/cb", "https://app.example.com@evil.example.org/cb",
		"https://a@b@app.example.com/cb", "cursor://user@host/cb", "https://app.example.com%40evil.example.org/cb", "https://app.example.com%2540evil.example.org/cb",
		"https://app.example.com\\@evil.example.org/cb", "https:\\\\evil.example.org/cb", "https:/\\evil.example.org/cb",
		"http://app.example.com/cb", "http://192.168.1.2/cb", "http://0.0.0.0/cb", "http://[::]/cb", "http://127.1/cb", "http://127.0.0.1.example.com/cb",
		"http://localhost.example.com/cb", "http://app.localhost/cb", "http://app.localhost:8080/cb", "http://127.0.0.1.localhost/cb", "http://localhost./cb", "http://LOCALHOST/cb", "http://[::ffff:127.0.0.1]/cb", "http://2130706433/cb", "http://0x7f.0.0.1/cb", "http://[::1%25lo]/cb",
		"HTTPS://app.example.com/cb", "HTTP://127.0.0.1/cb", "Https://app.example.com/cb", "JavaScript:alert(1)", "Cursor://host/cb",
		"http://127.0.0.1:0/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:99999999/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:8x/cb",
		"https://*.example.com/cb", "https://app.example.com/*", "https://app.example.com/cb?*", "cursor://*/cb",
		"https://app.example.com/a/../b", "https://app.example.com/./b", "https://app.example.com/..", "https://app.example.com/a/%2e%2e/b", "https://app.example.com/a/.%2E/b",
		"https://app.example.com/a/..;/b", "https://app.example.com/a/..;x=y/b", "https://app.example.com/a%2f..%2fb", "https://app.example.com/a%5c..%5cb", "com.example.app:/../x", "com.example.app:..",
		"https://app.example.com/c b", "https://app.example.com/cb\r\nSet-Cookie: a=b", "https://app.example.com/cb\x00", "https://app.example.com/\x7f", "https://app.example.com/é",
		"https://bücher.example.com/cb", "https://b%C3%BCcher.example.com/cb", "cursor://%E2%80%AEmoc.elpmaxe/cb", "https://.example.com/cb", "https://app..example.com/cb",
		"https://app.example.com/%zz", "https://app.example.com/\"onload=", "https://app.example.com/<script>", "https://app.example.com/`", "https://app.example.com/{x}", "https://app.example.com/a|b",
		"https://::1/cb", "https://[::1/cb", "https://[app.example.com]/cb", "cursor:", "cursor://", "com.example.app:?a=b", "1app:/cb",
		" https://app.example.com/cb", "https://app.example.com/cb ", "https://app.example.com/" + long(2048),
		// The response would have these parameters twice (OAuth 2.1 section 3.1).
		"https://app.example.com/cb?code=x", "https://app.example.com/cb?a=b&state", "https://app.example.com/cb?a=b;iss=x", "https://app.example.com/cb?%65rror=x",
		"http://127.0.0.1/cb?error_description=x", "com.example.app:cb?code=x", "cursor://host/cb?&&state=",
	}
	for _, scheme := range []string{
		"javascript", "data", "vbscript", "file", "blob", "about", "view-source", "mailto", "tel", "sms", "ftp", "ws", "wss", "urn",
		"intent", "jar", "chrome", "chrome-extension", "moz-extension", "filesystem", "livescript", "resource", "feed",
		"ms-msdt", "ms-officecmd", "ms-appinstaller", "search-ms", "shell", "hcp", "microsoft-edge", "chrome-untrusted", "devtools",
		"x-javascript", "vbs", "content", "itms-services", "smb", "ldap", "gopher", "ssh", "telnet", "jdbc",
	} {
		bad = append(bad, scheme+":alert(1)", scheme+"://127.0.0.1/cb", scheme+":/cb")
	}
	for _, raw := range bad {
		got, err := metadata.ParseRedirect(raw)
		if got.Raw != "" || !errors.Is(err, metadata.ErrRedirectURI) {
			t.Errorf("ParseRedirect(%q) = %q, %v; want ErrRedirectURI", raw, got.Raw, err)
		}
		// What may not be registered may not be used either, even if it got registered.
		if _, err := metadata.MatchRedirect([]string{raw}, raw, true); err == nil {
			t.Errorf("MatchRedirect accepts %q, which ParseRedirect refuses", raw)
		}
	}
}

func TestMatchRedirect(t *testing.T) {
	const public, confidential = true, false
	for _, tt := range []struct {
		registered, requested string
		public, want          bool
	}{
		// Equal, byte for byte.
		{"https://app.example.com/cb", "https://app.example.com/cb", public, true},
		{"https://app.example.com/cb?a=b", "https://app.example.com/cb?a=b", confidential, true},
		{"cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-mcp/oauth/callback", public, true},
		{"http://localhost:6274/oauth/callback", "http://localhost:6274/oauth/callback", confidential, true},

		// A loopback redirect may use any port.
		{"http://127.0.0.1/cb", "http://127.0.0.1:9999/cb", public, true},
		{"http://127.0.0.1/cb", "http://127.0.0.1:9999/cb", confidential, true},
		{"http://127.0.0.1:33418/cb", "http://127.0.0.1/cb", public, true},
		{"http://127.0.0.1:33418/", "http://127.0.0.1:51234", public, true},
		{"http://127.0.0.1:33418", "http://127.0.0.1:51234/", public, true},
		{"http://127.9.9.9/cb", "http://127.9.9.9:1/cb", public, true},
		{"http://[::1]/cb", "http://[::1]:65535/cb", public, true},
		{"http://127.0.0.1/cb?a=b", "http://127.0.0.1:9/cb?a=b", public, true},
		{"http://127.0.0.1/c%62", "http://127.0.0.1:9/c%62", public, true},
		{"http://localhost/callback", "http://localhost:54321/callback", public, true},
		{"http://localhost/callback", "http://localhost:54321/callback", confidential, false},

		// Nothing else may differ.
		{"https://127.0.0.1/cb", "http://127.0.0.1:9999/cb", public, false},
		{"http://127.0.0.1/cb", "https://127.0.0.1:9999/cb", public, false},
		{"https://127.0.0.1/cb", "https://127.0.0.1:9999/cb", public, false},
		{"myapp://127.0.0.1/cb", "http://127.0.0.1:9999/cb", public, false},
		{"myapp://127.0.0.1/cb", "myapp://127.0.0.1:9/cb", public, false},
		{"http://127.0.0.1/cb", "http://user:pw@127.0.0.1:9/cb", public, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:9/c%62", public, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:9/cb#", public, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:9/cb?", public, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:99999999/cb", public, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:/cb", public, false},
		{"http://127.0.0.1/cb", "HTTP://127.0.0.1:9/cb", public, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:9/cb/", public, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:9/CB", public, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:9/cb?a=b", public, false},
		{"http://127.0.0.1/cb?a=b", "http://127.0.0.1:9/cb", public, false},
		{"http://127.0.0.1/cb?a=b&c=d", "http://127.0.0.1:9/cb?c=d&a=b", public, false},
		{"http://127.0.0.1/cb", "http://127.0.0.2:9/cb", public, false},
		{"http://127.0.0.1/cb", "http://localhost:9/cb", public, false},
		{"http://localhost/cb", "http://127.0.0.1:9/cb", public, false},
		{"http://127.0.0.1/cb", "http://[::1]:9/cb", public, false},
		{"http://[::1]/cb", "http://[0:0:0:0:0:0:0:1]:9/cb", public, false},
		{"http://127.0.0.1", "http://127.0.0.1:9/cb", public, false},
		{"http://127.0.0.1/cb/", "http://127.0.0.1:9/cb", public, false},
		{"http://127.0.0.1/a//b", "http://127.0.0.1:9/a/b", public, false},
		{"http://127.0.0.1/a%2Fb", "http://127.0.0.1:9/a%2fb", public, false},

		// Other redirects are compared byte for byte.
		{"https://app.example.com/cb", "https://app.example.com/cb/", public, false},
		{"https://app.example.com", "https://app.example.com/", public, false},
		{"https://app.example.com/cb", "https://app.example.com:443/cb", public, false},
		{"https://app.example.com/cb", "https://APP.example.com/cb", public, false},
		{"https://app.example.com/cb", "https://app.example.com/cb?a=b", public, false},
		{"https://app.example.com/cb", "https://app.example.com/cb2", public, false},
		{"https://app.example.com/cb", "https://app.example.com.evil.example.org/cb", public, false},
		{"https://app.example.com/cb", "https://app.example.com/%63b", public, false},
		{"cursor://host/cb", "cursor://host:1/cb", public, false},
		{"cursor://host/cb", "cursor://HOST/cb", public, false},
		{"com.example.app:/cb", "com.example.app:/CB", public, false},

		// What is registered is not trusted either.
		{"javascript:alert(1)", "javascript:alert(1)", public, false},
		{"http://app.example.com/cb", "http://app.example.com/cb", public, false},
		{"http://user@127.0.0.1/cb", "http://127.0.0.1:9/cb", public, false},
		{"", "", public, false},
		{"https://app.example.com/cb", "", public, false},
	} {
		got, err := metadata.MatchRedirect([]string{"https://other.example.com/cb", tt.registered}, tt.requested, tt.public)
		if (err == nil) != tt.want {
			t.Errorf("%q → %q, public %v: %v; want a match: %v", tt.registered, tt.requested, tt.public, err, tt.want)
		}
		if err == nil && got.Raw != tt.requested || err != nil && !errors.Is(err, metadata.ErrRedirectURI) {
			t.Errorf("%q → %q gave %q, %v", tt.registered, tt.requested, got.Raw, err)
		}
	}
	if _, err := metadata.MatchRedirect(nil, "https://app.example.com/cb", public); err == nil {
		t.Error("a client without redirect URIs got a match")
	}
}

// loopbackPort matches the only part of a redirect URI that may differ, independently of the
// implementation.
var loopbackPort = regexp.MustCompile(`^(http://(?:127\.[0-9.]+|\[[0-9a-f:.]+\]|localhost))(?::[0-9]+)?(.*)$`)

func withoutPort(raw string) string {
	m := loopbackPort.FindStringSubmatch(raw)
	if m == nil {
		return raw
	}
	if !strings.HasPrefix(m[2], "/") {
		m[2] = "/" + m[2]
	}
	return m[1] + m[2]
}

// FuzzMatchRedirect: matching URIs are equal or differ in the port of a loopback redirect only,
// and contain nothing dangerous.
func FuzzMatchRedirect(f *testing.F) {
	for _, seed := range [][2]string{
		{"http://127.0.0.1/cb", "http://127.0.0.1:9999/cb"},
		{"http://localhost", "http://localhost:1/"},
		{"http://[::1]:1/a?b", "http://[::1]:2/a?b"},
		{"https://app.example.com/cb", "https://app.example.com/cb"},
		{"cursor://a/b", "cursor://a/b"},
		{"http://127.0.0.1?x", "http://127.0.0.1:9/?x"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, registered, requested string) {
		got, err := metadata.MatchRedirect([]string{registered}, requested, true)
		if err != nil {
			return
		}
		if registered != requested && withoutPort(registered) != withoutPort(requested) {
			t.Fatalf("%q matches %q", registered, requested)
		}
		if got.Kind == 0 || got.Raw != requested || got.Host() == "" || strings.ContainsAny(requested, "#\\\"<> \r\n\x00") {
			t.Fatalf("%q matches %q as %+v", registered, requested, got)
		}
		for _, scheme := range []string{"javascript:", "data:", "file:", "vbscript:", "blob:"} {
			if strings.HasPrefix(strings.ToLower(requested), scheme) {
				t.Fatalf("%q is accepted", requested)
			}
		}
	})
}

// TestRedirectAgain: a redirect URI means the same when it is parsed again, in any order of others.
func TestRedirectAgain(t *testing.T) {
	t.Parallel()
	for round := range 2 {
		for i := range 1000 {
			port := 1024 + i
			for raw, host := range map[string]string{
				fmt.Sprintf("http://127.0.0.1:%d/callback", port):         fmt.Sprintf("127.0.0.1:%d", port),
				fmt.Sprintf("https://app%d.example.com/callback", port):   fmt.Sprintf("app%d.example.com", port),
				fmt.Sprintf("com.example.app%d:/%0300d", port, i):         fmt.Sprintf("com.example.app%d:", port),
				fmt.Sprintf("https://app%d.example.com/callback#x", port): "",
			} {
				uri, err := metadata.ParseRedirect(raw)
				if (err == nil) != (host != "") || err == nil && (uri.Raw != raw || uri.Host() != host) {
					t.Fatalf("round %d: %s is %v, %v", round, raw, uri, err)
				}
			}
		}
	}
}

// TestLongestRedirect: a redirect URI has at most 2048 bytes.
func TestLongestRedirect(t *testing.T) {
	longest := "https://app.example.com/" + strings.Repeat("a", 2048-len("https://app.example.com/"))
	if _, err := metadata.ParseRedirect(longest); err != nil {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
	if _, err := metadata.ParseRedirect(longest + "a"); err == nil {
		t.Errorf("%d bytes are accepted", len(longest)+1)
	}
}
