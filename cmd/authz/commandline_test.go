package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// A server builds the part of the grammar that its verb needs, which has the flags of the whole;
// what the part does not take is read with the whole.
func TestServersBuildAPartOfTheGrammar(t *testing.T) {
	p := newProgram(nil, nil, &bytes.Buffer{}, &bytes.Buffer{})
	whole, err := p.parser(t.Context(), &grammar{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--dev"}, {"gateway", "--resource", "https://r.example.com"}, {"registry", "serve"}, {"registry", "sync", "--full"}} {
		k, err := p.parse(t.Context(), args, func(int) {})
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if parts := len(k.Model.Children); parts != len(servers[args[0]]) {
			t.Errorf("%v: the grammar has %d verbs", args, parts)
		}
		for _, node := range k.Model.Children {
			at := slices.IndexFunc(whole.Model.Children, func(n *kong.Node) bool { return n.Name == node.Name })
			if got, want := settings.EveryFlag(node), settings.EveryFlag(whole.Model.Children[at]); !slices.Equal(got, want) {
				t.Errorf("%v: %s has the flags %v, want %v", args, node.Name, got, want)
			}
		}
	}
	for _, args := range [][]string{nil, {"user", "ls"}, {"serve", "--help"}, {"registry", "-h"}, {"--dev", "serve"}} {
		if partFor(args) != nil {
			t.Errorf("%v: a part of the grammar is built", args)
		}
	}
	if k, err := p.parse(t.Context(), []string{"serve", "--devv"}, func(int) {}); k != nil || err == nil {
		t.Error("an unknown flag is taken")
	}
}

// An id that begins with a dash is taken for flags, and the error says how to write it. Other mistakes
// have no such line, and an id behind -- is read.
func TestIDsThatBeginWithADash(t *testing.T) {
	const (
		id     = "-wUiEr1zlR6gkdpKOexaUg"
		help   = "-hUiEr1zlR6gkdpKOexaUg" // -h is a flag
		two    = "--UiEr1zlR6gkdpKOexaUg"
		digest = "-yK_QnRchDTKx7XbpdqaRrNaE450rlPRITQZFdjIEks"
	)
	for _, tt := range []struct {
		args []string
		told string // the id that the error tells how to write
	}{
		{[]string{"client", "show", id}, id},
		{[]string{"grant", "revoke", "another", help, "--json"}, help},
		{[]string{"client", "rm", two, "--config", "gatehouse.yaml"}, two},
		{[]string{"key", "revoke", digest}, digest},
		{[]string{"client", "show", "--nope"}, ""},
		{[]string{"client", "show", "-w"}, ""},
		{[]string{"client", "show", "--nope", "--", id}, ""},
		{[]string{"client", "ls", "--software", id}, ""}, // that error shows how by itself
		{[]string{"client", "show", "--", id}, ""},
	} {
		var out, problems strings.Builder
		status := run(t.Context(), tt.args, nil, strings.NewReader(""), &out, &problems)
		if told := strings.Contains(problems.String(), " begins with a dash: "); status != exitUsage || told != (tt.told != "") {
			t.Errorf("%q: %d, %s", tt.args, status, problems.String())
		}
		if !strings.Contains(problems.String(), tt.told+" begins") && tt.told != "" {
			t.Errorf("%q: the error does not name %s: %s", tt.args, tt.told, problems.String())
		}
	}
}

// The random password of the person demo takes no work at the start, and one that somebody chose
// takes as much as every other.
func TestDevHashesOnlyChosenPasswords(t *testing.T) {
	for name, tt := range map[string]struct {
		s       serveSettings
		r       relaxed
		weak    bool
		because string
	}{
		"random": {serveSettings{DevPassword: "drawn-at-random"}, relaxed{password: "drawn-at-random"}, true, "the start waits for a hash"},
		"chosen": {serveSettings{DevPassword: "chosen"}, relaxed{}, false, "a chosen password is easy to guess from its hash"},
	} {
		backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
		if err != nil {
			t.Fatal(err)
		}
		store, err := storage.New(backend, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		if err := tt.s.admitDemo(t.Context(), store, &tt.r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		user, err := store.User(t.Context(), demoPerson)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if passwords.NeedsRehash(user.Password) != tt.weak || !passwords.Check(user.Password, string(tt.s.DevPassword)) {
			t.Errorf("%s: the hash is %s: %s", name, user.Password, tt.because)
		}
	}
}
