package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
)

// pages returns the texts of the pages for people by their path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	out := map[string]string{}
	for _, path := range append(paths, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(text)
	}
	return out
}

// written matches flags on a page.
var written = regexp.MustCompile(`(?:^|[\s` + "`" + `("|\[])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)`)

// Every flag of every verb is on a page, and every flag on a page belongs to a command of this
// project or to a tool that this test names.
func TestEveryFlagIsOnAPage(t *testing.T) {
	parser, err := kong.New(&grammar{})
	if err != nil {
		t.Fatal(err)
	}
	flags := settings.EveryFlag(parser.Model.Node)
	shown := map[string]bool{}
	others := []string{"transport", "build", "detach", "rm", "volumes", "cluster", "url", "from-literal", "target"} // of claude, docker, redis-cli, codex and kubectl
	demo, err := os.ReadFile("../demo-resource/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range pages(t) {
		if filepath.Base(path) == "clients.md" {
			continue // it shows the flags of other programs
		}
		for _, match := range written.FindAllStringSubmatch(text, -1) {
			name := match[1]
			shown[name] = true
			known := slices.Contains(flags, name) || slices.Contains(flags, strings.TrimPrefix(name, "no-")) || slices.Contains(others, name)
			if !known && !strings.Contains(string(demo), "--"+name) && !strings.Contains(string(demo), settingOf(name)) {
				t.Errorf("%s names --%s, which is no flag", path, name)
			}
		}
	}
	for _, flag := range flags {
		if !shown[flag] && !shown["no-"+flag] && flag != "help" {
			t.Errorf("no page names --%s", flag)
		}
	}
}

// settingOf matches the name of a flag in the settings of the demo.
func settingOf(flag string) string {
	var name strings.Builder
	for _, part := range strings.Split(flag, "-") {
		name.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return "\t" + name.String() + " "
}

// Text that a shell would take for a pattern or for two commands is in quotes.
func TestShellWordsAreQuoted(t *testing.T) {
	bare := regexp.MustCompile(`(?m)^(?:curl|authz|AUTHZ_\w+=\S*|go run|demo-resource|docker)\b[^'"#\n]*\s([^\s'"]*://[^\s'"]*[?&*][^\s'"]*)`)
	for path, text := range pages(t) {
		for _, match := range bare.FindAllStringSubmatch(text, -1) {
			t.Errorf("%s: %s is not in quotes", path, match[1])
		}
	}
}
