package acmetest

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// built is the program, built once.
var built struct {
	sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	if settings := os.Getenv(workerVariable); settings != "" {
		fmt.Fprintln(os.Stderr, work(settings))
		os.Exit(1)
	}
	code := m.Run()
	if built.path != "" {
		_ = os.RemoveAll(filepath.Dir(built.path))
	}
	os.Exit(code)
}

// program returns the path of the program.
func program(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		var dir string
		if dir, built.err = os.MkdirTemp("", "gatehouse-acme-"); built.err != nil {
			return
		}
		built.path = filepath.Join(dir, "authz")
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", built.path, "./cmd/authz")
		build.Dir = "../../.."
		if text, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, text)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// running is a program that announced itself.
type running struct {
	*testing.T
	shown  map[string]string // by label
	stderr *lines
	end    func(syscall.Signal) int // sends a signal, and returns the exit status
	stop   func()
}

// starts bounds how often a program is started whose store did not answer in time, because the machine
// was busy: a supervisor would start it again too.
const starts = 5

// start runs the program until the test ends.
func start(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	for i := 1; ; i++ {
		r, announced := launch(t, env, args...)
		if announced {
			return r
		}
		if i == starts || !strings.Contains(r.stderr.String(), "storage: unavailable") {
			t.Fatalf("%v ended: %s", args, r.stderr)
		}
	}
}

// launch runs the program, and reports whether it announced itself before it ended.
func launch(t *testing.T, env []string, args ...string) (r *running, announced bool) {
	t.Helper()
	ctx, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program(t), args...)
	r = &running{T: t, shown: map[string]string{}, stderr: &lines{}}
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), r.stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.read(stdout, ready)
		_ = cmd.Wait()
	}()
	r.end = func(signal syscall.Signal) int {
		_ = cmd.Process.Signal(signal)
		<-ended
		return cmd.ProcessState.ExitCode()
	}
	r.stop = sync.OnceFunc(func() {
		r.end(syscall.SIGINT)
		kill()
	})
	t.Cleanup(r.stop)
	select {
	case <-ready:
		return r, true
	case <-ended:
		return r, false
	}
}

// read reads what the program shows, up to the line that is the last of those that tests need.
func (r *running) read(stdout io.Reader, ready chan<- struct{}) {
	scan := bufio.NewScanner(stdout)
	told := false
	for scan.Scan() {
		label, value, ok := strings.Cut(strings.TrimSpace(scan.Text()), "  ")
		if ok && !told {
			r.shown[label] = strings.TrimSpace(value)
		}
		if strings.HasPrefix(strings.TrimSpace(scan.Text()), "connect to") && !told {
			told = true
			close(ready)
		}
	}
}

// readiness returns what /readyz says.
func (r *running) readiness() string { return r.get("http://" + r.shown["admin on"] + "/readyz") }

func (r *running) metrics() string { return r.get("http://" + r.shown["admin on"] + "/metrics") }

func (r *running) get(url string) string {
	r.Helper()
	resp, err := http.Get(url)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(text)))
}

// number returns the serial number of the certificate of a server, empty if it has none.
func (r *running) number() string {
	cert, err := shake(r.shown["listening on"], name)
	if err != nil {
		return ""
	}
	return cert.SerialNumber.String()
}

// missing is a line of the metrics of a server without a certificate.
const missing = "\ngatehouse_certificate_expiry_timestamp_seconds 0\n"

// Two servers over one Redis: one orders, and the other answers the challenge, because the authority
// comes to it; both present the certificate. Nothing in the store and in the logs can be used.
func TestTwoServersOneOrder(t *testing.T) {
	a := newAuthority(t, 90*24*time.Hour)
	store := redistest.Start(t, redistest.Config{})
	ordering, proceed := a.hold(newOrder)
	t.Cleanup(proceed)
	first := a.serve(t, store.URL())
	<-ordering
	if got := first.readiness(); got != "200 ok, but there is no certificate yet for "+name {
		t.Errorf("while it orders, /readyz says %s", got)
	}
	if !strings.Contains(first.metrics(), missing) {
		t.Error("the metrics do not tell that the certificate is missing")
	}
	second := a.serve(t, store.URL())
	a.https.leads.Store(second.shown["listening on"])
	proceed()
	until(t, "both present a certificate", func() bool { return first.number() != "" && second.number() != "" })
	if first.number() != second.number() || a.orders.Load() != 1 || a.accounts.Load() != 1 {
		t.Errorf("%d orders by %d accounts; certificates %s and %s", a.orders.Load(), a.accounts.Load(), first.number(), second.number())
	}
	if _, err := shake(first.shown["listening on"], "other.example.com"); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("another name: %v", err)
	}
	if text := first.metrics(); !strings.Contains(text, "\ngatehouse_certificate_loads_total 1\n") || strings.Contains(text, missing) {
		t.Errorf("the metrics do not have the certificate: %s", text)
	}
	if got := first.readiness(); got != "200 ok" {
		t.Errorf("afterwards, /readyz says %s", got)
	}
	wantSealed(t, store, first.stderr.String()+second.stderr.String())
}

// wantSealed looks for parts of keys in all records of a store and in the logs.
func wantSealed(t *testing.T, store *redistest.Server, logs string) {
	t.Helper()
	keys, err := store.Client().Keys(t.Context(), "gatehouse:acme:*").Result()
	if err != nil || len(keys) < 2 {
		t.Fatalf("records %v, %v", keys, err)
	}
	for _, key := range keys {
		raw, err := store.Client().Do(t.Context(), "DUMP", key).Text()
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"PRIVATE", base64.RawStdEncoding.EncodeToString([]byte("-----BEGIN")), "files", "holder", name + ".key"} {
			if strings.Contains(raw, part) {
				t.Errorf("%s: %q can be read", key, part)
			}
		}
	}
	if strings.Contains(logs, "PRIVATE") || strings.Contains(logs, "BEGIN ") {
		t.Error("there is a key in a log")
	}
}

// config writes a file with a resource.
func config(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gatehouse.yaml")
	if err := os.WriteFile(path, []byte("resources:\n  - uri: https://notes.example.com/mcp\n    scopes:\n      notes:read: Read your notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A gateway gets its certificate by HTTP-01, on a listener that has nothing else. It starts although
// the authority is down. After a restart there is the same certificate, and no order.
func TestGatewayByHTTP(t *testing.T) {
	a := newAuthority(t, 90*24*time.Hour)
	folder := filepath.Join(t.TempDir(), "acme")
	guard := func() *running {
		r := a.gateway(t, folder, "--no-acme-tls-alpn", "--acme-http-listen", "127.0.0.1:0")
		a.http.leads.Store(r.shown["HTTP-01 on"])
		return r
	}
	a.closed.Store(true)
	early := guard()
	if _, err := shake(early.shown["listening on"], name); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("without a certificate, a handshake ends with %v", err)
	}
	early.stop()
	a.closed.Store(false)
	first := guard()
	until(t, "there is a certificate", func() bool { return first.number() != "" })
	number := first.number()
	for _, path := range []string{"/", "/mcp", "/.well-known/acme-challenge/", "/.well-known/acme-challenge/token"} {
		if got := first.get("http://" + first.shown["HTTP-01 on"] + path); !strings.HasPrefix(got, "404 ") {
			t.Errorf("the listener for HTTP-01 answers %s with %s", path, got)
		}
	}
	first.stop()
	second := guard()
	until(t, "there is a certificate after a restart", func() bool { return second.number() != "" })
	if second.number() != number || a.orders.Load() != 1 || a.accounts.Load() != 1 {
		t.Errorf("%d orders by %d accounts; certificate %s, before %s", a.orders.Load(), a.accounts.Load(), second.number(), number)
	}
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may read %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
