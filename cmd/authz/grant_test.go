package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/authz/admin"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

const (
	testIssuer = "http://127.0.0.1:8080"
	testSecret = "staple-staple-staple"
)

// records is a store with people, clients and grants, for verbs and servers to work on.
type records struct {
	t      *testing.T
	redis  *miniredis.Miniredis
	store  *storage.Store
	issuer string
	keys   []string
	now    time.Time // zero for the time it is
}

func newRecords(t *testing.T, keys ...string) *records {
	t.Helper()
	return openRecords(t, miniredis.RunT(t), keys...)
}

// openRecords opens a store as a process with these master keys does.
func openRecords(t *testing.T, server *miniredis.Miniredis, keys ...string) *records {
	t.Helper()
	return openRecordsOf(t, testIssuer, server, keys...)
}

// openRecordsOf is openRecords for another issuer.
func openRecordsOf(t *testing.T, issuer string, server *miniredis.Miniredis, keys ...string) *records {
	t.Helper()
	r := &records{t: t, redis: server, issuer: issuer, keys: keys}
	backend, err := redis.Open(t.Context(), redis.Options{URL: "redis://" + r.redis.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	options := storage.Options{Issuer: issuer, Now: func() time.Time {
		if r.now.IsZero() {
			return time.Now()
		}
		return r.now
	}}
	for _, key := range keys {
		raw, err := base64.StdEncoding.DecodeString(key)
		if err != nil {
			t.Fatal(err)
		}
		options.MasterKeys = append(options.MasterKeys, raw)
	}
	if r.store, err = storage.New(backend, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.store.Close() })
	return r
}

// environ is the environment of a process that works on the store, with keys of its own if
// there are any.
func (r *records) environ(keys ...string) []string {
	if len(keys) == 0 {
		keys = r.keys
	}
	return []string{
		"AUTHZ_STORE=redis://" + r.redis.Addr(), "AUTHZ_ISSUER=" + r.issuer, "AUTHZ_MASTER_KEYS=" + strings.Join(keys, ","),
		"AUTHZ_DEV_INTROSPECTION_SECRET=" + testSecret,
	}
}

// verb runs a verb and returns what it said on standard output and standard error.
func (r *records) verb(want int, environ []string, args ...string) (string, string) {
	r.t.Helper()
	var out, complaints bytes.Buffer
	if status := run(r.t.Context(), args, environ, strings.NewReader(""), &out, &complaints); status != want {
		r.t.Fatalf("%v: exit status %d, want %d: %s%s", args, status, want, out.String(), complaints.String())
	}
	return out.String(), complaints.String()
}

func (r *records) person(name string) storage.User {
	r.t.Helper()
	user := storage.User{Name: name, Subject: "subject-of-" + name, Created: time.Now()}
	if err := r.store.CreateUser(r.t.Context(), user); err != nil {
		r.t.Fatal(err)
	}
	return user
}

func (r *records) client(id, name string) {
	r.t.Helper()
	m := metadata.Client{ClientName: name, TokenEndpointAuthMethod: metadata.AuthMethodNone,
		GrantTypes: []string{metadata.GrantAuthorizationCode, metadata.GrantRefreshToken}, RedirectURIs: []string{"http://127.0.0.1/callback"}}
	if err := r.store.CreateClient(r.t.Context(), storage.Client{ID: id, Source: storage.ClientRegistered, Metadata: m, Created: time.Now()}); err != nil {
		r.t.Fatal(err)
	}
}

// code stores a grant whose code is out.
func (r *records) code(user storage.User, client string, change func(*storage.NewGrant)) storage.Grant {
	r.t.Helper()
	n := storage.NewGrant{ClientID: client, Subject: user.Subject, UserName: user.Name, Resources: []string{demoResource},
		Scopes: []string{"notes:read"}, Refreshable: true, CodeTTL: 24 * time.Hour}
	if change != nil {
		change(&n)
	}
	g, _, err := r.store.PrepareGrant(n)
	if err == nil {
		err = r.store.CreateGrant(r.t.Context(), g)
	}
	if err == nil {
		g, err = r.store.Grant(r.t.Context(), g.ID)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

// active stores a grant whose code was redeemed.
func (r *records) active(user storage.User, client string, change func(*storage.NewGrant)) storage.Grant {
	r.t.Helper()
	g := r.code(user, client, change)
	now := g.Created
	g, err := r.store.Redeem(r.t.Context(), g, storage.Lifetime{Expires: now.Add(90 * settings.Day), IdleExpires: now.Add(30 * settings.Day), AccessUntil: now.Add(48 * time.Hour)})
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

func (r *records) listed(args ...string) []admin.Grant {
	r.t.Helper()
	out, _ := r.verb(0, r.environ(), append([]string{"grant"}, append(args, "--json")...)...)
	var records []admin.Grant
	if err := json.Unmarshal([]byte(out), &records); err != nil {
		r.t.Fatal(err)
	}
	return records
}

func idsOf(records []admin.Grant) (ids []string) {
	for _, r := range records {
		ids = append(ids, r.ID)
	}
	return ids
}

// What is printed of a grant in each state, and what never is.
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

// TestA1GrantLsShowsPairs: of a grant for several resources the scopes stand with their
// resource, and a resource that ended is not listed any more.
func TestA1GrantLsShowsPairs(t *testing.T) {
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

// Nothing that a client says about itself reaches the terminal as it is.
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

// cutter empties the store at the first grant that is printed.
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

// Grants are printed while they are read: of those that are gone when the first ones
// are printed, only few more were ever in memory.
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

// A list that ends early says so, and is no JSON.
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

// breaker takes the store away when the first grant was printed.
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

// Each way to name grants ends those that it names, says how many, and leaves the others.
func TestGrantRevoke(t *testing.T) {
	r := newRecords(t, testKey(1))
	amy, ben := r.person("amy"), r.person("ben")
	r.client("editor", "Editor")
	const tasks = "https://tasks.example.com/mcp"
	forTasks := func(n *storage.NewGrant) { n.Resources = []string{tasks} }
	grant := func() []storage.Grant {
		return []storage.Grant{
			r.active(amy, "editor", nil), r.active(amy, "editor", forTasks), r.code(amy, "other", nil),
			r.active(ben, "editor", nil), r.active(ben, "other", forTasks),
		}
	}
	for _, tt := range []struct {
		args []string
		want []int
	}{
		{[]string{"--user", "amy"}, []int{0, 1, 2}},
		{[]string{"--client", "editor"}, []int{0, 1, 3}},
		{[]string{"--user", "AMY", "--client", "editor"}, []int{0, 1}},
		{[]string{"--user", "amy", "--resource", tasks}, []int{1}},
		{[]string{"--client", "other", "--resource", tasks}, []int{4}},
		{[]string{"--user", "ben", "--client", "other", "--resource", demoResource}, nil},
	} {
		grants := grant()
		records := r.listed(append([]string{"revoke"}, tt.args...)...)
		var want []string
		for i, g := range grants {
			state := g.State
			if slices.Contains(tt.want, i) {
				state = storage.GrantRevoked
				want = append(want, g.ID)
			}
			if now, err := r.store.Grant(t.Context(), g.ID); err != nil || now.State != state {
				t.Errorf("%v: grant %d is %s, want %s (%v)", tt.args, i, now.State, state, err)
			}
		}
		got := idsOf(records)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%v: printed %v, want %v", tt.args, got, want)
		}
		for _, record := range records {
			if record.State != "revoked" || record.RevokedBecause != "revoked by an operator" || !record.Ends.IsZero() {
				t.Errorf("%v: %+v", tt.args, record)
			}
		}
		r.verb(0, r.environ(), "grant", "revoke", "--user", "amy")
		r.verb(0, r.environ(), "grant", "revoke", "--user", "ben")
	}

	grants := grant()
	keys := r.redis.Keys()
	out, complaint := r.verb(1, r.environ(), "grant", "revoke", "--", grants[0].ID, "AAAAAAAAAAAAAAAAAAAAAA", grants[3].ID)
	if out != "revoked 2 grants\n" || complaint != "authz: there is no grant with the id AAAAAAAAAAAAAAAAAAAAAA\n" {
		t.Errorf("%s%s", out, complaint)
	}
	if now := r.redis.Keys(); !slices.Equal(now, keys) {
		t.Errorf("an id that names nothing made something: %v", now)
	}
	if out, _ = r.verb(0, r.environ(), "grant", "revoke", "--", grants[0].ID, grants[1].ID); out != "revoked 1 grant; 1 had been revoked before\n" {
		t.Errorf("%s", out)
	}
}

// One record that cannot be read is said, and keeps nobody from revoking the others.
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
	if !strings.Contains(complaint, "1 grant passed over: ") {
		t.Errorf("%s", complaint)
	}
	out, complaint = r.verb(1, r.environ(), "grant", "revoke", "--user", "amy")
	if out != "revoked 1 grant\n" || !strings.Contains(complaint, "1 grant passed over: ") {
		t.Errorf("%s%s", out, complaint)
	}
	if _, complaint = r.verb(1, r.environ(), "grant", "revoke", "--", damaged.ID); !strings.Contains(complaint, "1 grant passed over: ") {
		t.Errorf("%s", complaint)
	}
}

// post sends a form to a server and returns the status and the members of the answer.
func (r *running) post(t *testing.T, path string, form url.Values, basic ...string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+r.shown("listening on")+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if len(basic) == 2 {
		req.SetBasicAuth(url.QueryEscape(basic[0]), url.QueryEscape(basic[1]))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil {
		t.Fatalf("%s: %s %s", path, resp.Status, body)
	}
	return resp.StatusCode, members
}

// refresh exchanges a refresh token for its successor and an access token.
func (r *running) refresh(t *testing.T, client, token string) (access, refresh string) {
	t.Helper()
	status, members := r.post(t, "/token", refreshForm(client, token))
	if status != http.StatusOK {
		t.Fatalf("refresh: %d %v\n%s", status, members, r.stderr.String())
	}
	return members["access_token"].(string), members["refresh_token"].(string)
}

func refreshForm(client, token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {token}}
}

func (r *running) active(t *testing.T, access string) bool {
	t.Helper()
	status, members := r.post(t, "/introspect", url.Values{"token": {access}}, demoResource, testSecret)
	if status != http.StatusOK {
		t.Fatalf("introspect: %d %v", status, members)
	}
	return members["active"].(bool)
}

// A running server sees at once that an operator revoked a grant.
func TestGrantRevokeReachesTheServer(t *testing.T) {
	r := newRecords(t, testKey(1))
	server := start(t, r.environ(testKey(1)), "--dev", "--listen", "127.0.0.1:0")
	demo, err := r.store.User(t.Context(), demoPerson)
	if err != nil {
		t.Fatal(err)
	}
	r.client("editor", "Editor")
	for name, args := range map[string]func(storage.Grant) []string{
		"by id":     func(g storage.Grant) []string { return []string{"--", g.ID} },
		"by person": func(storage.Grant) []string { return []string{"--user", demoPerson} },
		"by client": func(storage.Grant) []string { return []string{"--client", "editor", "--resource", demoResource} },
	} {
		t.Run(name, func(t *testing.T) {
			revoked, other := r.active(demo, "editor", nil), r.active(r.person("amy-"+strings.ReplaceAll(name, " ", "-")), "another", nil)
			first, err := r.store.RefreshTokenOf(revoked, 0)
			if err != nil {
				t.Fatal(err)
			}
			access, refresh := server.refresh(t, "editor", first)
			if !server.active(t, access) {
				t.Fatal("the access token is not active")
			}
			if out, _ := r.verb(0, r.environ(), append([]string{"grant", "revoke"}, args(revoked)...)...); !strings.HasPrefix(out, "revoked 1 grant") {
				t.Errorf("%s", out)
			}
			if server.active(t, access) {
				t.Error("the access token is active")
			}
			if status, members := server.post(t, "/token", refreshForm("editor", refresh)); status != http.StatusBadRequest || members["error"] != "invalid_grant" {
				t.Errorf("refresh: %d %v", status, members)
			}
			if g, err := r.store.Grant(t.Context(), other.ID); err != nil || g.State != storage.GrantActive {
				t.Errorf("a grant that was not named: %v %v", g.State, err)
			}
		})
	}
}
