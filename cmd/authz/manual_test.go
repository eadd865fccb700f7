package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
)

// printed returns what a command line that needs nothing prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, complaint bytes.Buffer
	if status := run(context.Background(), args, nil, nil, &out, &complaint); status != exitDone {
		t.Fatalf("%q: status %d\n%s", args, status, complaint.String())
	}
	return out.String()
}

// TestManualPage: every verb is on the page, a flag has the help of --help, and man has no complaint.
func TestManualPage(t *testing.T) {
	t.Parallel()
	page := printed(t, "manual")
	for _, want := range []string{".B authz serve\n", ".B authz user passwd\n", `\fB\-\-refresh\-window\fR`, ".SH \"EXIT STATUS\"\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not here")
	}
	cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v %s", err, out)
	}
}

// TestCompletionScripts: shells read the scripts of this command line.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := printed(t, "completion", shell)
		if !strings.Contains(script, "refresh-window") {
			t.Errorf("%s: no --refresh-window", shell)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		cmd := exec.Command(path, "-n", "/dev/stdin")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v %s", shell, err, out)
		}
	}
	if status := run(context.Background(), []string{"completion", "ksh"}, nil, nil, &bytes.Buffer{}, &bytes.Buffer{}); status != exitUsage {
		t.Errorf("ksh: status %d", status)
	}
}

// TestVersion: the line and the object are the same release, and the build is the hash of the file.
func TestVersion(t *testing.T) {
	t.Parallel()
	var r release
	if err := json.Unmarshal([]byte(printed(t, "version", "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if got := printed(t, "version"); got != r.String()+"\n" {
		t.Errorf("%q is not %q", got, r)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(file); r.Build != hex.EncodeToString(sum[:]) {
		t.Errorf("build %s, the file has %x", r.Build, sum)
	}
}

// TestReleaseOf: what the go command recorded, with and without a repository.
func TestReleaseOf(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("0123456789", 4)
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}, {Key: "vcs.revision", Value: commit},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	r := releaseOf(info)
	r.Build = strings.Repeat("ab", 32)
	want := "authz v1.2.3 go1.26.8 linux/arm64 commit 012345678901 with changes 2026-01-02T03:04:05Z build abababababab"
	if r.String() != want || r.Commit != commit {
		t.Errorf("%q", r)
	}
	info.Main.Version = "(devel)"
	if got := releaseOf(info).Version; got != commit {
		t.Errorf("without a tag: %q", got)
	}
	info.Settings = nil
	if r := releaseOf(info); r.Version != "devel" || r.Commit != "" || strings.Contains(r.String(), "commit") {
		t.Errorf("without a repository: %q", r)
	}
}
