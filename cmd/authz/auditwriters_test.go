package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestOneAuditFileForTwoServers: while one server writes a trail under load, its file is renamed again
// and again, and each time another server is started for the same path at once. It is refused until
// the first one ends. All files together are one chain.
func TestOneAuditFileForTwoServers(t *testing.T) {
	r := newAuditedRun(t)
	stop := make(chan struct{})
	var load sync.WaitGroup
	for n := range 2 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					r.answer("/revoke", "application/x-www-form-urlencoded", url.Values{"client_id": {fmt.Sprint("none-", n)}, "token": {"none"}}.Encode())
				}
			}
		})
	}
	refused := func(when string) {
		ctx, stop := context.WithTimeout(t.Context(), deadline)
		defer stop()
		var out lockedBuffer
		args := []string{"serve", "--dev", "--listen", "127.0.0.1:0", "--store", "embedded:", "--audit", r.serverFile}
		if status := run(ctx, args, []string{noLookout}, strings.NewReader(""), &out, &out); status != exitRefused || !strings.Contains(out.String(), "another process writes this file") {
			t.Fatalf("%s a second server ends with %d: %s", when, status, out.String())
		}
	}
	files := []string{r.serverFile}
	for n := range 3 {
		old := fmt.Sprintf("%s.%d", r.serverFile, n)
		if err := os.Rename(r.serverFile, old); err != nil {
			t.Fatal(err)
		}
		files = append(files, old)
		refused("after the renaming")
		eventually(t, "the trail goes on in a new file", func() bool {
			info, err := os.Stat(r.serverFile)
			return err == nil && info.Size() > 0
		})
		refused("in the new file")
	}
	close(stop)
	load.Wait()
	issuer := r.server.shown("issuer")
	r.endAll()
	r.environ = append(r.environ, "AUTHZ_ISSUER="+issuer)
	r.start()
	if status := r.server.ended(t); status != exitDone {
		t.Errorf("the second server, once the first has ended: %d, %s", status, r.server.stderr.String())
	}
	out := r.verb(0, append([]string{"verify", "--json", "--issuer", issuer, "--store", r.store}, files...)...)
	if strings.Count(out, `"chain"`) != 1 {
		t.Errorf("the files are %s", out)
	}
	folder, err := filepath.Glob(filepath.Join(r.dir, "server.jsonl*"))
	if err != nil || len(folder) != len(files) {
		t.Errorf("the pattern for the files finds %q", folder)
	}
}

// TestTrailsThatNobodyGave: verify names the trails that the store knows and of which it got no file,
// and with --all they are faults.
func TestTrailsThatNobodyGave(t *testing.T) {
	r := newAuditedRun(t)
	issuer, verbs := r.server.shown("issuer"), filepath.Join(r.dir, "verbs.jsonl")
	var out lockedBuffer
	environ := append(slices.Clone(r.environ), "AUTHZ_AUDIT_VERBS="+verbs, "AUTHZ_ISSUER="+issuer)
	if status := run(t.Context(), []string{"group", "add", "staff"}, environ, strings.NewReader(""), &out, &out); status != exitDone {
		t.Fatalf("%d: %s", status, out.String())
	}
	r.endAll()
	verify := func(want int, args ...string) string {
		return r.verb(want, append([]string{"verify", "--issuer", issuer, "--store", r.store}, args...)...)
	}
	if said := verify(0, r.serverFile); !strings.Contains(said, "not given: "+verbs+" of ") || strings.Contains(said, "not given: "+r.serverFile) {
		t.Errorf("it says %s", said)
	}
	if said := verify(exitRefused, "--all", r.serverFile); !strings.Contains(said, verbs+": the store knows a trail") {
		t.Errorf("it says %s", said)
	}
	if said := verify(0, "--all", r.serverFile, verbs); strings.Contains(said, "not given") {
		t.Errorf("with both files it says %s", said)
	}
	verify(exitUsage, "--all", "--no-head", r.serverFile)
}
