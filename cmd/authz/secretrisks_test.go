package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/middleware/middlewaretest"
)

// Each secret that other users can read on the command line causes one warning, in each program;
// secrets in files cause none.
func TestSecretsOnTheCommandLine(t *testing.T) {
	file := plainFile(t, "")
	secretFile := save(t, "secret", testKey(1))
	storeFile := save(t, "store", "redis://gate:hunter22@127.0.0.1:6379")
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"none":           {[]string{"--master-keys-file", secretFile}, nil},
		"keys":           {[]string{"--master-keys", testKey(1)}, []string{"master-keys"}},
		"a store":        {[]string{"--master-keys-file", secretFile, "--store", "redis://gate:hunter22@127.0.0.1:6379"}, []string{"store"}},
		"a store's file": {[]string{"--master-keys-file", secretFile, "--store-file", storeFile}, nil},
		"no password":    {[]string{"--master-keys-file", secretFile, "--store", "redis://127.0.0.1:6380"}, nil},
		"both":           {[]string{"--master-keys", testKey(1), "--store", "redis://:hunter22@127.0.0.1:6379"}, []string{"master-keys", "store"}},
		"dev's":          {[]string{"--master-keys", testKey(1), "--dev", "--dev-password", "hunter22", "--dev-introspection-secret", "hunter22hunter22"}, []string{"dev-introspection-secret", "dev-password", "master-keys"}},
	} {
		status, said := check(t, nil, append([]string{"--config", file}, tt.args...)...)
		for _, key := range []string{"master-keys", "store", "dev-password", "dev-introspection-secret"} {
			if strings.Contains(said, "warning: "+key+" is on the command line") != slices.Contains(tt.want, key) {
				t.Errorf("%s, %s: exit status %d:\n%s", name, key, status, said)
			}
		}
		if status != exitDone || strings.Contains(said, "hunter22") || strings.Contains(said, testKey(1)) {
			t.Errorf("%s: exit status %d:\n%s", name, status, said)
		}
	}
	issuer := middlewaretest.NewIssuer(t)
	gate := startGateway(t, deadline, nil, "--issuer", issuer.URL(), "--upstream", "http://127.0.0.1:9/mcp", "--introspection-secret", "hunter22hunter22", "--trusted-proxies", "0.0.0.0/0")
	for _, want := range []string{"introspection-secret is on the command line", "trusted-proxies 0.0.0.0/0: "} {
		if !strings.Contains(gate.stderr.String(), want) {
			t.Errorf("the gateway does not say %q:\n%s", want, gate.stderr.String())
		}
	}
	registry := startRegistry(t, nil, "--master-keys", testKey(1), "--admin-listen", ":0")
	for _, want := range []string{"master-keys is on the command line", "admin-listen :0: "} {
		if !strings.Contains(registry.stderr.String(), want) {
			t.Errorf("the registry does not say %q:\n%s", want, registry.stderr.String())
		}
	}
}

// openFolder returns a folder that every user of this machine can enter, unlike t.TempDir.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gatehouse")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if settings.OtherReaders(saveIn(t, dir, "probe", "", 0o644)) == "" {
		t.Skip("the folder for temporary files is private here")
	}
	return dir
}

func saveIn(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // past the umask
		t.Fatal(err)
	}
	return path
}

// Every file with a secret is checked: those that flags name, those that lists in the file name,
// the private key for TLS, and the file itself if it contains a secret.
func TestFilesThatOthersRead(t *testing.T) {
	dir := openFolder(t)
	writeCertificate(t, dir)
	const everybody = "everybody on this machine can read "
	names := map[string]string{"master-keys-file": testKey(1), "store-file": "redis://gate:hunter22@127.0.0.1:6379", "client_secret_file": "hunter22hunter22", "web": "hunter22hunter22"}
	for _, mode := range []os.FileMode{0o600, 0o400, 0o640, 0o644, 0o604} {
		for name, text := range names {
			_ = os.Remove(filepath.Join(dir, name))
			saveIn(t, dir, name, text, mode)
		}
		if err := os.Chmod(dir+"/key.pem", mode); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(dir + "/gatehouse.yaml")
		config := saveIn(t, dir, "gatehouse.yaml", `
issuer: https://auth.example.com
registration: open
resources:
  - uri: https://notes.example.com/mcp
    introspection: {client_id: notes, client_secret_file: `+dir+`/client_secret_file}
clients:
  - client_id: web
    redirect_uris: [https://web.example.com/callback]
    client_secret_file: `+dir+`/web
`, 0o644) // it names secrets and holds none
		status, said := check(t, nil, "--config", config, "--master-keys-file", dir+"/master-keys-file", "--store-file", dir+"/store-file", "--tls-cert", dir+"/cert.pem", "--tls-key", dir+"/key.pem")
		want := 0
		if mode&0o004 != 0 {
			want = 5
		}
		if got := strings.Count(said, everybody); status != exitDone || got != want {
			t.Errorf("mode %o: exit status %d, %d warnings, want %d:\n%s", mode, status, got, want, said)
		}
		if strings.Contains(said, "config: ") || strings.Contains(said, "hunter22") {
			t.Errorf("mode %o:\n%s", mode, said)
		}
	}
}

// The file of settings is secret as soon as it contains a secret anywhere.
func TestFileThatHoldsSecrets(t *testing.T) {
	dir := openFolder(t)
	for name, line := range map[string]string{
		"nothing":    "",
		"keys":       "master-keys: " + testKey(1),
		"a store":    "store: redis://gate:hunter22@127.0.0.1:6379",
		"a resource": "resources: [{uri: https://notes.example.com/mcp, introspection: {client_id: notes, client_secret: hunter22hunter22}}]",
		"a client":   "clients: [{client_id: web, redirect_uris: [https://web.example.com/callback], client_secret: hunter22hunter22}]",
	} {
		text := "registration: open\n" + line + "\n"
		if !strings.Contains(text, "resources:") {
			text += "resources: [{uri: https://notes.example.com/mcp}]\n"
		}
		if !strings.Contains(text, "store:") {
			text += "store: redis://127.0.0.1\n"
		}
		for _, mode := range []os.FileMode{0o644, 0o600} {
			config := saveIn(t, dir, strings.ReplaceAll(name, " ", "-"), text, mode)
			environ := []string{"AUTHZ_ISSUER=https://auth.example.com"}
			if !strings.Contains(text, "master-keys") {
				environ = append(environ, goodKeys()...)
			}
			status, said := check(t, environ, "--config", config)
			if got, want := strings.Contains(said, "warning: config: everybody"), mode == 0o644 && name != "nothing"; status != exitDone || got != want {
				t.Errorf("%s, mode %o: exit status %d, want a warning: %t\n%s", name, mode, status, want, said)
			}
		}
	}
}

// A folder that others cannot enter protects the files below it, and a link counts as its target.
func TestFoldersProtectFiles(t *testing.T) {
	dir := openFolder(t)
	open := saveIn(t, dir, "open/secret", "x", 0o644)
	inside := saveIn(t, dir, "closed/below/secret", "x", 0o644)
	if err := os.Chmod(dir+"/closed", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(inside, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(open, dir+"/closed/link"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{open: true, inside: false, dir + "/link": false, dir + "/closed/link": true, dir + "/nowhere": false, dir: false, "/dev/null": false} {
		if got := settings.OtherReaders(path) != ""; got != want {
			t.Errorf("%s: others read it: %t", path, got)
		}
	}
}
