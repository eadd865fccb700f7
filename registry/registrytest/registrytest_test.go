package registrytest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
)

// answer is an answer of the upstream.
type answer struct {
	status int
	header http.Header
	body   string
}

func ask(t *testing.T, u *registrytest.Upstream, method, path string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, u.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// listed returns the names and versions of a list, and the cursor of its next page.
func listed(t *testing.T, u *registrytest.Upstream, query string) (rows []string, next string) {
	t.Helper()
	got := ask(t, u, http.MethodGet, "/v0.1/servers?"+query)
	var list struct {
		Servers []struct {
			Server struct{ Name, Version string }
			Meta   map[string]struct{ IsLatest bool } `json:"_meta"`
		}
		Metadata struct {
			NextCursor string
			Count      int
		}
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.status != 200 || list.Metadata.Count != len(list.Servers) {
		t.Fatalf("%d %v: %s", got.status, err, got.body)
	}
	for _, item := range list.Servers {
		row := item.Server.Name + " " + item.Server.Version
		if item.Meta[registry.MetaOfficial].IsLatest {
			row += " latest"
		}
		rows = append(rows, row)
	}
	return rows, list.Metadata.NextCursor
}

func TestForms(t *testing.T) {
	u := registrytest.New(t)
	u.Publish(`{ "name":"a/b","version":"1" , "x":[1,  2],"_meta":{"a/own":1.0}}`)
	u.SetMeta("a/b", "1", "c/theirs", 2)
	u.SetStatus("a/b", "1", registry.StatusDeprecated, "No.")
	const said = `"io.modelcontextprotocol.registry/official":{"isLatest":true,"publishedAt":"2025-10-01T00:00:01Z","status":"deprecated",` +
		`"statusChangedAt":"2025-10-01T00:00:03Z","statusMessage":"No.","updatedAt":"2025-10-01T00:00:03Z"}`
	for form, want := range map[registrytest.Form]string{
		registrytest.Official: `{"server":{ "name":"a/b","version":"1" , "x":[1,  2],"_meta":{"a/own":1.0}},"_meta":{"c/theirs":2,` + said + `}}`,
		registrytest.Flat:     `{"_meta":{"a/own":1.0,"c/theirs":2},"name":"a/b","status":"deprecated","version":"1","x":[1,  2]}`,
		registrytest.Both: `{"_meta":{"a/own":1.0,"c/theirs":2,` + said + `},"name":"a/b","server":{ "name":"a/b","version":"1" , "x":[1,  2],"_meta":{"a/own":1.0}},` +
			`"status":"deprecated","version":"1","x":[1,  2]}`,
	} {
		u.SetForm(form)
		if got := ask(t, u, http.MethodGet, "/v0.1/servers/a%2Fb/versions/1"); got.status != 200 || got.body != want {
			t.Errorf("%d: %s", form, got.body)
		}
		if got := ask(t, u, http.MethodGet, "/v0/servers"); got.body != `{"servers":[`+want+`],"metadata":{"count":1}}` {
			t.Errorf("%d: %s", form, got.body)
		}
	}
}

func TestRefusals(t *testing.T) {
	u := registrytest.New(t)
	u.Add("a/b", "1.0.0")
	u.SetStatus("a/b", "1.0.0", registry.StatusDeleted, "")
	for path, want := range map[string]int{
		"/v0.1/servers?limit=0": 422, "/v0.1/servers?limit=101": 422, "/v0.1/servers?limit=x": 422, "/v0.1/servers?limit=100": 200,
		"/v0.1/servers?search=ab": 422, "/v0.1/servers?search=%20%20%20": 422, "/v0.1/servers?search=": 200,
		"/v0.1/servers?updated_since=yesterday": 400, "/v0.1/servers?updated_since=2025-10-01T00:00:00.5Z": 200,
		"/v0.1/servers?updated_since=2025-10-01T00:00:00Z&include_deleted=false": 400, "/v0.1/servers?search=a%00b": 400,
		"/v0.1/servers?cursor=%21": 400, "/v0.1/servers/": 308, "/v0.1/servers/a%2Fb/versions": 404, "/v0.1/servers/a%2Fb/versions?include_deleted=true": 200,
		"/v0.1/servers/a%2Fb/versions/1.0.0": 404, "/v0.1/servers/a%2Fb/versions/1.0.0?include_deleted=true": 200, "/v0.1/servers/a/b/versions": 404,
		"/v0.1/servers/a%2Fb": 404, "/v1/servers": 404, "/": 404,
	} {
		got := ask(t, u, http.MethodGet, path)
		if got.status != want || want == 308 && got.header.Get("Location") != "/v0.1/servers" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		if want >= 400 && (got.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.body, `"detail":"`)) {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	if got := ask(t, u, http.MethodPost, "/v0.1/servers"); got.status != 405 {
		t.Errorf("POST: %d", got.status)
	}
	u.SetForm(registrytest.Flat)
	if got := ask(t, u, http.MethodGet, "/v0.1/servers/a%2Fc/versions"); got.status != 404 || got.body != `{"error":"Server not found"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestPagesAndChanges(t *testing.T) {
	u := registrytest.New(t)
	u.Fill(4)
	rows, next := listed(t, u, "limit=2")
	more, end := listed(t, u, "limit=2&cursor="+next)
	none, last := listed(t, u, "limit=2&cursor="+end)
	if len(rows) != 2 || len(more) != 2 || len(none) != 0 || next == "" || end == "" || last != "" || more[0] != "com.example/server-000003 1.0.0 latest" {
		t.Errorf("%q %q %q %q", rows, more, none, last)
	}

	u.Reset()
	if rows, _ := listed(t, u, ""); len(rows) != 0 || u.Len() != 0 {
		t.Errorf("%q", rows)
	}
	u.Add("a/b", "1.10.0")
	u.Add("a/b", "1.9.0")
	u.Add("a/b", "may")
	is := func(want ...string) {
		t.Helper()
		if rows, _ := listed(t, u, ""); !slices.Equal(rows, want) {
			t.Errorf("%q, want %q", rows, want)
		}
	}
	is("a/b 1.10.0 latest", "a/b 1.9.0", "a/b may")
	before := u.Now()
	u.SetStatus("a/b", "1.10.0", registry.StatusDeleted, "")
	is("a/b 1.9.0 latest", "a/b may")
	u.Remove("a/b", "1.9.0")
	is("a/b may latest")
	since := "updated_since=" + before.Format(time.RFC3339)
	if rows, _ := listed(t, u, since); !slices.Equal(rows, []string{"a/b 1.10.0"}) {
		t.Errorf("updated: %q", rows)
	}
	u.Rewrite("a/b", "may", registrytest.Record("a/b", "june"))
	is("a/b june latest")
	mark := u.Now()
	u.RewriteQuietly("a/b", "1.10.0", registrytest.Record("a/b", "2.0.0"))
	if rows, _ := listed(t, u, "updated_since="+mark.Format(time.RFC3339)); len(rows) != 0 {
		t.Errorf("updated quietly: %q", rows)
	}
	if rows, _ := listed(t, u, since); !slices.Equal(rows, []string{"a/b 2.0.0", "a/b june latest"}) {
		t.Errorf("updated: %q", rows)
	}
	if rows, _ := listed(t, u, "updated_since="+u.Now().Format(time.RFC3339)); len(rows) != 0 {
		t.Errorf("updated, strictly later: %q", rows)
	}
	u.SetStatus("a/b", "1.10.0", registry.StatusActive, "")
	if rows, _ := listed(t, u, "version=latest"); !slices.Equal(rows, []string{"a/b 2.0.0 latest"}) {
		t.Errorf("latest: %q", rows)
	}

	clock := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	u.SetClock(func() time.Time { return clock })
	u.Add("c/d", "1.0.0")
	if got := ask(t, u, http.MethodGet, "/v0.1/servers/c%2Fd/versions/latest"); !strings.Contains(got.body, `"publishedAt":"2030-01-01T00:00:00Z"`) ||
		got.header.Get("Date") != "Tue, 01 Jan 2030 00:00:00 GMT" {
		t.Errorf("%s %s", got.body, got.header)
	}
}

func TestFaultsBeginAndEnd(t *testing.T) {
	u := registrytest.New(t)
	u.Fill(3)
	u.Break(registrytest.Faults{After: 1, Times: 2, Status: 429, RetryAfter: "7"})
	for i, want := range []int{200, 429, 429, 200} {
		got := ask(t, u, http.MethodGet, "/v0.1/servers")
		if got.status != want || (want == 429) != (got.header.Get("Retry-After") == "7") {
			t.Errorf("%d: %d, want %d", i, got.status, want)
		}
	}
	if asked := u.Requests(); len(asked) != 4 || asked[0] != "/v0.1/servers" {
		t.Errorf("%q", asked)
	}
	u.Break(registrytest.Faults{Status: 500})
	u.Mend()
	u.Forget()
	if got := ask(t, u, http.MethodGet, "/v0.1/servers"); got.status != 200 || len(u.Requests()) != 1 {
		t.Errorf("%d", got.status)
	}
	u.Break(registrytest.Faults{Only: 2})
	if rows, next := listed(t, u, ""); len(rows) != 2 || next != "" || u.Len() != 3 {
		t.Errorf("%q", rows)
	}
	release := make(chan struct{})
	u.Break(registrytest.Faults{Hold: release})
	done := make(chan answer)
	go func() { done <- ask(t, u, http.MethodGet, "/v0.1/servers") }()
	for end := time.Now().Add(10 * time.Second); len(u.Requests()) < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it was not asked")
		}
	}
	select {
	case <-done:
		t.Error("it does not wait")
	default:
	}
	close(release)
	if got := <-done; got.status != 200 {
		t.Errorf("%d", got.status)
	}
}
