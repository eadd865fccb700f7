package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/storage"
)

// Each way to name grants revokes exactly those, and prints their number.
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
	if out != "revoked 2 grants\n" || complaint != "authz: there is no grant with the id AAAAAAAAAAAAAAAAAAAAAA: authz grant ls lists them\n" {
		t.Errorf("%s%s", out, complaint)
	}
	if now := r.redis.Keys(); !slices.Equal(now, keys) {
		t.Errorf("an id that names nothing made something: %v", now)
	}
	if out, _ = r.verb(0, r.environ(), "grant", "revoke", "--", grants[0].ID, grants[1].ID); out != "revoked 1 grant; 1 had been revoked before\n" {
		t.Errorf("%s", out)
	}
}

// post sends a form to a server and returns the status and the members of the response.
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

// A running server refuses the tokens of a grant as soon as an operator has revoked it.
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
