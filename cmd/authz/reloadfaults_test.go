package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestReloadOfAFileThatCannotBeRead: a file that is not there whole changes nothing, and no reload waits
// for it.
func TestReloadOfAFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for verb, base := range map[string]string{"serve": baseServer, "gateway": "resource: " + reloadedNotes + "\nupstream: http://127.0.0.1:9\nissuer: https://login.example.com\nscopes: DIR/scopes.yaml\n"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			r := startReloading(t, verb, base, map[string]string{"secret": "the-secret-of-the-notes-server", "scopes.yaml": "tools:\n  list_notes: notes:read\n"})
			whole, err := os.ReadFile(r.file)
			if err != nil {
				t.Fatal(err)
			}
			other := "secret"
			if verb == "gateway" {
				other = "scopes.yaml"
			}
			for name, one := range map[string]struct {
				put  func(path string) error
				says string
			}{
				"none":          {func(string) error { return nil }, "no such file"},
				"a folder":      {func(path string) error { return os.Mkdir(path, 0o700) }, "is a directory"},
				"a loop":        {func(path string) error { return os.Symlink(path, path) }, "too many levels"},
				"a silent pipe": {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "pipe"},
				"too large":     {func(path string) error { return os.WriteFile(path, make([]byte, 1<<20+1), 0o600) }, "larger than"},
				"empty":         {func(path string) error { return os.WriteFile(path, nil, 0o600) }, ""}, // without rules, every token may do everything
			} {
				for _, file := range []string{r.file, filepath.Join(r.dir, other)} {
					was, err := os.ReadFile(file)
					if err == nil {
						err = os.Remove(file)
					}
					if err == nil {
						err = one.put(file)
					}
					if err != nil {
						t.Fatal(err)
					}
					got := r.reload(t)
					if text := strings.Join(got.Mistakes, "\n"); got.Done || !strings.Contains(text, one.says) {
						t.Errorf("%s is %s: %+v", filepath.Base(file), name, got)
					}
					_ = os.RemoveAll(file)
					write(t, r.dir, filepath.Base(file), string(was))
				}
			}
			for cut := range len(whole) { // what a writer has written so far is a mistake, or whole settings
				if cut%7 != 0 {
					continue
				}
				write(t, r.dir, "authz.yaml", string(whole[:cut]))
				if got := r.reload(t); !got.Done && len(got.Changed)+len(got.Restart) > 0 {
					t.Errorf("the first %d bytes: %+v", cut, got)
				}
			}
			write(t, r.dir, "authz.yaml", string(whole))
			r.reload(t)
			if got := r.reload(t); !got.Done || len(got.Changed)+len(got.Restart) > 0 {
				t.Errorf("the file of before: %+v", got)
			}
		})
	}
}

// TestReloadsByAllWays: fifty reloads at once, by the verb and by SIGHUP, of two files in turn, under
// requests: each answer is that of one file, never of a mixture.
func TestReloadsByAllWays(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	public := "http://" + r.shown("listening on")
	texts := []string{
		baseServer,
		strings.NewReplacer("notes:read", "notes:change", "Read your", "Change your", "registration: open", "registration: closed").Replace(baseServer),
	}
	done := make(chan struct{})
	var requests, reloads sync.WaitGroup
	for range 4 {
		requests.Go(func() {
			for {
				status, body := get(t, http.DefaultClient, public+"/.well-known/oauth-authorization-server")
				first := strings.Contains(body, "notes:read") && strings.Contains(body, "registration_endpoint") && !strings.Contains(body, "notes:change")
				second := strings.Contains(body, "notes:change") && !strings.Contains(body, "registration_endpoint") && !strings.Contains(body, "notes:read")
				if status != http.StatusOK || first == second {
					t.Errorf("%d, half of two files: %s", status, body)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	r.replace(t, texts[1])
	for i := range 50 {
		reloads.Go(func() {
			r.replace(t, texts[i%2])
			switch i % 3 {
			case 0:
				r.signals <- syscall.SIGHUP
			case 1:
				if status, _, errs := r.verb(t); status != exitDone {
					t.Errorf("authz reload: %d, %s", status, errs)
				}
			default:
				if got := r.reload(t); !got.Done {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	reloads.Wait()
	close(done)
	requests.Wait()
	r.replace(t, texts[1])
	r.reload(t)
	if _, body := get(t, http.DefaultClient, public+"/.well-known/oauth-authorization-server"); !strings.Contains(body, "notes:change") {
		t.Errorf("the last file is not in force: %s", body)
	}
}

// replacing is held by who replaces a file.
var replacing sync.Mutex

// replace puts another file in the place of the one before, as a whole.
func (r *reloading) replace(t *testing.T, text string) {
	t.Helper()
	replacing.Lock()
	defer replacing.Unlock()
	write(t, r.dir, "draft.yaml", strings.ReplaceAll(text, "DIR", r.dir)+strings.Join(r.always, "\n")+"\n")
	if err := os.Rename(filepath.Join(r.dir, "draft.yaml"), r.file); err != nil {
		t.Error(err)
	}
}

// TestReloadWithOtherCertificateFiles: other files need a restart, which the result says; the ones from
// before go on being read.
func TestReloadWithOtherCertificateFiles(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	pool, others := writeCertificate(t, first), writeCertificate(t, second)
	files := func(dir string) string { return "tls-cert: " + dir + "/cert.pem\ntls-key: " + dir + "/key.pem\n" }
	r := startReloading(t, "serve", baseServer+files(first), map[string]string{"secret": "the-secret-of-the-notes-server"})
	url := "https://" + r.shown("listening on") + "/healthz"
	r.write(t, baseServer+files(second))
	if got := r.reload(t); !got.Done || !slices.Equal(keysIn(got.Restart), []string{"tls-cert", "tls-key"}) {
		t.Errorf("other files: %+v", got)
	}
	if _, err := call(t, caller(t, others), url); err == nil {
		t.Error("the other certificate is presented without a restart")
	}
	if _, err := call(t, caller(t, pool), url); err != nil {
		t.Error(err)
	}
	fresh := caller(t, writeCertificate(t, first))
	eventually(t, "the files from before are still read", func() bool { _, err := call(t, fresh, url); return err == nil })
}
