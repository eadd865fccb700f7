package main

import (
	"encoding/base64"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gatehouse.example/storage/file"
)

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

// TestVerifyAsksTheDefaultStore: the end of a trail is known, and a trail that is missing is found, also
// where neither the server nor the verb names the store.
func TestVerifyAsksTheDefaultStore(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	trail := filepath.Join(folder, "audit.jsonl")
	environ := []string{
		"STATE_DIRECTORY=" + filepath.Join(folder, "state"), "AUTHZ_ISSUER=https://auth.example.com", "AUTHZ_MASTER_KEYS=" + testKey(1),
		"AUTHZ_REGISTRATION=open", "AUTHZ_LISTEN=127.0.0.1:0", "AUTHZ_ADMIN_LISTEN=off", "AUTHZ_AUDIT=" + trail,
	}
	server := startProcessWith(t, environ, "Gatehouse is ready.", "serve")
	server.signal(t, syscall.SIGTERM)
	if err := server.end(t); err != nil {
		t.Fatal(err)
	}
	if out, err := outputOf(environ, "", "audit", "verify", "--all", trail); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	lines, err := os.ReadFile(trail)
	if err != nil {
		t.Fatal(err)
	}
	cut := lines[:strings.LastIndexByte(strings.TrimSuffix(string(lines), "\n"), '\n')+1] // without its last line
	if err := os.WriteFile(trail, cut, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := outputOf(environ, "", "audit", "verify", trail); err == nil || !strings.Contains(out, "1 fault in the audit trail") {
		t.Errorf("a line that was cut off: %v\n%s", err, out)
	}
	if out, err := outputOf(environ, "", "audit", "verify", "--no-head", trail); err != nil {
		t.Errorf("without the store: %v\n%s", err, out)
	}
}

// outputOf runs authz and returns what it prints.
func outputOf(environ []string, input string, args ...string) (string, error) {
	cmd := exec.Command("authz", args...)
	cmd.Env, cmd.Stdin = slices.Concat(os.Environ(), []string{noLookout}, environ), strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestFileInUse: what a verb says of a file that another process has open and does not share, and
// of one whose server it cannot use.
func TestFileInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	open, err := file.Open(file.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	want := func(sentences ...string) {
		t.Helper()
		b, err := openSharedFile(t.Context(), path, storeOptions{})
		if err == nil {
			t.Fatal(b.Close(), "it was opened")
		}
		for _, s := range append(sentences, "another process has "+path+" open") {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("it said %q, without %q", err, s)
			}
		}
	}
	want("as the user of the server or as root", "wait until it has started", "or stop that process")
	if err := os.Mkdir(path+".socket", 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(path+".socket", "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _ = http.Serve(l, http.NotFoundHandler()) }()
	want("cannot be used", "404")
}
