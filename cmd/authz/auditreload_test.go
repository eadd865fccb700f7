package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
	"gatehouse.example/middleware/middlewaretest"
)

// settingsEvents returns what the trail says about settings.
func (r *reloading) settingsEvents(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile(r.dir + "/audit.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for l, err := range trail.Lines(bytes.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind == audit.SettingsChanged || l.Kind == audit.SettingsRefused {
			out = append(out, strings.Join([]string{string(l.Kind), string(l.By), string(l.How), string(l.Target)}, " "))
		}
	}
	return out
}

// TestReloadsAreRecordedOnce: a reload that changes something is one event with the names of the
// settings, one that is refused is one, and one that changes nothing is none. Values are in neither.
// A file that was renamed goes on in a new one at a reload.
func TestReloadsAreRecordedOnce(t *testing.T) {
	t.Parallel()
	issuer := middlewaretest.NewIssuer(t)
	for verb, text := range map[string]string{
		"serve":   baseServer + "audit: DIR/audit.jsonl\n",
		"gateway": "resource: " + reloadedNotes + "\nupstream: " + echo(t) + "\nissuer: " + issuer.URL() + "\naudit: DIR/audit.jsonl\naudit-key: " + auditKey + "\n",
	} {
		change := map[string]string{"serve": "code-ttl: 50s\nrefresh-window: 20s\n", "gateway": "max-body: 1000\nresource-name: Notes\n"}[verb]
		want := map[string]string{"serve": "settings-changed operator reload code-ttl,refresh-window", "gateway": "settings-changed operator reload resource-name,max-body"}[verb]
		r := startReloading(t, verb, text, map[string]string{"secret": "the-secret-of-the-notes-server"})
		for step, content := range []string{text, text + change, text + change, text + change + "drain: 1s\n", text + "a-value-that-is-wrong: 1\n"} {
			r.write(t, content)
			if got := r.reload(t); got.Done != (step < 4) {
				t.Fatalf("%s, step %d: %+v", verb, step, got)
			}
		}
		if got := r.settingsEvents(t); !slices.Equal(got, []string{want, "settings-refused operator reload "}) {
			t.Errorf("%s: the events are %q", verb, got)
		}
		if err := os.Rename(r.dir+"/audit.jsonl", r.dir+"/audit.jsonl.1"); err != nil {
			t.Fatal(err)
		}
		r.write(t, text)
		if got := r.reload(t); !got.Done || len(r.settingsEvents(t)) != 1 {
			t.Errorf("%s: after a rotation the events are %q", verb, r.settingsEvents(t))
		}
		if status := r.ended(t); status != exitDone {
			t.Errorf("%s: exit status %d: %s", verb, status, r.stderr.String())
		}
		r.status <- exitDone // for the end of the test
	}
}
