package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/middleware/middlewaretest"
)

const reloadedNotes, reloadedFiles = "https://notes.example.com/mcp", "https://files.example.com/mcp"

// guardedAt is one resource of a file.
func guardedAt(resource, upstream, issuer string, more ...string) string {
	text := "  - resource: " + resource + "\n    upstream: " + upstream + "\n    issuers: [" + issuer + "]\n"
	for _, line := range more {
		text += "    " + line + "\n"
	}
	return text
}

// TestGatewayReloads: resources are added, changed and removed while the gateway runs. Sessions go
// on, also where the upstream has changed, and a bad file changes nothing.
func TestGatewayReloads(t *testing.T) {
	t.Parallel()
	issuer := middlewaretest.NewIssuer(t)
	first, second := echo(t), echo(t)
	one := "resources:\n" + guardedAt(reloadedNotes, first+"/old", issuer.URL())
	r := startReloading(t, "gateway", one, nil)
	token := func(resource string) string { return issuer.Mint(middlewaretest.Claims{"aud": resource}) }
	status, answer, _ := at(t, r.running, "POST", reloadedNotes, token(reloadedNotes))
	session := answer.Get("Mcp-Session-Id")
	if status != http.StatusOK || session == "" {
		t.Fatalf("before: %d, session %q", status, session)
	}
	want := func(step string, text string, changed []change) {
		t.Helper()
		r.write(t, text)
		if got := r.reload(t); !got.Done || !reflect.DeepEqual(got.Changed, changed) || len(got.Restart) > 0 {
			t.Errorf("%s: %+v", step, got)
		}
		if status, _, _ := at(t, r.running, "POST", reloadedNotes, token(reloadedNotes), "Mcp-Session-Id", session); status != http.StatusOK {
			t.Errorf("%s: the session does not go on: %d", step, status)
		}
	}
	want("nothing", one, []change{})
	want("another upstream", "resources:\n"+guardedAt(reloadedNotes, second+"/new", issuer.URL()), []change{{"resources", "changed " + reloadedNotes}})
	both := "resources:\n" + guardedAt(reloadedNotes, second+"/new", issuer.URL(), "resource-name: Notes") + guardedAt(reloadedFiles, first+"/files", issuer.URL())
	want("a resource more", both, []change{{"resources", "added " + reloadedFiles + "; changed " + reloadedNotes}})
	if status, _, _ := at(t, r.running, "POST", reloadedFiles, token(reloadedFiles)); status != http.StatusOK {
		t.Errorf("the new resource: %d", status)
	}
	for _, bad := range []string{"{", both + "max-boddy: 1\n", strings.Replace(both, "/files", "/files?a=b", 1), both + guardedAt(reloadedFiles, first, issuer.URL())} {
		r.write(t, bad)
		if got := r.reload(t); got.Done || len(got.Mistakes) == 0 {
			t.Errorf("a bad file: %+v", got)
		}
	}
	if status, _, _ := at(t, r.running, "POST", reloadedFiles, token(reloadedFiles)); status != http.StatusOK {
		t.Errorf("after the bad files: %d", status)
	}
	want("a resource less", one, []change{{"resources", "changed " + reloadedNotes + "; removed " + reloadedFiles}})
	if status, _, _ := at(t, r.running, "POST", reloadedFiles, token(reloadedFiles)); status != http.StatusMisdirectedRequest {
		t.Errorf("the resource that is gone: %d", status)
	}
}

// TestGatewaySettingsThatReload: for one resource without a list, each kind of setting is named or
// needs a restart, and files that are named count.
func TestGatewaySettingsThatReload(t *testing.T) {
	t.Parallel()
	issuer := middlewaretest.NewIssuer(t)
	base := "resource: " + reloadedNotes + "\nupstream: " + echo(t) + "\nissuer: " + issuer.URL() + "\nscopes: DIR/scopes.yaml\n"
	r := startReloading(t, "gateway", base, map[string]string{"scopes.yaml": "tools:\n  list_notes: notes:read\n"})
	for line, want := range map[string][2][]string{
		"resource-name: Notes":        {{"resource-name"}, nil},
		"identity: none":              {{"identity"}, nil},
		"max-body: 1000":              {{"max-body"}, nil},
		"max-token: 30000":            {{"max-token"}, {"max-token"}},
		"end-streams: false":          {{"end-streams"}, nil},
		"dpop: accepted":              {{"dpop"}, nil},
		"stale-keys: 1h":              {{"stale-keys"}, nil},
		"pass-headers: [X-Team-Name]": {{"pass-headers"}, nil},
		"drain: 1s":                   {nil, {"drain"}},
		"max-connections: 99":         {nil, {"max-connections"}},
		"log-format: json":            {nil, {"log-format"}},
		"trusted-proxies: [10.0.0.1]": {nil, {"trusted-proxies"}},
		"session-key: " + testKey(3):  {nil, {"session-key"}},
		"introspection-secret: the-secret-of-the-notes-server": {{"introspection-secret"}, nil},
	} {
		r.write(t, base+line+"\n")
		got := r.reload(t)
		if !got.Done || !slices.Equal(keysIn(got.Changed), want[0]) || !slices.Equal(keysIn(got.Restart), want[1]) {
			t.Errorf("%s: %+v", line, got)
		}
		r.write(t, base)
		if got := r.reload(t); !got.Done || len(got.Restart) > 0 {
			t.Errorf("%s, back: %+v", line, got)
		}
	}
	// What a restart would refuse is refused now, also where the new value needs that restart.
	for line, want := range map[string]string{
		"drain: -1s": "drain", "max-connections: 0": "max-connections", "log-format: xml": "log-format", "trusted-proxies: [x]": "trusted-proxies",
		"tls-cert: DIR/scopes.yaml": "tls-key", "session-key: abc": "session-key", "audit-required: true": "audit-required", "audit: DIR/a.jsonl": "audit-key",
		"verify-only: true": "upstream", "acme-folder: DIR": "acme-names", "admin-listen: here": "admin-listen",
		"identity: assertion\nassertion-key: abc": "assertion-key",
	} {
		r.write(t, base+line+"\n")
		if got := r.reload(t); got.Done || !strings.Contains(strings.Join(got.Mistakes, " "), want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
	r.write(t, leaveOut(base, "upstream")+"verify-only: true\n")
	if got := r.reload(t); got.Done || !strings.HasPrefix(strings.Join(got.Mistakes, " "), "with the settings that need a restart as they were: upstream") {
		t.Errorf("a gateway that forwards has no upstream any more: %+v", got)
	}
	r.write(t, base)
	document := func() string {
		_, text := get(t, http.DefaultClient, "http://"+r.shown("listening on")+"/.well-known/oauth-protected-resource/mcp")
		return text
	}
	if before := document(); strings.Contains(before, "notes:write") {
		t.Fatal(before)
	}
	write(t, r.dir, "scopes.yaml", "tools:\n  list_notes: notes:read\n  add_note: notes:write\n")
	if got := r.reload(t); !slices.Equal(keysIn(got.Changed), []string{"scopes"}) || !strings.Contains(document(), "notes:write") {
		t.Errorf("a changed file of scopes: %+v, %s", got, document())
	}
	if err := os.Remove(filepath.Join(r.dir, "scopes.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := r.reload(t); got.Done {
		t.Errorf("without the file of scopes: %+v", got)
	}
}

// TestStreamsLiveThroughReloads: a stream that is open goes on when the upstream of its resource
// changes and when the resource is taken out, while requests without end are answered.
func TestStreamsLiveThroughReloads(t *testing.T) {
	t.Parallel()
	issuer := middlewaretest.NewIssuer(t)
	more := make(chan string)
	streaming := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case text := <-more:
				fmt.Fprintf(w, "data: %s\n\n", text)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(streaming.Close)
	steady := guardedAt(reloadedFiles, echo(t), issuer.URL())
	r := startReloading(t, "gateway", "resources:\n"+steady+guardedAt(reloadedNotes, streaming.URL, issuer.URL()), nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.shown("listening on")+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "notes.example.com"
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+issuer.Mint(middlewaretest.Claims{"aud": reloadedNotes}))
	opened := make(chan *http.Response)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
		}
		opened <- res
	}()
	say := func(text string) {
		t.Helper()
		select {
		case more <- text:
		case <-time.After(deadline):
			t.Fatalf("nobody is there to say %q", text)
		}
	}
	say("first")
	res := <-opened
	if res == nil {
		t.FailNow()
	}
	defer res.Body.Close()
	events := bufio.NewReader(res.Body)
	read := func(want string) {
		t.Helper()
		for {
			line, err := events.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream ended before %q: %v", want, err)
			}
			if strings.TrimSpace(line) == "data: "+want {
				return
			}
		}
	}
	read("first")
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		token := issuer.Mint(middlewaretest.Claims{"aud": reloadedFiles})
		for {
			if status, _, _ := at(t, r.running, "POST", reloadedFiles, token); status != http.StatusOK {
				t.Errorf("a request meanwhile: %d", status)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for i := range 20 {
		text := "resources:\n" + steady
		if i%2 == 0 {
			text += guardedAt(reloadedNotes, fmt.Sprintf("http://127.0.0.1:9/%d", i), issuer.URL())
		}
		r.write(t, text)
		if got := r.reload(t); !got.Done || len(got.Changed) != 1 {
			t.Errorf("%+v", got)
		}
		if i%5 == 0 {
			say(fmt.Sprint(i))
			read(fmt.Sprint(i))
		}
	}
	close(done)
	work.Wait()
}
