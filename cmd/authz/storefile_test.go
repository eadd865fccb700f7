package main

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestStateFolder: the default store is where systemd says, in /var/lib for root, and in the state
// folder of any other user.
func TestStateFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env    map[string]string
		user   int
		system string
		want   string
	}{
		{nil, 0, "linux", "/var/lib/gatehouse"},
		{map[string]string{"STATE_DIRECTORY": "/var/lib/notes:/var/lib/more", "HOME": "/root"}, 0, "linux", "/var/lib/notes"},
		{map[string]string{"STATE_DIRECTORY": "relative"}, 0, "linux", "/var/lib/gatehouse"},
		{map[string]string{"HOME": "/home/ada"}, 1000, "linux", "/home/ada/.local/state/gatehouse"},
		{map[string]string{"HOME": "/home/ada", "XDG_STATE_HOME": "/data"}, 1000, "linux", "/data/gatehouse"},
		{map[string]string{"HOME": "/home/ada", "XDG_STATE_HOME": "data"}, 1000, "linux", "/home/ada/.local/state/gatehouse"},
		{map[string]string{"HOME": "/Users/ada"}, 501, "darwin", "/Users/ada/Library/Application Support/gatehouse"},
		{nil, 1000, "linux", ""},
	} {
		got, err := stateFolder(func(name string) string { return c.env[name] }, c.user, c.system)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v, user %d: %q, %v; want %q", c.env, c.user, got, err, c.want)
		}
	}
}

// TestFileStore: verbs work beside a server and without it, a second server is refused, and what
// was acknowledged before the server was killed is there afterwards.
func TestFileStore(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "gatehouse", "gatehouse.db")
	environ := []string{
		"STATE_DIRECTORY=" + filepath.Dir(path), "AUTHZ_ISSUER=https://auth.example.com", "AUTHZ_MASTER_KEYS=" + base64.StdEncoding.EncodeToString([]byte("an example key of thirty-two byte"[:32])),
		"AUTHZ_REGISTRATION=open", "AUTHZ_LISTEN=127.0.0.1:0", "AUTHZ_ADMIN_LISTEN=off",
	}
	verb := func(input string, args ...string) string {
		t.Helper()
		out, err := outputOf(environ, input, args...)
		if err != nil {
			t.Fatalf("authz %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	server := startProcessWith(t, environ, "Gatehouse is ready.", "serve")
	if shown := server.shown("store"); shown != path {
		t.Errorf("the start says that the store is %q", shown)
	}
	verb("correct horse battery\n", "user", "add", "ada")
	if out, err := outputOf(environ, "", "serve"); err == nil || !strings.Contains(out, "another process has "+path+" open") {
		t.Errorf("a second server: %v\n%s", err, out)
	}
	server.signal(t, syscall.SIGKILL)
	_ = server.end(t)
	if out := verb("", "user", "ls"); !strings.Contains(out, "ada") || !strings.Contains(out, "the store is "+path) {
		t.Errorf("without a server: %s", out)
	}
	verb("", "user", "disable", "ada")
	again := startProcessWith(t, environ, "Gatehouse is ready.", "serve")
	if out := verb("", "user", "ls"); !strings.Contains(out, "disabled") {
		t.Errorf("after the restart: %s", out)
	}
	again.signal(t, syscall.SIGTERM)
	if err := again.end(t); err != nil {
		t.Errorf("the server ends with %v", err)
	}
}

// outputOf runs authz and returns what it prints.
func outputOf(environ []string, input string, args ...string) (string, error) {
	cmd := exec.Command("authz", args...)
	cmd.Env, cmd.Stdin = slices.Concat(os.Environ(), []string{noLookout}, environ), strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
