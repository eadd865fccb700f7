package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/storage"
)

// The output for grants in each state, and the fields that are never printed.
func TestGrantLs(t *testing.T) {
	r := newRecords(t, testKey(1))
	amy, ben := r.person("amy"), r.person("ben")
	r.client("editor", "Editor")
	now := time.Now().Truncate(time.Second)
	at := func(ago time.Duration) { r.now = now.Add(-ago) }

	at(5 * time.Hour)
	refreshed := r.active(amy, "editor", nil)
	at(4 * time.Hour)
	var err error
	if refreshed, err = r.store.Rotate(t.Context(), refreshed, refreshed.Lifetime); err != nil {
		t.Fatal(err)
	}
	at(3 * time.Hour)
	revoked := r.active(amy, "editor", nil)
	if err := r.store.Revoke(t.Context(), revoked.ID, "a reason"); err != nil {
		t.Fatal(err)
	}
	at(2 * time.Hour)
	idle := r.code(amy, "editor", nil)
	if idle, err = r.store.Redeem(t.Context(), idle, storage.Lifetime{Expires: now.Add(settings.Day), IdleExpires: now.Add(-time.Hour), AccessUntil: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	at(time.Hour)
	once := r.active(ben, "no-record", func(n *storage.NewGrant) {
		n.Refreshable, n.Scopes, n.Resources = false, nil, []string{demoResource, "https://tasks.example.com/mcp"}
	})
	at(0)
	fresh := r.code(ben, "editor", nil)

	records := r.listed("ls")
	want := []admin.Grant{
		{ID: refreshed.ID, State: "active", User: "amy", Subject: amy.Subject, ClientID: "editor", ClientName: "Editor", Resources: []string{demoResource}, Scopes: []string{"notes:read"},
			Created: now.Add(-5 * time.Hour).UTC(), LastRefreshed: now.Add(-4 * time.Hour).UTC(), Ends: now.Add(30*settings.Day - 5*time.Hour).UTC()},
		{ID: revoked.ID, State: "revoked", User: "amy", Subject: amy.Subject, ClientID: "editor", ClientName: "Editor", Resources: []string{demoResource}, Scopes: []string{"notes:read"},
			Created: now.Add(-3 * time.Hour).UTC(), RevokedBecause: "a reason"},
		{ID: idle.ID, State: "expired", User: "amy", Subject: amy.Subject, ClientID: "editor", ClientName: "Editor", Resources: []string{demoResource}, Scopes: []string{"notes:read"},
			Created: now.Add(-2 * time.Hour).UTC(), Ends: now.Add(-time.Hour).UTC()},
		{ID: once.ID, State: "active", User: "ben", Subject: ben.Subject, ClientID: "no-record", Resources: []string{demoResource, "https://tasks.example.com/mcp"}, Scopes: []string{},
			Created: now.Add(-time.Hour).UTC(), Ends: now.Add(47 * time.Hour).UTC()},
		{ID: fresh.ID, State: "code", User: "ben", Subject: ben.Subject, ClientID: "editor", ClientName: "Editor", Resources: []string{demoResource}, Scopes: []string{"notes:read"},
			Created: now.UTC(), Ends: now.Add(settings.Day).UTC()},
	}
	got, _ := json.MarshalIndent(records, "", " ")
	expected, _ := json.MarshalIndent(want, "", " ")
	if !bytes.Equal(got, expected) {
		t.Errorf("%s\nwant %s", got, expected)
	}

	table, _ := r.verb(0, r.environ(), "grant", "ls")
	lines := strings.Split(table, "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[1], refreshed.ID+"  amy   editor \"Editor\"  "+demoResource+" ") ||
		!strings.HasSuffix(lines[1], "  notes:read  active   "+moment(want[0].Created)+"  "+moment(want[0].LastRefreshed)+"  "+moment(want[0].Ends)) ||
		!strings.HasSuffix(lines[2], "  revoked  "+moment(want[1].Created)+"  -                     -") ||
		!strings.Contains(lines[4], "  ben   no-record ") || !strings.Contains(lines[4], demoResource+" https://tasks.example.com/mcp  -  ") {
		t.Errorf("%s", table)
	}
	whole, _ := r.verb(0, r.environ(), "grant", "ls", "--json")
	for _, hidden := range [][]byte{refreshed.Seed, refreshed.Code, fresh.Code} {
		if text := base64.StdEncoding.EncodeToString(hidden)[:20]; strings.Contains(whole+table, text) {
			t.Errorf("%s is printed", text)
		}
	}
	for _, name := range []string{"seed", "challenge", "lineage", "generation", "redirect"} {
		if strings.Contains(whole, name) {
			t.Errorf("%s is printed", name)
		}
	}

	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"--user", "Amy"}, []string{refreshed.ID, revoked.ID, idle.ID}},
		{[]string{"--client", "editor"}, []string{refreshed.ID, revoked.ID, idle.ID, fresh.ID}},
		{[]string{"--client", "editor", "--user", "ben"}, []string{fresh.ID}},
		{[]string{"--resource", "https://tasks.example.com/mcp"}, []string{once.ID}},
		{[]string{"--user", "amy", "--resource", "https://tasks.example.com/mcp"}, nil},
	} {
		if got := idsOf(r.listed(append([]string{"ls"}, tt.args...)...)); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.args, got, tt.want)
		}
	}
}

// TestGrantLsShowsPairs: the scopes of a grant for several resources are listed by resource, and
// a resource that ended is no longer listed.
func TestGrantLsShowsPairs(t *testing.T) {
	const tasks, files = "https://tasks.example.com/mcp", "https://files.example.com/mcp"
	r := newRecords(t, testKey(1))
	access := storage.Access{{Resource: tasks, Scopes: []string{"tasks:read", "profile"}}, {Resource: files}, {Resource: demoResource, Scopes: []string{"profile"}}}
	g := r.active(r.person("amy"), "editor", func(n *storage.NewGrant) {
		n.Access, n.Resources, n.Scopes = access, access.Resources(), []string{"tasks:read", "profile"}
	})
	mustList := func(line string, want storage.Access, scopes ...string) {
		t.Helper()
		if table, _ := r.verb(0, r.environ(), "grant", "ls"); !strings.Contains(table, "  "+line+"  active") {
			t.Errorf("%s\nwant %s", table, line)
		}
		listed := r.listed("ls")
		if len(listed) != 1 || listed[0].Access.String() != want.String() || !slices.Equal(listed[0].Scopes, scopes) {
			t.Errorf("%+v, want %v", listed, want)
		}
	}
	mustList(tasks+" "+files+" "+demoResource+"  tasks:read profile | - | profile", access, "tasks:read", "profile")
	if err := r.store.EndResource(t.Context(), g.ID, tasks, "test"); err != nil {
		t.Fatal(err)
	}
	mustList(files+" "+demoResource+"  - | profile", access[1:], "profile")
	if got := r.listed("ls", "--resource", tasks); len(got) != 0 {
		t.Errorf("a resource that ended is listed: %v", got)
	}
	if got := r.listed("ls", "--resource", files); len(got) != 1 {
		t.Errorf("a resource that did not end is not listed: %v", got)
	}
}

// Metadata of a client is printed escaped.
func TestGrantLsShowsNothingHostile(t *testing.T) {
	r := newRecords(t, testKey(1))
	amy := r.person("amy")
	for i, text := range hostile {
		r.client("client-"+text, text)
		r.active(amy, "client-"+text, func(n *storage.NewGrant) {
			n.UserName, n.Resources, n.Scopes = text, []string{"https://example.com/" + text}, []string{text, "notes:read"}
		})
		if got := len(r.listed("ls")); got != i+1 {
			t.Fatalf("%d grants, want %d", got, i+1)
		}
	}
	table, _ := r.verb(0, r.environ(), "grant", "ls")
	text, _ := r.verb(0, r.environ(), "grant", "ls", "--json")
	gone, _ := r.verb(0, r.environ(), "grant", "revoke", "--user", "amy", "--json")
	_, complaint := r.verb(1, r.environ(), "grant", "ls", "--client", "x"+strings.Join(hostile, ""))
	for _, shown := range []string{table, text, gone, complaint} {
		if obeyed(shown) {
			t.Errorf("%q", shown)
		}
	}
	if lines := strings.Count(table, "\n"); lines != len(hostile)+1 {
		t.Errorf("%d lines: %s", lines, table)
	}
}

// cutter empties the store when the first grant is printed.
type cutter struct {
	bytes.Buffer
	redis *miniredis.Miniredis
	sign  string
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if strings.Contains(c.String(), c.sign) {
		c.redis.FlushAll()
	}
	return n, err
}

// Grants are printed while they are read: when the store is emptied at the first one, only few
// more follow.
func TestGrantLsStreams(t *testing.T) {
	const many = 250
	for name, args := range map[string][]string{"table": {"ls"}, "json": {"ls", "--json"}, "revoke": {"revoke", "--user", "amy", "--json"}} {
		t.Run(name, func(t *testing.T) {
			r := newRecords(t, testKey(1))
			amy := r.person("amy")
			for range many {
				r.code(amy, "editor", nil)
			}
			out := &cutter{redis: r.redis, sign: demoResource}
			var complaints bytes.Buffer
			if status := run(t.Context(), append([]string{"grant"}, args...), r.environ(), nil, out, &complaints); status != 0 {
				t.Fatalf("exit status %d: %s", status, complaints.String())
			}
			if n := strings.Count(out.String(), demoResource); n == 0 || n > rowsAligned {
				t.Errorf("%d grants were printed of a list that was cut at the first", n)
			}
		})
	}
}

// A list that an error ended has an error, and is not valid JSON.
func TestGrantLsBroken(t *testing.T) {
	r := newRecords(t, testKey(1))
	amy := r.person("amy")
	for range 3 {
		r.code(amy, "editor", nil)
	}
	r.client("editor", "Editor")
	down := func(args ...string) (string, string) {
		t.Helper()
		out := &breaker{redis: r.redis, sign: demoResource}
		var complaints bytes.Buffer
		if status := run(t.Context(), append([]string{"grant"}, args...), r.environ(), nil, out, &complaints); status != 1 {
			t.Fatalf("exit status %d: %s", status, complaints.String())
		}
		r.redis.SetError("")
		return out.String(), complaints.String()
	}
	for _, verb := range []string{"ls", "revoke"} {
		out, complaint := down(verb, "--user", "amy", "--json")
		if strings.Count(out, demoResource) != 1 || json.Valid([]byte(out)) || !strings.Contains(complaint, "unavailable") {
			t.Errorf("%s: %s%s", verb, out, complaint)
		}
	}
}

// breaker makes the store fail when the first grant is printed.
type breaker struct {
	bytes.Buffer
	redis *miniredis.Miniredis
	sign  string
}

func (b *breaker) Write(p []byte) (int, error) {
	n, err := b.Buffer.Write(p)
	if strings.Contains(b.String(), b.sign) {
		b.redis.SetError("LOADING the store is gone")
	}
	return n, err
}

// A record that cannot be read is reported, and does not prevent revoking the others.
func TestGrantDamaged(t *testing.T) {
	r := newRecords(t, testKey(1))
	amy := r.person("amy")
	damaged, whole := r.code(amy, "editor", nil), r.code(amy, "editor", nil)
	if err := r.redis.Set("gatehouse:grant:"+damaged.ID, "0123456789abcdef\x63damaged"); err != nil {
		t.Fatal(err)
	}
	out, complaint := r.verb(1, r.environ(), "grant", "ls", "--json")
	var records []admin.Grant
	if err := json.Unmarshal([]byte(out), &records); err != nil || len(records) != 1 || records[0].ID != whole.ID {
		t.Errorf("%v %s", err, out)
	}
	if !strings.Contains(complaint, "1 grant skipped: ") {
		t.Errorf("%s", complaint)
	}
	out, complaint = r.verb(1, r.environ(), "grant", "revoke", "--user", "amy")
	if out != "revoked 1 grant\n" || !strings.Contains(complaint, "1 grant skipped: ") {
		t.Errorf("%s%s", out, complaint)
	}
	if _, complaint = r.verb(1, r.environ(), "grant", "revoke", "--", damaged.ID); !strings.Contains(complaint, "1 grant skipped: ") {
		t.Errorf("%s", complaint)
	}
}
