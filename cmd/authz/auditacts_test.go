package main

import (
	"bytes"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
)

// TestVerbsAreRecorded: verbs that change something write what they are about to do, also many at
// a time; those that look do not. One that cannot be recorded does nothing.
func TestVerbsAreRecorded(t *testing.T) {
	r := openRecords(t, miniredis.RunT(t), testKey(1))
	dir := t.TempDir()
	file := filepath.Join(dir, "verbs.jsonl")
	environ := append(r.environ(), "AUTHZ_AUDIT_VERBS="+file)
	var work sync.WaitGroup
	for n := range 4 {
		work.Go(func() { r.verb(0, environ, "group", "add", fmt.Sprintf("group-%d", n)) })
	}
	work.Wait()
	r.verb(0, environ, "group", "ls")
	const password = "correct horse battery staple"
	write(t, dir, "password", password+"\n")
	r.verb(0, environ, "user", "add", "ada", "--password-file", filepath.Join(dir, "password"))
	r.verb(exitRefused, environ, "client", "disable", "unknown")
	text := (&auditedRun{t: t}).read(file)
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	var acts []string
	for l, err := range trail.Lines(bytes.NewReader(text)) {
		switch {
		case err != nil:
			t.Fatal(err)
		case l.Kind != audit.AdminActed:
		case l.By != audit.ByOperator || string(l.Operator) != who.Username:
			t.Errorf("an act is %+v", l.Event)
		default:
			acts = append(acts, string(l.How)+" "+string(l.Target))
		}
	}
	all := strings.Join(acts, "\n")
	for _, want := range []string{"group add group-0", "group add group-3", "user add ada", "client disable unknown"} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%q is recorded %d times: %q", want, strings.Count(all, want), all)
		}
	}
	if len(acts) != 6 || bytes.Contains(text, []byte(password)) {
		t.Errorf("%d acts are recorded: %s", len(acts), text)
	}
	r.verb(0, environ, "audit", "verify", file)
	bad := append(r.environ(), "AUTHZ_AUDIT_VERBS="+filepath.Join(dir, "missing", "verbs.jsonl"))
	if _, said := r.verb(exitRefused, bad, "group", "add", "unrecorded"); !strings.Contains(said, "nothing was done, because it cannot be recorded") {
		t.Errorf("it says %s", said)
	}
	if out, _ := r.verb(0, bad, "group", "ls"); strings.Contains(out, "unrecorded") {
		t.Errorf("a verb that could not be recorded made a group: %s", out)
	}
}

// TestEveryVerbLooksOrActs: a new verb is recorded unless its last word is that of one that looks.
func TestEveryVerbLooksOrActs(t *testing.T) {
	for verb, want := range map[string]bool{
		"user add": true, "user ls": false, "resource show": false, "resource check": false, "grant revoke": true, "key rotate": true, "audit verify": false, "": false,
	} {
		if got := (act{verb: verb}).changes(); got != want {
			t.Errorf("%q changes something: %t", verb, got)
		}
	}
}
