package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLogrotate: the packaged rotation, run by logrotate again and again while a server records, loses
// no line, and verify reads the files that it compressed.
func TestLogrotate(t *testing.T) {
	logrotate, err := exec.LookPath("logrotate")
	if err != nil {
		if logrotate = "/usr/sbin/logrotate"; !regular(logrotate) {
			t.Skip("logrotate is not here")
		}
	}
	rules, err := os.ReadFile("../../docs/examples/gatehouse.logrotate")
	if err != nil {
		t.Fatal(err)
	}
	r := newAuditedRun(t)
	write(t, r.dir, "rules", strings.ReplaceAll(string(rules), "/var/log/gatehouse", r.dir))
	r.answer("/token", "application/x-www-form-urlencoded", "grant_type=none")
	for range 3 {
		r.answer("/revoke", "application/x-www-form-urlencoded", url.Values{"client_id": {"none"}, "token": {"none"}}.Encode())
		if out, err := exec.CommandContext(t.Context(), logrotate, "--force", "--state", filepath.Join(r.dir, "status"), filepath.Join(r.dir, "rules")).CombinedOutput(); err != nil {
			t.Fatalf("logrotate: %v\n%s", err, out)
		}
		for _, file := range []string{r.serverFile, r.gateFile} {
			eventually(t, "the trail goes on in a new file", func() bool {
				info, err := os.Stat(file)
				return err == nil && info.Size() > 0
			})
		}
	}
	issuer := r.server.shown("issuer")
	r.endAll()
	files, err := filepath.Glob(r.serverFile + "*")
	if err != nil || len(files) != 4 || !slices.Contains(files, r.serverFile+".1") || !slices.Contains(files, r.serverFile+".3.gz") {
		t.Fatalf("the files are %q", files)
	}
	out := r.verb(0, append([]string{"verify", "--all", "--issuer", issuer, "--store", r.store}, files...)...)
	if strings.Count(out, "chain ") != 1 || !strings.Contains(out, "numbers 1 to ") || !strings.Contains(out, "in 4 files") {
		t.Errorf("verify says %s", out)
	}
	if out := r.verb(0, append([]string{"search", "--event", "refused"}, files...)...); strings.Count(out, "\n") != 4 {
		t.Errorf("refusals are found: %s", out)
	}
}

func regular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
