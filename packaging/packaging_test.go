package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample is a program that was built from a commit, as far as packages look at it, with its texts.
func sample(t *testing.T) (job, *program) {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"authz", "authz.1", "authz.bash", "authz.zsh", "authz.fish"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := "h1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xab}, 32))
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "gatehouse.example"}, Deps: []*debug.Module{
		{Path: "example.com/Old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/New", Version: "v2.0.0+incompatible", Sum: sum}},
	}}
	p := &program{
		path: filepath.Join(folder, "authz"), version: "v1.2.3", arch: "amd64",
		committed: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), info: info,
	}
	return job{program: p.path, texts: folder, repository: "..", out: t.TempDir()}, p
}

// packed makes one package of the sample.
func packed(t *testing.T, format string) (string, []byte) {
	t.Helper()
	j, p := sample(t)
	stage := t.TempDir()
	if err := j.fill(stage, p); err != nil {
		t.Fatal(err)
	}
	path, err := j.pack(format, stage, p)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

// TestReproducible: packages that are made twice, in folders of their own, are equal.
func TestReproducible(t *testing.T) {
	for format, name := range map[string]string{"deb": "gatehouse_1.2.3_amd64.deb", "rpm": "gatehouse-1.2.3-1.x86_64.rpm"} {
		first, a := packed(t, format)
		second, b := packed(t, format)
		if first == second || !bytes.Equal(a, b) {
			t.Errorf("%s: two packages differ", format)
		}
		if filepath.Base(first) != name {
			t.Errorf("%s: %s, not %s", format, filepath.Base(first), name)
		}
	}
}

// packageFiles are the files of packages. Those with a * are of the operator.
var packageFiles = []string{
	"/etc/gatehouse/gatehouse.yaml *", "/etc/logrotate.d/gatehouse *", "/usr/bin/authz", "/usr/lib/systemd/system/gatehouse.service",
	"/usr/share/bash-completion/completions/authz", "/usr/share/doc/gatehouse/copyright", "/usr/share/doc/gatehouse/sbom.cdx.json",
	"/usr/share/fish/vendor_completions.d/authz.fish", "/usr/share/man/man1/authz.1.gz",
}

// TestDeb: dpkg reads the package, finds the files, and knows which one an operator changes.
func TestDeb(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg-deb")
	if err != nil {
		t.Skip("dpkg-deb is not here")
	}
	path, _ := packed(t, "deb")
	fields := output(t, dpkg, "-f", path, "Package", "Version", "Architecture")
	if fields != "Package: gatehouse\nVersion: 1.2.3\nArchitecture: amd64\n" {
		t.Errorf("%s", fields)
	}
	if settings := output(t, dpkg, "-I", path, "conffiles"); settings != "/etc/gatehouse/gatehouse.yaml\n/etc/logrotate.d/gatehouse\n" {
		t.Errorf("files of the operator: %q", settings)
	}
	list := output(t, dpkg, "-c", path)
	want := append(slices.Clone(packageFiles), "/usr/share/zsh/vendor-completions/_authz")
	for _, name := range want {
		name, _, _ = strings.Cut(name, " ")
		if !strings.Contains(list, " ."+name+"\n") {
			t.Errorf("no %s in\n%s", name, list)
		}
	}
	if lines := strings.Count(list, "\n"); strings.Count(list, " 2026-01-02 03:04 ") != lines {
		t.Errorf("not all files have the time of the commit:\n%s", list)
	}
	if n := strings.Count(list, "\n-"); n != len(want)-1 && n != len(want) || strings.Contains(list, "-key") {
		t.Errorf("other files:\n%s", list)
	}
	unit := output(t, "sh", "-c", dpkg+" --fsys-tarfile "+path+" | tar -xO ./usr/lib/systemd/system/gatehouse.service")
	if !strings.Contains(unit, "\nExecStart=/usr/bin/authz serve --config /etc/gatehouse/gatehouse.yaml\n") || strings.Contains(unit, "/usr/local") {
		t.Errorf("the unit is\n%s", unit)
	}
}

// TestRPM: rpm reads the package, finds the files, and knows which one an operator changes.
func TestRPM(t *testing.T) {
	rpm := reader(t, "RPM", "rpm")
	path, _ := packed(t, "rpm")
	if list := output(t, rpm, "-qpc", path); list != "/etc/gatehouse/gatehouse.yaml\n/etc/logrotate.d/gatehouse\n" {
		t.Errorf("files of the operator: %q", list)
	}
	list := output(t, rpm, "-qpl", path)
	for _, name := range append(slices.Clone(packageFiles), "/usr/share/zsh/site-functions/_authz") {
		name, _, _ = strings.Cut(name, " ")
		if !strings.Contains(list, name+"\n") {
			t.Errorf("no %s in\n%s", name, list)
		}
	}
	if scripts := output(t, rpm, "-qp", "--scripts", path); strings.Count(scripts, "#!/bin/sh") != 3 {
		t.Errorf("the scripts are\n%s", scripts)
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C", "TZ=UTC")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return string(out)
}

// TestSBOM: every module is in the list, by the path that was built, with its hash.
func TestSBOM(t *testing.T) {
	_, p := sample(t)
	text, err := sbom(p)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		BomFormat, SpecVersion string
		Metadata               struct{ Timestamp string }
		Components             []struct {
			Name, Version, Purl string
			Hashes              []struct{ Alg, Content string }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if list.BomFormat != "CycloneDX" || list.SpecVersion != "1.6" || list.Metadata.Timestamp != "2026-01-02T03:04:05Z" || len(list.Components) != 2 {
		t.Fatalf("%s", text)
	}
	if c := list.Components[1]; c.Name != "example.com/New" || c.Purl != "pkg:golang/example.com/new@v2.0.0%2Bincompatible" || c.Hashes[0].Content != strings.Repeat("ab", 32) {
		t.Errorf("%+v", c)
	}
	p.info.Deps[0].Replace.Sum = ""
	if _, err := sbom(p); err == nil {
		t.Error("a module without a hash")
	}
}

// TestOtherProgramsRefused: this test was built with changes or without a commit, and packages are
// of commits.
func TestOtherProgramsRefused(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readProgram(self); err == nil || !strings.Contains(err.Error(), "commit") {
		t.Errorf("%v", err)
	}
}

// reader returns a program that the tests ask: the one that a variable names, as in scripts/test, or one
// that is installed. Without both the test is skipped.
func reader(t *testing.T, variable, name string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(name + " is not here")
	}
	return path
}

// TestHardened: systemd finds little that the service could do beyond its work. Without systemd,
// or with one that judges only what runs, there is no answer.
func TestHardened(t *testing.T) {
	analyze := reader(t, "SYSTEMD_ANALYZE", "systemd-analyze")
	unit, err := os.ReadFile("../docs/examples/gatehouse.service")
	if err != nil {
		t.Fatal(err)
	}
	if unit, err = packagedUnit(unit); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "gatehouse.service")
	if err := os.WriteFile(path, unit, 0o600); err != nil {
		t.Fatal(err)
	}
	// The threshold is in tenths.
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
