package main

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Every flag of the demo is on the documentation page, with its default.
func TestEveryFlagIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "\n### The demo\n")
	list, _, _ = strings.Cut(list, "\n## ")
	var s settings
	parser, err := kong.New(&s, kong.Vars{"listen": devListen, "issuer": devIssuer, "credential": credentialVariable})
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range parser.Model.Flags {
		if flag.Name != "help" && !strings.Contains(list, "`--"+flag.Name+"`") {
			t.Errorf("--%s is not on the page", flag.Name)
		}
		if flag.HasDefault && !strings.Contains(list, "`--"+flag.Name+"` (`"+flag.Default+"`):") {
			t.Errorf("--%s has the default %s, the page has another one", flag.Name, flag.Default)
		}
	}
}

// --check succeeds when a server answers, and fails when none listens.
func TestCheck(t *testing.T) {
	r := startRun(t, environment(), "--listen", "127.0.0.1:0")
	host, _, _ := strings.Cut(strings.TrimPrefix(r.resource, "http://"), "/")
	_, port, _ := strings.Cut(host, ":")
	for _, listen := range []string{host, "0.0.0.0:" + port, ":" + port} {
		var said strings.Builder
		if code := run(t.Context(), []string{"--check", "--listen", listen}, environment(), nil, &said, &said); code != 0 || said.String() != "" {
			t.Errorf("%s: exit status %d: %s", listen, code, said.String())
		}
	}
	if code := r.end(t); code != 0 {
		t.Errorf("exit status %d", code)
	}
	var said strings.Builder
	if code := run(t.Context(), []string{"--check"}, environment("DEMO_LISTEN="+host), nil, &said, &said); code != 1 || said.String() == "" {
		t.Errorf("exit status %d: %s", code, said.String())
	}
}
