package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorInput: whatever is wrong with a command line, a sentence says what to change, the exit
// status is 2, and no password is repeated.
func TestDoctorInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp")
	if err := os.WriteFile(file, []byte("two words"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                                 "give the URL of a server, or --server ISSUER",
		"--nope":                           "unknown flag --nope",
		"notes.example.com/mcp":            `"notes.example.com/mcp": it must begin with https:// or http://`,
		file:                               "it must begin with https:// or http://",
		"file://" + file:                   "it must begin with https:// or http://",
		"--server notes":                   "it must begin with https:// or http://",
		"http://":                          "it has no host",
		"https:///mcp":                     "it has no host",
		"https://[::1":                     "the port, the brackets or the escapes of it are wrong",
		"https://127.0.0.1:abc/mcp":        "the port, the brackets or the escapes of it are wrong",
		"https://127.0.0.1:99999/mcp":      "the port must be a number from 1 to 65535",
		"https://127.0.0.1:0/mcp":          "the port must be a number from 1 to 65535",
		"https://notes.example.com:443:1/": "the port must be a number from 1 to 65535",
		"https://someone:pass-word@notes.example.com/":               `"…@notes.example.com/": leave out the user name and the password`,
		"https://someone:pass-word@notes.example.com:x/":             "the port, the brackets or the escapes of it are wrong",
		"https://notes.example.com/#main":                            "leave out what follows #",
		"https://notes.example.com/mcp#":                             "leave out the # at its end",
		"https://notes.example.com/mcp?":                             "leave out the ? at its end",
		"http://127.0.0.1:1/mcp":                                     "nothing could be asked: http://127.0.0.1:1/mcp: dial tcp 127.0.0.1:1:",
		"http://127.0.0.1:1/mcp more":                                "unexpected argument more",
		"http://127.0.0.1:1/mcp --as nobody":                         "--as takes one of claude-code, codex",
		"http://127.0.0.1:1/mcp --token-file " + t.TempDir():         "is a directory",
		"http://127.0.0.1:1/mcp --token-file " + file:                "does not have one access token",
		"http://127.0.0.1:1/mcp --token-file /dev/zero":              "does not have one access token",
		"http://127.0.0.1:1/mcp --token-file -":                      "does not have one access token",
		"http://notes.example.com/mcp --token token":                 "http",
		"http://127.0.0.1:1/mcp --sign-in --client-id known --json":  "nothing could be asked",
		"http://127.0.0.1:1/mcp --client-id known":                   "--client-id is of use with --sign-in only",
		"http://127.0.0.1:1/mcp --wait 5m":                           "--wait takes a time such as 15m, and is of use with --sign-in only",
		"http://127.0.0.1:1/mcp --sign-in --wait x":                  "--wait",
		"--server http://127.0.0.1:1 --token token":                  "are for a protected server: give its URL, without --server",
		"http://127.0.0.1:1/mcp --server http://127.0.0.1:1 --junit": "give the URL of a server, or --server ISSUER",
	} {
		code, stdout, stderr := diagnosed(t, strings.Fields(args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Contains(stderr, "pass-word") || strings.Count(stderr, "\n") > 2 {
			t.Errorf("%s: exit %d, want %q\n%s%s", args, code, want, stdout, stderr)
		}
	}
}

// TestDoctorBehindProxy: who has a proxy in the environment is told that the doctor does not use it.
func TestDoctorBehindProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
	defer proxy.Close()
	t.Setenv("HTTPS_PROXY", proxy.URL)
	_, _, stderr := diagnosed(t, "https://127.0.0.1:1/mcp")
	if !strings.Contains(stderr, "(the doctor connects directly, not by the proxy of HTTPS_PROXY)") {
		t.Error(stderr)
	}
	if _, _, stderr := diagnosed(t, "notes"); strings.Contains(stderr, "proxy") {
		t.Error(stderr)
	}
}
