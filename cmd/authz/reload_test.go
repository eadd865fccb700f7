package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// reloading is a server or gateway in this process whose file a test changes.
type reloading struct {
	*running
	dir, file string
	admin     string
	signals   chan os.Signal
	always    []string // lines of the file, unless a text has another with the same key
}

// startReloading runs a verb with a file, beside other files. In the text, DIR is their folder.
func startReloading(t *testing.T, verb, text string, files map[string]string) *reloading {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &reloading{running: &running{stop: stop, status: make(chan int, 1)}, dir: t.TempDir(), signals: make(chan os.Signal, 1)}
	r.file = filepath.Join(r.dir, "authz.yaml")
	for name, content := range files {
		write(t, r.dir, name, content)
	}
	r.always = []string{"listen: 127.0.0.1:0", "admin-listen: 127.0.0.1:0"}
	if verb == "serve" {
		r.always = append(r.always, "egress-check: off")
	}
	r.write(t, text)
	p := newProgram(nil, strings.NewReader(""), &r.stdout, &r.stderr)
	p.hangups = func() (chan os.Signal, func()) { return r.signals, func() {} }
	p.reloadRest = 0
	go func() {
		r.status <- p.run(ctx, append(strings.Fields(verb), "--config", r.file))
	}()
	t.Cleanup(func() { r.ended(t) })
	eventually(t, "it is ready", func() bool {
		select {
		case status := <-r.status:
			t.Fatalf("exit status %d before it was ready:\n%s", status, r.stderr.String())
		default:
		}
		r.admin = r.shown("admin on")
		return r.admin != ""
	})
	return r
}

func (r *reloading) write(t *testing.T, text string) {
	t.Helper()
	for _, line := range r.always {
		if key, _, _ := strings.Cut(line, ":"); !strings.Contains("\n"+text, "\n"+key+":") {
			text += "\n" + line + "\n"
		}
	}
	write(t, r.dir, "authz.yaml", strings.ReplaceAll(text, "DIR", r.dir))
}

// reload asks for a reload as authz reload does.
func (r *reloading) reload(t *testing.T) reloaded {
	t.Helper()
	result, err := ask(t.Context(), "http://"+r.admin+reloadPath)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// verb runs authz reload, and returns its exit status and what it prints.
func (r *reloading) verb(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr lockedBuffer
	status = run(t.Context(), append([]string{"reload", "--admin-listen", r.admin}, args...), nil, strings.NewReader(""), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// keysIn returns the keys of changes.
func keysIn(changes []change) (out []string) {
	for _, c := range changes {
		out = append(out, c.Key)
	}
	return out
}

// baseServer is a server over a store in this process.
const baseServer = `
issuer: https://auth.example.com
store: "embedded:"
master-keys: QocLGFfcLQqGhbDUJydxil6JJZpW+xU+Xe7J9hmWUF0=
registration: open
resources:
  - uri: https://notes.example.com/mcp
    name: Notes
    default: true
    introspection: {client_id: notes, client_secret_file: DIR/secret}
    scopes:
      notes:read: Read your notes
`

// leaveOut returns a text without the lines that begin with a key and those below it.
func leaveOut(text, key string) string {
	var out []string
	skip := false
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			skip = strings.HasPrefix(line, key+":")
		}
		if !skip {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func startServer(t *testing.T) *reloading {
	t.Helper()
	return startReloading(t, "serve", baseServer, map[string]string{"secret": "the-secret-of-the-notes-server"})
}

// TestReloadOfABadFile: a file with a mistake changes nothing, and every mistake is told to who asks
// and to the log.
func TestReloadOfABadFile(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	public := "http://" + r.shown("listening on")
	_, before := get(t, http.DefaultClient, public+"/.well-known/oauth-authorization-server")
	broken := filepath.Join(r.dir, "pages")
	if err := os.Mkdir(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, broken, "login.html", "{{.Nothing}}")
	for name, one := range map[string]struct {
		text string
		says []string
	}{
		"not YAML":      {"{", []string{"authz.yaml"}},
		"two mistakes":  {strings.Replace(baseServer, "registration: open", "registration: closed\naccess-token-tll: 5m\ncode-ttl: 20m", 1), []string{"access-token-tll"}},
		"a late one":    {baseServer + "code-ttl: 20m\nregistration-quota: 7\n", []string{"code-ttl"}},
		"a template":    {baseServer + "pages: {templates: DIR/pages}\n", []string{"templates"}},
		"no secret":     {strings.Replace(baseServer, "DIR/secret", "DIR/none", 1), []string{"none"}},
		"a file is out": {"", []string{"issuer", "registration"}},
	} {
		r.write(t, one.text)
		got := r.reload(t)
		for _, says := range one.says {
			if got.Done || !strings.Contains(strings.Join(got.Mistakes, "\n"), says) || !strings.Contains(r.stderr.String(), "nothing has changed") {
				t.Errorf("%s: %+v, want mistakes that say %q", name, got, says)
			}
		}
	}
	if _, after := get(t, http.DefaultClient, public+"/.well-known/oauth-authorization-server"); after != before {
		t.Errorf("the metadata have changed: %s", after)
	}
	r.write(t, baseServer)
	refusals, failing := figure(t, r.admin, `gatehouse_reloads_total{outcome="refused"}`), figure(t, r.admin, "gatehouse_reload_failing")
	if refusals != "6" || failing != "1" {
		t.Errorf("the metrics count %s refused reloads, failing %s", refusals, failing)
	}
	if got := r.reload(t); !got.Done || len(got.Changed) > 0 {
		t.Errorf("after the bad files: %+v", got)
	}
	done, failing := figure(t, r.admin, `gatehouse_reloads_total{outcome="done"}`), figure(t, r.admin, "gatehouse_reload_failing")
	if done != "1" || failing != "0" {
		t.Errorf("the metrics count %s reloads, failing %s", done, failing)
	}
}

// figure returns the value of a series of a process, empty if there is none.
func figure(t *testing.T, admin, series string) string {
	t.Helper()
	for line := range strings.Lines(scrape(t, admin)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestReloadVerb: the command prints what the server says, and its status tells a mistake.
func TestReloadVerb(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	r.write(t, baseServer+"groups: {staff: [ada]}\ncode-ttl: 40s\nkey-cache: 2m\n")
	status, out, errs := r.verb(t)
	if want := "changed: code-ttl\nchanged: groups (added staff)\nneeds a restart: key-cache\n"; status != exitDone || out != want || errs != "" {
		t.Errorf("%d, %q, %q, want %q", status, out, errs, want)
	}
	r.write(t, baseServer+"code-ttl: 40m\ncode-tll: 40s\n")
	if status, out, errs := r.verb(t); status != exitRefused || out != "" || !strings.Contains(errs, "authz: nothing has changed") || !strings.Contains(errs, "code-tll") {
		t.Errorf("%d, %q, %q", status, out, errs)
	}
	status, out, _ = r.verb(t, "--json")
	var told reloaded
	if err := json.Unmarshal([]byte(out), &told); err != nil || status != exitRefused || told.Done || len(told.Mistakes) == 0 {
		t.Errorf("%d, %s, %v", status, out, err)
	}
	for _, args := range [][]string{{"--admin-listen", "off"}, {"--admin-listen", "127.0.0.1:0"}, {"--admin-listen", "nowhere"}} {
		if status, _, errs := r.verb(t, args...); status != exitUsage {
			t.Errorf("%v: %d, %s", args, status, errs)
		}
	}
}

// TestReloadOfFilesThatAreNamed: a secret and a template that have changed in their files count, and
// the result has no secret in it.
func TestReloadOfFilesThatAreNamed(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	public := "http://" + r.shown("listening on")
	pages := filepath.Join(r.dir, "pages")
	if err := os.Mkdir(pages, 0o700); err != nil {
		t.Fatal(err)
	}
	r.write(t, baseServer+"pages: {templates: DIR/pages}\n")
	if got := r.reload(t); !slices.Equal(keysIn(got.Changed), []string{"pages"}) {
		t.Errorf("%+v", got)
	}
	write(t, pages, "style.css", "body { color: #123456 }")
	if got := r.reload(t); !slices.Equal(keysIn(got.Changed), []string{"pages"}) {
		t.Errorf("a new template: %+v", got)
	}
	write(t, r.dir, "secret", "another-secret-of-the-notes-server")
	got := r.reload(t)
	if !reflect.DeepEqual(got.Changed, []change{{"resources", "changed https://notes.example.com/mcp"}}) {
		t.Errorf("a new secret: %+v", got)
	}
	introspect(t, public, "notes", "another-secret-of-the-notes-server", http.StatusOK)
	introspect(t, public, "notes", "the-secret-of-the-notes-server", http.StatusUnauthorized)
	if strings.Contains(r.stderr.String(), "secret-of-the") {
		t.Errorf("a secret is in the log: %s", r.stderr.String())
	}
}

// TestHangup: SIGHUP does the same, and the log has the result.
func TestHangup(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	r.write(t, baseServer+"code-ttl: 40s\nkey-cache: 2m\n")
	r.signals <- syscall.SIGHUP
	eventually(t, "the log has the result", func() bool {
		return strings.Contains(r.stderr.String(), `changed=code-ttl "need a restart"=key-cache`)
	})
}

// TestHangupOfOthers: a gateway reloads too, and a registry of its own says that it does not and goes on.
func TestHangupOfOthers(t *testing.T) {
	t.Parallel()
	gate := "resource: " + reloadedNotes + "\nupstream: http://127.0.0.1:9\nissuer: https://login.example.com\n"
	for _, one := range []struct{ verb, before, after, logs, shown string }{
		{"gateway", gate, gate + "max-body: 1000\ndrain: 1s\n", `changed=max-body "need a restart"=drain`, "needs a restart: drain"},
		{"registry serve", "store: \"embedded:\"\n", "store: \"embedded:\"\ntitle: Other\n", "a registry does not reload its settings: restart it", "reloads no settings: restart it"},
	} {
		t.Run(one.verb, func(t *testing.T) {
			t.Parallel()
			r := startReloading(t, one.verb, one.before, nil)
			r.write(t, one.after)
			r.signals <- syscall.SIGHUP
			eventually(t, "the log has the result", func() bool { return strings.Contains(r.stderr.String(), one.logs) })
			if _, out, errs := r.verb(t); !strings.Contains(out+errs, one.shown) {
				t.Errorf("authz reload: %s%s", out, errs)
			}
			if status, _ := get(t, http.DefaultClient, "http://"+r.admin+"/livez"); status != http.StatusOK {
				t.Errorf("it does not go on: %d", status)
			}
		})
	}
}

// TestReloadsTogether: reloads run one after the other, whoever asks gets the result of one that
// began after the question, and a crowd shares it.
func TestReloadsTogether(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	runs := 0
	r := newReloader(func(context.Context) reloaded {
		runs++ // one at a time: the race detector says so
		began <- struct{}{}
		<-finish
		return reloaded{Done: true, Changed: make([]change, runs)}
	}, slog.New(slog.DiscardHandler), 0)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.run(ctx, nil) }()
	first := make(chan reloaded)
	go func() { first <- r.reload(t.Context()) }()
	<-began
	second := r.promise()
	for range 20 {
		if r.promise() != second {
			t.Error("another reload than that of the others")
		}
	}
	finish <- struct{}{}
	if got := <-first; len(got.Changed) != 1 {
		t.Errorf("the result of run %d, want that of the first", len(got.Changed))
	}
	<-began
	finish <- struct{}{}
	<-second.done
	if len(second.Changed) != 2 {
		t.Errorf("the result of run %d, want that of the second", len(second.Changed))
	}
	stop()
	<-ended
	if got := r.reload(t.Context()); got.Done || runs != 2 {
		t.Errorf("%+v after %d runs", got, runs)
	}
}

// TestReloadInJSON: a list without elements is a list.
func TestReloadInJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(reloaded{Done: true})
	if want := `{"done":true,"changed":[],"restart":[],"mistakes":[],"warnings":[]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

// TestWhoMayReload: browsers, proxies and other machines may not.
func TestWhoMayReload(t *testing.T) {
	t.Parallel()
	asked := 0
	r := newReloader(func(context.Context) reloaded { asked++; return reloaded{Done: true} }, slog.New(slog.DiscardHandler), 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = r.run(ctx, nil) }()
	h := (&site{}).reloading(http.NotFoundHandler(), r)
	ask := func(method, from, name, value string) int {
		req := httptest.NewRequest(method, "/reload", nil)
		req.RemoteAddr = from
		if name != "" {
			req.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w.Code
	}
	for _, one := range []struct {
		method, from, name, value string
		want                      int
	}{
		{"POST", "127.0.0.1:1", "", "", 200}, {"POST", "[::1]:1", "", "", 200}, {"POST", "[::ffff:127.0.0.1]:1", "", "", 200},
		{"GET", "127.0.0.1:1", "", "", 404}, {"POST", "192.0.2.1:1", "", "", 403}, {"POST", "nobody", "", "", 403},
		{"POST", "127.0.0.1:1", "Origin", "https://evil.example.com", 403}, {"POST", "127.0.0.1:1", "Sec-Fetch-Site", "none", 403},
		{"POST", "127.0.0.1:1", "X-Forwarded-For", "192.0.2.1", 403}, {"POST", "127.0.0.1:1", "Via", "1.1 proxy", 403},
	} {
		if got := ask(one.method, one.from, one.name, one.value); got != one.want {
			t.Errorf("%+v: %d", one, got)
		}
	}
	if asked != 3 {
		t.Errorf("%d reloads, want 3", asked)
	}
	for from, want := range map[string]bool{"192.0.2.7:1": true, "[::ffff:192.0.2.7]:1": true, "192.0.2.8:1": false} { // of 192.0.2.7
		req := httptest.NewRequest("POST", "/reload", nil)
		req.RemoteAddr = from
		req = req.WithContext(context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 9090}))
		if got := fromThisMachine(req); got != want {
			t.Errorf("from %s at 192.0.2.7: %t", from, got)
		}
	}
}

// TestWhereToReload: an address that listens everywhere is asked on loopback, in its family.
func TestWhereToReload(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:9090": "http://127.0.0.1:9090/reload", "0.0.0.0:9090": "http://127.0.0.1:9090/reload", ":9090": "http://127.0.0.1:9090/reload",
		"[::]:9090": "http://[::1]:9090/reload", "192.0.2.7:9090": "http://192.0.2.7:9090/reload", "localhost:9090": "http://localhost:9090/reload",
		"off": "", "127.0.0.1:0": "", "127.0.0.1": "",
	} {
		if url, why := (&reloadVerb{AdminListen: listen}).url(); url != want || (why == "") != (want != "") {
			t.Errorf("%s: %q, %q", listen, url, why)
		}
	}
}

// TestReloadOfWhatIsMadeUp: what --dev made up at the start stays, and of a registry that the server
// carries what needs a restart is named.
func TestReloadOfWhatIsMadeUp(t *testing.T) {
	t.Parallel()
	const dev = "dev: true\nregistry-at: /registry\n"
	r := startReloading(t, "serve", dev, nil)
	for _, one := range []struct {
		text             string
		changed, restart []string
	}{
		{dev, nil, nil},
		{dev + "insecure-allow-loopback: true\n", nil, []string{"insecure-allow-loopback"}},
		{dev + "registry: {title: Other}\n", nil, []string{"registry"}},
		{dev + "pages: {name: Other}\n", []string{"pages"}, []string{"registry"}},
		{dev + "dev-resource: [http://127.0.0.1:8085/mcp]\n", []string{"dev-resource", "resources", "pages"}, []string{"registry"}},
	} {
		r.write(t, one.text)
		got := r.reload(t)
		if !got.Done || !slices.Equal(keysIn(got.Changed), one.changed) || !slices.Equal(keysIn(got.Restart), one.restart) {
			t.Errorf("%s: %+v", one.text, got)
		}
	}
}
