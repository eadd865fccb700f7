package main

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fileEnviron is the environment of a server with a store in a file.
func fileEnviron(path string) []string {
	return []string{
		"AUTHZ_STORE=file:" + path, "AUTHZ_ISSUER=https://auth.example.com",
		"AUTHZ_MASTER_KEYS=" + base64.StdEncoding.EncodeToString([]byte("an example key of thirty-two byte"[:32])),
		"AUTHZ_REGISTRATION=open", "AUTHZ_LISTEN=127.0.0.1:0", "AUTHZ_ADMIN_LISTEN=off",
	}
}

// TestStoreBackup: a backup is made beside a server and without one, needs no keys, replaces nothing,
// and is no store for verbs before a server has it or everything in it is revoked.
func TestStoreBackup(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, first, second := filepath.Join(folder, "gatehouse.db"), filepath.Join(folder, "first.db"), filepath.Join(folder, "second.db")
	environ := fileEnviron(path)
	run := func(environ []string, works bool, want string, args ...string) string {
		t.Helper()
		out, err := outputOf(environ, "correct horse battery\n", args...)
		if (err == nil) != works || !strings.Contains(out, want) {
			t.Errorf("authz %s: %v; want %q in\n%s", strings.Join(args, " "), err, want, out)
		}
		return out
	}
	server := startProcessWith(t, environ, "Gatehouse is ready.", "serve")
	run(environ, true, "", "user", "add", "ada")
	run(environ, false, "a server has "+path+" open: back it up with authz store backup", "store", "verify", path)
	run(environ[:1], true, "first.db is whole: format gatehouse 1", "store", "backup", first)
	run(environ, false, "first.db exists: a backup never replaces a file", "store", "backup", first)
	run(environ, false, "the folder of "+filepath.Join(folder, "none", "x")+" does not exist", "store", "backup", filepath.Join(folder, "none", "x"))
	run(environ, true, "", "user", "add", "ben")
	server.signal(t, syscall.SIGTERM)
	if err := server.end(t); err != nil {
		t.Errorf("the server ends with %v", err)
	}
	run(environ, true, "it is a backup of ", "store", "backup", second)
	run(environ, true, "it is no backup that", "store", "verify", path)
	var found fileFound
	if err := json.Unmarshal([]byte(run(nil, true, "", "store", "verify", "--json", second)), &found); err != nil {
		t.Error(err)
	}
	if since := time.Since(found.Backup); found.File != second || found.Items == 0 || found.Entries == 0 || found.Bytes == 0 || since < 0 || since > time.Hour {
		t.Errorf("%+v", found)
	}

	onFirst, onSecond := fileEnviron(first), fileEnviron(second)
	run(onFirst, false, first+" is a backup of ", "user", "ls")
	run(onFirst, false, first+" is a backup of ", "store", "backup", filepath.Join(folder, "third.db"))
	run(onFirst, true, "it is a backup of ", "store", "verify", first)
	if out := run(onFirst, true, "revoked 0 grants", "grant", "revoke", "--all"); !strings.Contains(out, "everybody is signed out") {
		t.Errorf("revoking everything in a backup says\n%s", out)
	}
	if out := run(onFirst, true, "ada", "user", "ls"); strings.Contains(out, "ben") {
		t.Errorf("the first backup has who came later:\n%s", out)
	}
	restored := startProcessWith(t, onSecond, "Gatehouse is ready.", "serve")
	for _, want := range []string{"the store " + second + " was a backup of ", "end every grant with authz grant revoke --all"} {
		eventually(t, "the start says: "+want, func() bool { return strings.Contains(restored.stderr.String(), want) })
	}
	run(onSecond, true, "ben", "user", "ls")
	run(onSecond, true, "revoked 0 grants", "grant", "revoke", "--all")
	restored.signal(t, syscall.SIGTERM)
	if err := restored.end(t); err != nil {
		t.Error(err)
	}
	again := startProcessWith(t, onSecond, "Gatehouse is ready.", "serve")
	if strings.Contains(again.stderr.String(), "was a backup") {
		t.Error("the second start speaks of a backup")
	}
}

// TestStoreBackupOfOthers: another user gets no backup, beside a server or without one.
func TestStoreBackupOfOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this needs root, to be another user")
	}
	binary, err := exec.LookPath("authz")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("/tmp", "gatehouse")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	copied := filepath.Join(folder, "authz")
	if err := os.WriteFile(copied, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "gatehouse.db")
	environ := fileEnviron(path)
	server := startProcessWith(t, environ, "Gatehouse is ready.", "serve")
	refused := func(when string) {
		t.Helper()
		other := exec.Command(copied, "store", "backup", filepath.Join(folder, "backup.db"))
		other.Env = environ
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := other.CombinedOutput(); err == nil || !strings.Contains(string(out), "run the command as the user of the server") && !strings.Contains(string(out), "belongs to the user 0") {
			t.Errorf("%s: %v\n%s", when, err, out)
		}
		if _, err := os.Lstat(filepath.Join(folder, "backup.db")); err == nil {
			t.Errorf("%s: there is a backup", when)
		}
	}
	refused("beside a server")
	server.signal(t, syscall.SIGTERM)
	if err := server.end(t); err != nil {
		t.Error(err)
	}
	refused("without a server")
}
