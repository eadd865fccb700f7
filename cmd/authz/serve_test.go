package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"gatehouse.example/storage"
)

// lockedBuffer is a buffer that a server writes while a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// running is a server in this process.
type running struct {
	stdout, stderr lockedBuffer
	stop           context.CancelFunc
	status         chan int
}

// noLookout keeps tests from looking for the public web, unless they set something else.
const noLookout = "AUTHZ_EGRESS_CHECK=off"

// start runs "authz serve" with args and environ and waits until it is ready.
func start(t *testing.T, environ []string, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, status: make(chan int, 1)}
	environ = append([]string{noLookout}, environ...)
	go func() {
		r.status <- run(ctx, append([]string{"serve"}, args...), environ, strings.NewReader(""), &r.stdout, &r.stderr)
	}()
	t.Cleanup(stop)
	eventually(t, "the server is ready", func() bool {
		select {
		case status := <-r.status:
			t.Fatalf("exit status %d before it was ready:\n%s", status, r.stderr.String())
		default:
		}
		// The lines come one by one; the last one is the resource.
		return strings.Contains(r.stdout.String(), "connect to")
	})
	return r
}

// shown returns what the server printed behind a label.
func (r *running) shown(label string) string {
	for line := range strings.Lines(r.stdout.String()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), label+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ended stops the server and returns its exit status.
func (r *running) ended(t *testing.T) int {
	t.Helper()
	r.stop()
	select {
	case status := <-r.status:
		return status
	case <-time.After(deadline):
		t.Fatal("the server does not end")
		return 0
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("still not so after %s: %s", deadline, what)
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestDevNeedsNothing(t *testing.T) {
	r := start(t, nil, "--dev", "--listen", "127.0.0.1:0")
	issuer := r.shown("issuer")
	if !strings.HasPrefix(issuer, "http://127.0.0.1:") || strings.HasSuffix(issuer, ":0") || strings.HasSuffix(issuer, ":8080") {
		t.Errorf("issuer %q does not follow the listener", issuer)
	}
	if r.shown("connect to") != "http://127.0.0.1:8081/mcp" {
		t.Errorf("connect to %q", r.shown("connect to"))
	}
	if got := r.shown("sign in"); !strings.HasPrefix(got, "demo / ") || len(got) < len("demo / ")+24 {
		t.Errorf("sign in %q: no random password", got)
	}
	if got := r.shown("introspect"); !strings.Contains(got, "secret: ") {
		t.Errorf("introspect %q: no random secret", got)
	}
	if strings.Contains(r.stdout.String(), "admin on") {
		t.Error("the admin listener is on without being asked for")
	}
	if status, _ := get(t, http.DefaultClient, issuer+"/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	status, body := get(t, http.DefaultClient, issuer+"/.well-known/oauth-authorization-server")
	var document struct {
		Issuer       string   `json:"issuer"`
		Registration string   `json:"registration_endpoint"`
		Scopes       []string `json:"scopes_supported"`
	}
	if err := json.Unmarshal([]byte(body), &document); err != nil || status != 200 {
		t.Fatalf("metadata: %d %v %s", status, err, body)
	}
	if document.Issuer != issuer || document.Registration != issuer+"/register" || !slices.Contains(document.Scopes, "notes:read") {
		t.Errorf("metadata: %+v", document)
	}
	if status := r.ended(t); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// Each relaxation is one line of the block after "ready", what the store cannot promise and what
// an operator chose is in the log, and nothing is warned about that is not so.
func TestB8RelaxedIsOneBlock(t *testing.T) {
	const (
		lost     = "lost at exit"
		key      = "the master key is made up"
		register = "anybody who reaches this server may register clients"
		often    = "clients may register as often as they like"
		resource = "tokens are for a demo resource"
		person   = "there is a person demo"
		shared   = "resources introspect with their URI and one shared secret"
		plain    = "http does not encrypt passwords and tokens"
		ajar     = "any client still gets in with a metadata document"
		network  = "is open to other machines"
		here     = "clients may have documents, keys and logos fetched from this machine"
		ports    = "cookies are shared between the ports of a host"
		keeps    = "the store does not report how it keeps records" // the test's Redis knows no settings
	)
	all := []string{ports, lost, key, register, often, resource, person, shared, plain, network, keeps, here, ajar}
	redis := miniredis.RunT(t)
	tests := []struct {
		name    string
		environ []string
		args    []string
		want    []string
	}{
		{"alone", nil, nil, []string{ports, lost, key, register, often, resource, person, shared, plain}},
		{"own key", []string{"AUTHZ_MASTER_KEYS=" + testKey(1)}, nil, []string{ports, lost, register, often, resource, person, shared, plain}},
		{"own store", []string{"AUTHZ_MASTER_KEYS=" + testKey(1)}, []string{"--store", "redis://" + redis.Addr()}, []string{ports, keeps, register, often, resource, person, shared, plain}},
		{"closed", nil, []string{"--registration", "closed"}, []string{ports, lost, key, resource, person, shared, plain, ajar}},
		{"open by choice", nil, []string{"--registration", "open"}, []string{ports, lost, key, often, resource, person, shared, plain}},
		{"a bound by choice", nil, []string{"--registration-quota", "600"}, []string{ports, lost, key, register, resource, person, shared, plain}},
		{"fetches from here", nil, []string{"--insecure-allow-loopback"}, []string{ports, lost, key, register, often, here, resource, person, shared, plain}},
		{"every interface", nil, []string{"--listen", "0.0.0.0:0"}, all[:len(all)-3]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, tt.environ, append([]string{"--dev", "--listen", "127.0.0.1:0"}, tt.args...)...)
			for _, sentence := range all {
				want := 0
				if slices.Contains(tt.want, sentence) {
					want = 1
				}
				if got := strings.Count(r.stdout.String()+r.stderr.String(), sentence); got != want {
					t.Errorf("%q is printed %d times, want %d", sentence, got, want)
				}
			}
			logged := strings.Count(r.stderr.String(), "level=WARN")
			if got := logged + strings.Count(r.stdout.String(), "\n  - "); got != len(tt.want) || strings.Contains(r.stderr.String(), lost) {
				t.Errorf("%d warnings, want %d:\n%s%s", got, len(tt.want), r.stdout.String(), r.stderr.String())
			}
			if ready, block, _ := strings.Cut(r.stdout.String(), "Relaxed by --dev"); !strings.Contains(ready, "connect to") || strings.Contains(block, "connect to") || strings.Contains(ready, "\n  - ") {
				t.Errorf("the block is not after what people need:\n%s", r.stdout.String())
			}
		})
	}
}

func TestDevSecretsOfTheOperatorAreNotPrinted(t *testing.T) {
	r := start(t, []string{"AUTHZ_DEV_PASSWORD=horse-battery", "AUTHZ_DEV_INTROSPECTION_SECRET=staple-staple-staple", "AUTHZ_MASTER_KEYS=" + testKey(1)},
		"--dev", "--listen", "127.0.0.1:0")
	out := r.stdout.String() + r.stderr.String()
	for _, hidden := range []string{"horse", "staple", testKey(1)} {
		if strings.Contains(out, hidden) {
			t.Errorf("%q is printed:\n%s", hidden, out)
		}
	}
	if got := r.shown("sign in"); got != "demo, with the password in AUTHZ_DEV_PASSWORD" {
		t.Errorf("sign in %q", got)
	}
	introspect(t, r.shown("issuer"), "http://127.0.0.1:8081/mcp", "staple-staple-staple", http.StatusOK)
	introspect(t, r.shown("issuer"), "http://127.0.0.1:8081/mcp", "wrong", http.StatusUnauthorized)
	introspect(t, r.shown("issuer"), "demo", "staple-staple-staple", http.StatusUnauthorized)
}

// introspect asks about a token that is none, as a resource server.
func introspect(t *testing.T, issuer, id, secret string, want int) {
	t.Helper()
	req, err := http.NewRequest("POST", issuer+"/introspect", strings.NewReader("token=none"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// RFC 6749 section 2.3.1: both are form-encoded before they become credentials.
	escape := strings.NewReplacer(":", "%3A", "/", "%2F")
	req.SetBasicAuth(escape.Replace(id), escape.Replace(secret))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		t.Errorf("/introspect as %s: %s, want %d", id, resp.Status, want)
	}
}

func testKey(first byte) string {
	key := sha256.Sum256([]byte{first})
	return base64.StdEncoding.EncodeToString(key[:])
}

// Several processes with one store, one issuer and the same keys are one server.
func TestProcessesShareAStore(t *testing.T) {
	redis := miniredis.RunT(t)
	environ := []string{"AUTHZ_STORE=redis://" + redis.Addr(), "AUTHZ_MASTER_KEYS=" + testKey(1), "AUTHZ_ISSUER=http://127.0.0.1:8080"}
	args := []string{"--dev", "--listen", "127.0.0.1:0"}
	first, second := start(t, environ, args...), start(t, environ, args...)
	third := start(t, append(environ, "AUTHZ_DEV_PASSWORD=horse-battery"), args...)

	if got := first.shown("sign in"); !strings.HasPrefix(got, "demo / ") {
		t.Errorf("the first says %q", got)
	}
	if got := second.shown("sign in"); !strings.Contains(got, "the password from an earlier start") {
		t.Errorf("the second says %q", got)
	}
	if got := third.shown("sign in"); got != "demo, with the password in AUTHZ_DEV_PASSWORD" {
		t.Errorf("the third says %q", got)
	}
	var sets []string
	for _, r := range []*running{first, second, third} {
		if r.shown("issuer") != "http://127.0.0.1:8080" {
			t.Errorf("issuer %q", r.shown("issuer"))
		}
		_, set := get(t, http.DefaultClient, "http://"+r.shown("listening on")+"/jwks.json")
		sets = append(sets, set)
	}
	if sets[0] != sets[1] || sets[1] != sets[2] || !strings.Contains(sets[0], `"kty"`) {
		t.Errorf("they publish different keys: %q", sets)
	}

	var out, complaints bytes.Buffer
	status := run(t.Context(), []string{"user", "ls"}, append(environ, "AUTHZ_ISSUER=http://127.0.0.1:8080"), strings.NewReader(""), &out, &complaints)
	if status != 0 || strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), "demo") {
		t.Errorf("user ls: %d %s %s", status, out.String(), complaints.String())
	}
}

func TestOtherKeysCannotOpenTheStore(t *testing.T) {
	redis := miniredis.RunT(t)
	environ := []string{"AUTHZ_STORE=redis://" + redis.Addr(), "AUTHZ_ISSUER=http://127.0.0.1:8080"}
	start(t, append(environ, "AUTHZ_MASTER_KEYS="+testKey(1)), "--dev", "--listen", "127.0.0.1:0")
	start(t, append(environ, "AUTHZ_MASTER_KEYS="+testKey(2)+","+testKey(1)), "--dev", "--listen", "127.0.0.1:0")
	for name, other := range map[string][]string{
		"another master key": append(environ, "AUTHZ_MASTER_KEYS="+testKey(3)),
		"another issuer":     {environ[0], "AUTHZ_ISSUER=http://127.0.0.1:8088", "AUTHZ_MASTER_KEYS=" + testKey(1)},
	} {
		var out, complaints bytes.Buffer
		status := run(t.Context(), []string{"serve", "--dev", "--listen", "127.0.0.1:0"}, other, nil, &out, &complaints)
		if status != 1 || !strings.Contains(complaints.String(), "give the master keys and the issuer that the store was used with") {
			t.Errorf("%s: exit status %d:\n%s", name, status, complaints.String())
		}
	}
}

// Without --dev the whole of a file is served, over TLS, and no secret is printed.
func TestServeFromFile(t *testing.T) {
	dir := t.TempDir()
	pool := writeCertificate(t, dir)
	redis := miniredis.RunT(t)
	write(t, dir, "notes", "hunter22hunter22\n")
	write(t, dir, "gatehouse.yaml", `
issuer: https://auth.example.com
listen: 127.0.0.1:0
admin-listen: 127.0.0.1:0
store: redis://`+redis.Addr()+`
master-keys: `+testKey(1)+`
registration: closed
tls_cert: `+filepath.Join(dir, "cert.pem")+`
tls_key: `+filepath.Join(dir, "key.pem")+`
log-format: json
resources:
  - uri: https://notes.example.com/mcp
    name: Notes
    introspection:
      client_id: notes
      client_secret_file: `+filepath.Join(dir, "notes")+`
    scopes:
      notes:read: Read your notes
`)
	r := start(t, nil, "--config", filepath.Join(dir, "gatehouse.yaml"))
	out := r.stdout.String() + r.stderr.String()
	if strings.Contains(out, "sign in") || strings.Contains(out, "introspect") || strings.Contains(out, "hunter") || strings.Contains(out, testKey(1)) {
		t.Errorf("a secret is printed:\n%s", out)
	}

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}}}
	defer client.CloseIdleConnections()
	status, body := get(t, client, "https://"+r.shown("listening on")+"/.well-known/oauth-authorization-server")
	if status != 200 || !strings.Contains(body, `"issuer":"https://auth.example.com"`) || strings.Contains(body, "registration_endpoint") {
		t.Errorf("metadata: %d %s", status, body)
	}
	old := &tls.Config{RootCAs: pool, ServerName: "localhost", MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	if c, err := tls.Dial("tcp", r.shown("listening on"), old); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 is accepted")
	}

	admin := "http://" + r.shown("admin on")
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/": 404, "/metadata": 404} {
		if status, body := get(t, http.DefaultClient, admin+path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	redis.SetError("LOADING the store is gone")
	if status, body := get(t, http.DefaultClient, admin+"/readyz"); status != 503 || body != "the store does not answer\n" {
		t.Errorf("/readyz without a store: %d %q", status, body)
	}
	if status, _ := get(t, http.DefaultClient, admin+"/livez"); status != 200 {
		t.Errorf("/livez without a store: %d", status)
	}
	redis.SetError("")
	if status, _ := get(t, http.DefaultClient, admin+"/readyz"); status != 200 {
		t.Errorf("/readyz with the store back: %d", status)
	}
	if status := r.ended(t); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if line, _, _ := strings.Cut(r.stderr.String(), "\n"); !json.Valid([]byte(line)) {
		t.Errorf("log-format json writes %q", line)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeCertificate writes a key pair for localhost and returns who trusts it.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return pool
}

// held is a server with a request in flight.
type held struct {
	*site
	stop    context.CancelFunc
	release chan struct{} // lets the request finish
	answer  chan error    // what the client got
	done    chan error    // what serve returned
}

func hold(t *testing.T, grace time.Duration) *held {
	t.Helper()
	st, err := newSite(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "", "")
	if err != nil {
		t.Fatal(err)
	}
	st.log, st.grace = slog.New(slog.DiscardHandler), grace
	ctx, stop := context.WithCancel(t.Context())
	h := &held{st, stop, make(chan struct{}), make(chan error, 1), make(chan error, 1)}
	arrived := make(chan struct{})
	public := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-h.release
		_, _ = io.WriteString(w, "finished")
	})
	go func() {
		h.done <- st.serve(ctx, public, st.probes(func(context.Context) error { return nil }, tight(func() storage.Room { return storage.RoomEnough })))
	}()
	go func() {
		resp, err := http.Get("http://" + st.public.Addr().String())
		if err == nil {
			var body []byte
			body, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err == nil && string(body) != "finished" {
				err = errors.New("half an answer")
			}
		}
		h.answer <- err
	}()
	select {
	case <-arrived:
	case <-time.After(deadline):
		t.Fatal("the request does not arrive")
	}
	return h
}

// At the end readiness turns off, nobody new is let in, and who is in may finish.
func TestDrain(t *testing.T) {
	h := hold(t, deadline)
	admin := "http://" + h.admin.Addr().String()
	if status, _ := get(t, http.DefaultClient, admin+"/readyz"); status != 200 {
		t.Errorf("/readyz before: %d", status)
	}
	h.stop()
	eventually(t, "/readyz says that the server is stopping", func() bool {
		status, body := get(t, http.DefaultClient, admin+"/readyz")
		return status == 503 && body == "the server is stopping\n"
	})
	if status, _ := get(t, http.DefaultClient, admin+"/livez"); status != 200 {
		t.Errorf("/livez while stopping: %d", status)
	}
	eventually(t, "nobody new is let in", func() bool {
		c, err := net.Dial("tcp", h.public.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	select {
	case err := <-h.done:
		t.Fatalf("the server left a request behind: %v", err)
	default:
	}
	close(h.release)
	if err := <-h.answer; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	if err := <-h.done; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestDrainDoesNotWaitForever(t *testing.T) {
	h := hold(t, 20*time.Millisecond)
	h.stop()
	select {
	case err := <-h.done:
		if err != nil {
			t.Errorf("serve: %v", err)
		}
	case <-time.After(deadline):
		t.Fatal("the server waits for a request that never ends")
	}
	if err := <-h.answer; err == nil {
		t.Error("the request was not cut off")
	}
	close(h.release)
}

// The binary ends with status 0 on both signals.
func TestSignals(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			var stdout, stderr lockedBuffer
			cmd := exec.Command("authz", "serve", "--dev", "--listen", "127.0.0.1:0", "--drain", "0s")
			cmd.Stdout, cmd.Stderr, cmd.Env = &stdout, &stderr, append(os.Environ(), noLookout)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			eventually(t, "the server is ready", func() bool { return strings.Contains(stdout.String(), "connect to") })
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("%v\n%s", err, stderr.String())
				}
			case <-time.After(deadline):
				t.Error("it does not end")
			}
		})
	}
}

// A client that shouts is cut off.
func TestLimits(t *testing.T) {
	r := start(t, nil, "--dev", "--listen", "127.0.0.1:0")
	status, _ := get(t, http.DefaultClient, r.shown("issuer")+"/healthz?"+strings.Repeat("a", 64<<10))
	if status != http.StatusRequestHeaderFieldsTooLarge && status != http.StatusRequestURITooLong {
		t.Errorf("64 KiB of URL: %d", status)
	}
}
