// Command packaging makes packages of a program authz that is built: a deb, an rpm and the list of
// the modules in it. They are the same, byte for byte, whenever and wherever it runs, because
// everything in them comes from the program and from the folder of its commit:
//
//	go run . --program FILE --texts FOLDER --repository FOLDER --out FOLDER
//
// FOLDER of --texts has authz.1 and authz.bash, authz.zsh and authz.fish, as the program prints them.
// It prints the names of the files that it made. scripts/package calls it.
//
// It is a module of its own, so that no program that imports Gatehouse has nfpm in its module graph.
package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

func main() {
	var j job
	flag.StringVar(&j.program, "program", "", "the program authz, built from a commit")
	flag.StringVar(&j.texts, "texts", "", "a folder with its page for man and its completions")
	flag.StringVar(&j.repository, "repository", "", "the folder of that commit")
	flag.StringVar(&j.out, "out", "", "the folder for the packages")
	flag.Parse()
	made, err := j.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(made, "\n"))
}

// job is one program to be packed. All members are paths.
type job struct {
	program, texts, repository, out string
}

// run makes the packages and returns their paths.
func (j job) run() ([]string, error) {
	p, err := readProgram(j.program)
	if err != nil {
		return nil, err
	}
	stage, err := os.MkdirTemp("", "packaging")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(stage)
	if err := j.fill(stage, p); err != nil {
		return nil, err
	}
	list := filepath.Join(j.out, "gatehouse-"+strings.TrimPrefix(p.version, "v")+"-"+p.arch+".cdx.json")
	if err := copyFile(list, filepath.Join(stage, "sbom.cdx.json")); err != nil {
		return nil, err
	}
	made := []string{list}
	for _, format := range []string{"deb", "rpm"} {
		path, err := j.pack(format, stage, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", format, err)
		}
		made = append(made, path)
	}
	return made, nil
}

// program is what a built program records about itself.
type program struct {
	path      string
	version   string // of the module, with v: a tag, or made of the commit and its time
	arch      string // as Go names it
	committed time.Time
	info      *debug.BuildInfo
}

// readProgram refuses a program that is not of exactly one commit.
func readProgram(path string) (*program, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	committed, err := time.Parse(time.RFC3339, settings["vcs.time"])
	if err != nil || settings["vcs.modified"] != "false" {
		return nil, fmt.Errorf("%s was not built from a commit without changes (go build -buildvcs=true)", path)
	}
	if settings["-trimpath"] != "true" {
		return nil, fmt.Errorf("%s contains paths of the machine that built it (go build -trimpath)", path)
	}
	return &program{path: path, version: info.Main.Version, arch: settings["GOARCH"], committed: committed, info: info}, nil
}

// fill puts everything that nfpm.yaml names into the folder stage.
func (j job) fill(stage string, p *program) error {
	page, err := os.ReadFile(filepath.Join(j.texts, "authz.1"))
	if err != nil {
		return err
	}
	unit, err := os.ReadFile(filepath.Join(j.repository, "docs/examples/gatehouse.service"))
	if err != nil {
		return err
	}
	unit, err = packagedUnit(unit)
	if err != nil {
		return err
	}
	list, err := sbom(p)
	if err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(stage, name) }
	return errors.Join(
		copyFile(at("authz"), p.path),
		copyFile(at("authz.bash"), filepath.Join(j.texts, "authz.bash")),
		copyFile(at("authz.zsh"), filepath.Join(j.texts, "authz.zsh")),
		copyFile(at("authz.fish"), filepath.Join(j.texts, "authz.fish")),
		copyFile(at("copyright"), filepath.Join(j.repository, "LICENSE")),
		copyFile(at("gatehouse.yaml"), filepath.Join(j.repository, "docs/examples/gatehouse.yaml")),
		copyFile(at("gatehouse.logrotate"), filepath.Join(j.repository, "docs/examples/gatehouse.logrotate")),
		os.WriteFile(at("authz.1.gz"), compressed(page), 0o644),
		os.WriteFile(at("gatehouse.service"), unit, 0o644),
		os.WriteFile(at("sbom.cdx.json"), list, 0o644),
	)
}

// packagedUnit is the unit of the documentation with the path of packages, and without the
// comment at its beginning, which says how to install it by hand.
func packagedUnit(unit []byte) ([]byte, error) {
	_, unit, found := bytes.Cut(unit, []byte("\n[Unit]\n"))
	if !found || !bytes.Contains(unit, []byte("=/usr/local/bin/authz ")) {
		return nil, errors.New("the unit does not look as expected")
	}
	unit = bytes.ReplaceAll(unit, []byte("/usr/local/bin/authz"), []byte("/usr/bin/authz"))
	return append([]byte("# Change it with: systemctl edit gatehouse\n[Unit]\n"), unit...), nil
}

// compressed has no time and no name in its header.
func compressed(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	_, _ = w.Write(text)                                  // nor does the buffer fail
	_ = w.Close()
	return b.Bytes()
}

func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}
