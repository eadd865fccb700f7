package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/audit"
	"gatehouse.example/audit/trail"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
	storefile "gatehouse.example/storage/file"
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

// TestActsAreRecordedInFull: each act says what it is about and how, wherever the words come from,
// and none has a secret. Verbs that reveal a secret or copy everything are acts.
func TestActsAreRecordedInFull(t *testing.T) {
	r := openRecords(t, miniredis.RunT(t), testKey(1))
	dir := t.TempDir()
	file, moved := filepath.Join(dir, "verbs.jsonl"), "file:"+filepath.Join(dir, "moved")
	environ := append(r.environ(), "AUTHZ_AUDIT_VERBS="+file)
	write(t, dir, "secret", "the-secret-of-a-pattern-that-is-long-enough\n")
	write(t, dir, "password", "correct horse battery staple\n")
	source := "redis://user:the-password-of-redis@" + r.redis.Addr()
	r.redis.RequireUserAuth("user", "the-password-of-redis")
	environ[0] = "AUTHZ_STORE=" + source
	base := len(environ)
	other, err := storefile.Open(storefile.Options{Path: filepath.Join(dir, "moved"), Create: true})
	if err != nil || other.Close() != nil {
		t.Fatal(err)
	}
	pattern := "https://mcp.example.com/{tenant}/mcp"
	for _, one := range []struct {
		env, args, want string
		status          int
	}{
		{"", "client add --id one --name One --redirect-uri https://client.example.org/callback", "client add id=one name=One redirect-uri=https://client.example.org/callback", 0},
		{"", "client vouch one", "client vouch one", 0},
		{"", "client vouch one --off", "client vouch one off=true", 0},
		{"AUTHZ_OFF=true", "client vouch one", "client vouch one off=true", 0},
		{"AUTHZ_ID=two", "client add --name Two --redirect-uri https://client.example.org/callback", "client add id=two name=Two redirect-uri=https://client.example.org/callback", 0},
		{"", "client disable off=true", `client disable "off=true"`, 1},
		{"", "user add ben --password-file " + dir + "/password", "user add ben", 0},
		{"", "user invite ada --for 1h", "user invite ada for=1h", 0},
		{"", "user reset ada --drop-second-factor --drop-passkeys --json", "user reset ada drop-second-factor=true drop-passkeys=true", 0},
		{"AUTHZ_USER=ada", "grant revoke", "grant revoke user=ada", 0},
		{"AUTHZ_ALL=true", "grant revoke", "grant revoke all=true", 0},
		{"", "resource add " + pattern + " --introspection-secret-file " + dir + "/secret --disabled --allow-group staff", "resource add " + pattern + " allow-group=staff disabled=true", 0},
		{"", "resource add " + pattern + " --introspection-secret-file " + dir + "/secret --replace", "resource add " + pattern + " replace=true", 0},
		{"", "resource show " + pattern, "", 0},
		{"", "resource show https://mcp.example.com/one/mcp --credential", "resource show https://mcp.example.com/one/mcp credential=true", 0},
		{"AUTHZ_CREDENTIAL=true", "resource show https://mcp.example.com/one/mcp", "resource show https://mcp.example.com/one/mcp credential=true", 0},
		{"", "client token --uses 3", "client token uses=3 expires=1d", 0},
		{"", "store copy --from " + moved + " --to " + source, "store copy from=" + moved + " to=redis://user:xxxxx@" + r.redis.Addr(), 1},
		{"", "store copy --undo --from " + moved, "store copy from=" + moved + " undo=true", 1},
		{"AUTHZ_STORE=" + moved, "store backup " + dir + "/backup", "store backup " + dir + "/backup", 0},
	} {
		before := len(actsIn(t, file))
		_, said := r.verb(one.status, append(environ[:base:base], strings.Fields(one.env)...), strings.Fields(one.args)...)
		var want []string
		if one.want != "" {
			want = []string{one.want}
		}
		if got := actsIn(t, file)[before:]; !slices.Equal(got, want) {
			t.Errorf("%s %s is recorded as %q, want %q (%s)", one.env, one.args, got, want, said)
		}
	}
	for _, secret := range []string{"the-secret-of-a-pattern", "the-password-of-redis", "correct horse"} {
		if bytes.Contains((&auditedRun{t: t}).read(file), []byte(secret)) {
			t.Errorf("the trail has %s", secret)
		}
	}
	if out, said := r.verb(0, environ, "audit", "verify", file); !strings.Contains(out, "1 file") {
		t.Errorf("the trail is %s%s", out, said)
	}
	if _, said := r.verb(exitUsage, []string{"AUTHZ_STORE=" + moved, "AUTHZ_AUDIT_VERBS=" + file}, "store", "backup", dir+"/other"); !strings.Contains(said, "it cannot be recorded: issuer is not set") {
		t.Errorf("a backup that cannot be recorded: %s", said)
	}
}

// TestActsUnderANewKey: verbs go on, without a complaint, with a trail whose last line is under a key
// that another one is put in front of.
func TestActsUnderANewKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "verbs.jsonl")
	r := openRecords(t, miniredis.RunT(t), testKey(1))
	for _, keys := range [][]string{{testKey(1)}, {testKey(2), testKey(1)}, {testKey(2), testKey(1)}} {
		if _, said := r.verb(0, append(r.environ(keys...), "AUTHZ_AUDIT_VERBS="+file), "group", "add", fmt.Sprintf("group-%d", len(actsIn(t, file)))); said != "" {
			t.Errorf("with %d keys: %s", len(keys), said)
		}
	}
}

// TestCopiedStoreTakesNoHead: a verb that copies a store is recorded without a head in it, because the
// store is not to change meanwhile. One that is there is compared with the file.
func TestCopiedStoreTakesNoHead(t *testing.T) {
	r := openRecords(t, miniredis.RunT(t), testKey(1))
	dir := t.TempDir()
	file, from := filepath.Join(dir, "verbs.jsonl"), "redis://"+r.redis.Addr()
	environ := append(r.environ(), "AUTHZ_AUDIT_VERBS="+file)
	r.verb(0, environ, "group", "add", "staff")
	heads := func() (all []storage.AuditHeadAt) {
		t.Helper()
		for head, err := range r.store.AuditHeads(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, head)
		}
		return all
	}
	before := heads()
	giveUp := func() { r.verb(exitRefused, environ, "store", "copy", "--undo", "--from", from) } // nothing is being copied
	giveUp()
	if acts := actsIn(t, file); len(acts) != 2 {
		t.Errorf("the acts are %q", acts)
	}
	if after := heads(); len(before) != 1 || !slices.Equal(after, before) {
		t.Errorf("the heads are %+v, and before it %+v", after, before)
	}
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	giveUp()
	text := (&auditedRun{t: t}).read(file)
	if !bytes.Contains(text, []byte(before[0].Chain)) {
		t.Errorf("a file that lost its lines does not name the chain of the head: %s", text)
	}
}

// TestTrailWithoutVerbs: a server with a trail whose verbs leave none is told so, and one trail cannot
// be both.
func TestTrailWithoutVerbs(t *testing.T) {
	dir := t.TempDir()
	text := leaveOut(baseServer, "store") + "store: file:DIR/state\naudit: DIR/audit.jsonl\n"
	write(t, dir, "secret", "the-secret-of-the-notes-server")
	for what, test := range map[string]struct {
		more, want string
		status     int
	}{
		"none":    {"", "warning: audit-verbs is not set", 0},
		"another": {"audit-verbs: DIR/verbs.jsonl\n", "", 0},
		"one":     {"audit-verbs: DIR/audit.jsonl\n", "audit-verbs names the file of audit", 1},
	} {
		write(t, dir, "authz.yaml", strings.ReplaceAll(text+test.more, "DIR", dir))
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"check-config", "--config", filepath.Join(dir, "authz.yaml")}, nil, strings.NewReader(""), &out, &errs)
		if status != test.status || test.want == "" && strings.Contains(errs.String(), "audit") || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%s: %d, %s%s", what, status, out.String(), errs.String())
		}
	}
}

// actsIn returns the acts in a trail of verbs.
func actsIn(t *testing.T, file string) (acts []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for l, err := range trail.Lines(bytes.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind == audit.AdminActed {
			acts = append(acts, string(l.How)+" "+string(l.Target))
		}
	}
	return acts
}

// TestEveryVerbLooksOrActs: a new verb is recorded unless it is listed as one that looks, or that has
// no store. Those that are recorded can be, and no flag that may have a secret is.
func TestEveryVerbLooksOrActs(t *testing.T) {
	parser, err := newProgram(nil, nil, io.Discard, io.Discard).parser(t.Context(), &grammar{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	acts := map[string]bool{
		"user add": true, "user passwd": true, "user invite": true, "user reset": true, "user disable": true, "user rm": true,
		"group add": true, "group rm": true, "group join": true, "group leave": true,
		"client add": true, "client vouch": true, "client disable": true, "client rm": true, "client token": true,
		"resource add": true, "resource disable": true, "resource enable": true, "resource rm": true, "grant revoke": true,
		"key rotate": true, "key revoke": true, "key reseal": true, "key seal-records": true, "store backup": true, "store copy": true,
	}
	seen := map[string]bool{}
	for _, leaf := range parser.Model.Leaves(false) {
		verb := strings.TrimSpace(strings.TrimPrefix(leaf.Path(), "authz"))
		seen[verb] = true
		_, listed := deeds[verb]
		if listed == acts[verb] {
			t.Errorf("%q: say in deeds whether it changes something, and here if it does", verb)
		}
		names := map[string]bool{}
		for _, flag := range leaf.Flags {
			names[flag.Name] = true
			switch flag.Target.Interface().(type) {
			case settings.Secret, settings.MasterKeys, settings.ProxyURL:
				if slices.Contains(naming, flag.Name) {
					t.Errorf("%q records the secret %s", verb, flag.Name)
				}
			}
		}
		if acts[verb] && !names["audit-verbs"] {
			t.Errorf("%q does not read where it is to be recorded", verb)
		}
	}
	for verb := range deeds {
		if !seen[verb] {
			t.Errorf("there is no verb %q", verb)
		}
	}
}
