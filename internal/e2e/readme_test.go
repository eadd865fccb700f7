//go:build e2e

package e2e

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/storage/redis/redistest"
)

// deployment is an operator who does what the README says, in a home folder of their own.
type deployment struct {
	t       *testing.T
	home    string
	env     []string
	listen  string
	issuer  string // at a proxy that ends TLS
	notes   string // the protected server, at such a proxy too
	web     *http.Client
	id      string // of a client that registered
	refresh string // its newest refresh token
	access  string // its newest access token
}

// TestReadmeDeployment: the README's files and commands, as they are written except for addresses
// and the name of the person, give a server that keeps its state in a file of its user alone. The
// person signs in, a client calls a tool, and after a stop and after a kill the client refreshes and
// calls again.
func TestReadmeDeployment(t *testing.T) {
	t.Parallel()
	section := readmeSection(t, "Run it for real")
	files, commands := blocks(section, "yaml"), blocks(section, "")
	if len(files) != 1 || len(commands) != 1 {
		t.Fatalf("the README has %d files and %d blocks of commands, want one of each", len(files), len(commands))
	}
	d := newDeployment(t)
	d.configure(files[0])
	lines := strings.Split(strings.TrimSpace(commands[0]), "\n")
	begins := []string{"export AUTHZ_MASTER_KEYS=", "authz check-config ", "authz serve ", "authz user add NAME "}
	if len(lines) != len(begins) || !slices.EqualFunc(lines, begins, strings.HasPrefix) {
		t.Fatalf("the README has the commands %q, want those that begin with %q", lines, begins)
	}

	key := d.run(lines[0]+"\nprintenv AUTHZ_MASTER_KEYS", "")
	d.env = append(d.env, "AUTHZ_MASTER_KEYS="+strings.TrimSpace(key))
	d.run(lines[1], "")
	server := d.serve(lines[2])
	d.run(strings.Replace(lines[3], "NAME", personName, 1), personPassword+"\n")
	d.checkState(server)

	d.connect()
	d.callTool()
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := server.cmd.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		<-server.exited
		if (server.err == nil) != (end == syscall.SIGTERM) {
			t.Errorf("after %v the server ended with %v", end, server.err)
		}
		server = d.serve(lines[2])
		d.renew()
		d.callTool()
	}
}

// readmeSection returns the README from a heading to the next.
func readmeSection(t *testing.T, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(read(t, "../../README.md"), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("the README has no section %q", heading)
	}
	section, _, _ := strings.Cut(after, "\n## ")
	return section
}

// blocks returns the fenced blocks of a language in a section of a page.
func blocks(section, language string) (found []string) {
	for i, part := range strings.Split("\n"+section, "\n```") {
		if named, text, _ := strings.Cut(part, "\n"); i%2 == 1 && named == language {
			found = append(found, text)
		}
	}
	return found
}

// newDeployment makes a home folder with the built command in its path, and puts proxies that end
// TLS in front of the addresses of the server and of a protected server.
func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{t: t, home: t.TempDir(), listen: redistest.FreeAddress(t)}
	front := endTLS(t, d.listen)
	resource := redistest.FreeAddress(t)
	behind := endTLS(t, resource)
	d.issuer, d.notes, d.web = front.URL, behind.URL+"/mcp", front.Client()

	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	d.write("roots.pem", roots, 0o644)
	binary, err := os.ReadFile(build(t, "authz"))
	if err != nil {
		t.Fatal(err)
	}
	d.write("authz", binary, 0o755)
	d.env = []string{
		"PATH=" + d.home + ":" + os.Getenv("PATH"), "HOME=" + d.home, "XDG_STATE_HOME=" + d.home + "/state",
		"SSL_CERT_FILE=" + d.home + "/roots.pem", "AUTHZ_ADMIN_LISTEN=" + redistest.FreeAddress(t), "AUTHZ_EGRESS_CHECK=off",
	}
	if os.Geteuid() == 0 { // the default of root is a folder of the machine
		for _, path := range []string{filepath.Dir(d.home), d.home} {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(d.home, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	start(t, build(t, "demo-resource"), resource, d.env, []string{"--listen", resource, "--resource", d.notes, "--issuer", d.issuer})
	return d
}

// nobody is the id of a user and a group that own nothing.
const nobody = 65534

// endTLS is a proxy that ends TLS in front of an address.
func endTLS(t *testing.T, address string) *httptest.Server {
	t.Helper()
	proxy := httptest.NewTLSServer(forward(t, "http://"+address, func(r *httputil.ProxyRequest) {
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}))
	t.Cleanup(proxy.Close)
	return proxy
}

func (d *deployment) write(name string, text []byte, mode os.FileMode) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.home, name), text, mode); err != nil {
		d.t.Fatal(err)
	}
}

// configure writes the README's file with the addresses of the test.
func (d *deployment) configure(text string) {
	d.t.Helper()
	for written, here := range map[string]string{"https://auth.example.com": d.issuer, "listen: 127.0.0.1:8080": "listen: " + d.listen, "https://notes.example.com/mcp": d.notes} {
		if !strings.Contains(text, written) {
			d.t.Fatalf("the README's file does not have %q", written)
		}
		text = strings.ReplaceAll(text, written, here)
	}
	d.write("gatehouse.yaml", []byte(text), 0o644)
}

// shell returns a shell that runs lines in the home folder, as a user who is not root.
func (d *deployment) shell(lines string) *exec.Cmd {
	cmd := exec.Command("sh", "-euc", lines)
	cmd.Dir, cmd.Env = d.home, d.env
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// run runs a command to its end and returns its output.
func (d *deployment) run(lines, input string) string {
	d.t.Helper()
	var problems strings.Builder
	cmd := d.shell(lines)
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), &problems
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s%s", lines, err, out, &problems)
	}
	return string(out)
}

// serve runs the command of a server until the test ends it, and waits until it is healthy.
func (d *deployment) serve(line string) *process {
	d.t.Helper()
	p := &process{URL: "http://" + d.listen, name: "authz", cmd: d.shell("exec " + line), exited: make(chan struct{})}
	p.run(d.t, func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
	p.waitHealthy(d.t)
	return p
}

// checkState expects the state in a file that belongs to its user alone, of which the start says
// where it is.
func (d *deployment) checkState(server *process) {
	d.t.Helper()
	folder := filepath.Join(d.home, "state", "gatehouse")
	for path, want := range map[string]os.FileMode{folder: 0o700 | os.ModeDir, filepath.Join(folder, "gatehouse.db"): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			d.t.Error(err)
		} else if info.Mode() != want {
			d.t.Errorf("%s has the permissions %v, want %v", path, info.Mode(), want)
		}
	}
	server.awaitOutput(d.t, filepath.Join(folder, "gatehouse.db"))
}

// connect registers a client, has the person sign in and allow it, and redeems the code.
func (d *deployment) connect() {
	d.t.Helper()
	const redirect = "http://127.0.0.1:4711/callback"
	body := `{"redirect_uris":["` + redirect + `"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`
	resp, err := d.web.Post(d.issuer+"/register", "application/json", strings.NewReader(body))
	var registered struct {
		ClientID string `json:"client_id"`
	}
	decodeInto(d.t, resp, err, http.StatusCreated, &registered)
	d.id = registered.ClientID

	browser := newBrowser(d.t)
	browser.Transport = d.web.Transport
	address := client{issuer: d.issuer, id: d.id, redirect: redirect}.authorizeURL("state")
	arrival := allow(d.t, browser, strings.Replace(address, url.QueryEscape(devResource), url.QueryEscape(d.notes), 1)).Query()
	check(d.t, arrival, "iss", d.issuer)
	d.token(url.Values{"grant_type": {"authorization_code"}, "code": {arrival.Get("code")}, "redirect_uri": {redirect}, "code_verifier": {verifier}})
}

// renew refreshes.
func (d *deployment) renew() {
	d.t.Helper()
	d.token(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {d.refresh}})
}

func (d *deployment) token(form url.Values) {
	d.t.Helper()
	form.Set("client_id", d.id)
	resp, err := d.web.PostForm(d.issuer+"/token", form)
	var answer struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	decodeInto(d.t, resp, err, http.StatusOK, &answer)
	if answer.Access == "" || answer.Refresh == "" || answer.Access == d.access {
		d.t.Fatalf("%s: no new tokens", form.Get("grant_type"))
	}
	d.access, d.refresh = answer.Access, answer.Refresh
}

// callTool calls a tool of the protected server that needs a scope.
func (d *deployment) callTool() {
	d.t.Helper()
	session := connectOver(d.t, bearing{d.access, d.web.Transport}, &process{URL: strings.TrimSuffix(d.notes, "/mcp")}, nil, "", nil)
	result, err := session.CallTool(d.t.Context(), &mcp.CallToolParams{Name: "add_note", Arguments: map[string]any{"text": time.Now().String()}})
	if err != nil || result.IsError {
		d.t.Fatalf("add_note: %+v, %v", result, err)
	}
}

// bearing adds an access token to requests.
type bearing struct {
	token string
	over  http.RoundTripper
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.over.RoundTrip(r)
}
