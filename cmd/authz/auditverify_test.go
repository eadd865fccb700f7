package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.example/audit/trail"
)

// auditedFiles makes a trail of one process under testKey(1) in the file "keyed" of a new folder, one
// without a key in "plain", and in "text" what is no trail.
func auditedFiles(t *testing.T, issuer string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	master, err := base64.StdEncoding.DecodeString(testKey(1))
	if err != nil {
		t.Fatal(err)
	}
	key, err := trail.NewKey(master, issuer)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]*trail.Key{"keyed": &key, "plain": nil} {
		tr, err := trail.Open(t.Context(), trail.Config{Path: filepath.Join(dir, name), Key: key, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = tr.Close(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "text", strings.Repeat("no trail\n", 1003))
	return dir
}

// TestAuditVerify: what the verb says with which keys, and that it takes the store of a server of this
// user when none is named. KEY, OTHER, ISSUER and DIR stand for those of the trail.
func TestAuditVerify(t *testing.T) {
	const issuer = "https://auth.example.com"
	dir := auditedFiles(t, issuer)
	state := t.TempDir()
	t.Setenv("STATE_DIRECTORY", state)
	verify := func(args string, status int, wants ...string) {
		t.Helper()
		args = strings.NewReplacer("KEY", testKey(1), "OTHER", testKey(2), "ISSUER", issuer, "DIR", dir).Replace(args)
		var out lockedBuffer
		if got := run(t.Context(), append([]string{"audit", "verify"}, strings.Fields(args)...), nil, strings.NewReader(""), &out, &out); got != status {
			t.Errorf("verify %s: exit status %d, want %d: %s", args, got, status, out.String())
		}
		for _, want := range wants {
			if unwanted, not := strings.CutPrefix(want, "!"); not == strings.Contains(out.String(), strings.TrimPrefix(want, "!")) {
				t.Errorf("verify %s: %s\n%q is not right: %s", args, unwanted, want, out.String())
			}
		}
	}
	verify("DIR/plain", 0, "without a key", "it ends with a closing line", "1 file;")
	verify("DIR/keyed", exitUsage, "the files are under a key: give --issuer with the master keys of the server", "!chain")
	verify("--master-keys KEY DIR/keyed", exitUsage, "issuer is not set: the key of an audit trail is made from the master key and the issuer")
	verify("--master-keys KEY --issuer ISSUER DIR/keyed", 0, "under a key", "!fault")
	verify("--master-keys OTHER,KEY --issuer ISSUER DIR/keyed", 0, "under a key")
	verify("--master-keys OTHER --issuer ISSUER DIR/keyed", exitRefused, "which was not given", "1 fault in the audit trail", "!and 0 more")
	verify("--master-keys KEY --issuer ISSUER DIR/plain", exitRefused, "have no key: they show accidents only")
	verify("--audit-key short DIR/keyed", exitRefused, "audit-key")
	verify("--config DIR/none DIR/plain", exitRefused, "/none")
	verify("DIR/text", exitRefused, "or it is no audit trail", "and 4 more\n", "1004 faults in the audit trail", "!chain -")
	verify("DIR", exitRefused, "is a folder: name the files in it", "!trail: trail: ")
	verify("--all DIR/plain", exitUsage, "all: the store knows which trails there are")

	var out lockedBuffer
	if got := run(t.Context(), []string{"audit", "verify", "--json", filepath.Join(dir, "text")}, nil, strings.NewReader(""), &out, io.Discard); got != exitRefused {
		t.Errorf("--json with faults: exit status %d", got)
	}
	var found trail.Verified
	if err := json.Unmarshal([]byte(out.String()), &found); err != nil || found.Chains == nil || len(found.Chains) != 0 || found.More != 4 {
		t.Errorf("--json: %v, chains %v, %d more", err, found.Chains, found.More)
	}

	path, err := defaultStore()
	if err != nil {
		t.Fatal(err)
	}
	file, err := path.File()
	if err != nil || filepath.Dir(file) != state {
		t.Fatalf("the default store is %s, %v", file, err)
	}
	write(t, state, filepath.Base(file), "no store")
	verify("--master-keys KEY --issuer ISSUER DIR/keyed", exitRefused, file, "(--no-head does without the store)")
	verify("--master-keys KEY --issuer ISSUER --no-head DIR/keyed", 0, "under a key")
	verify("--master-keys KEY --issuer ISSUER --store embedded: DIR/keyed", 0, "under a key") // the one that is named, which nobody else can open
	verify("DIR/plain", 0, "without a key")
}
