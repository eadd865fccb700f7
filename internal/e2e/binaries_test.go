// Package e2e runs the built commands as users do, and sends them requests as browsers and clients
// do. It has tests only.
package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// The one person of a server that runs with --dev; startAuthz sets the password.
const (
	personName     = "demo"
	personPassword = "correct horse battery staple"
)

// patience is the time for which a test waits for a process to start, to answer or to stop.
const patience = 30 * time.Second

// built is where the commands are; each is built once for all tests of the package.
var built struct {
	mu    sync.Mutex
	dir   string
	paths map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// build returns the path of a command of this project.
func build(t testing.TB, name string) string {
	t.Helper()
	return buildPackage(t, name, "gatehouse.example/cmd/"+name)
}

// buildPackage builds the command in a package and returns its path.
func buildPackage(t testing.TB, name, pkg string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if path, ok := built.paths[name]; ok {
		return path
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "gatehouse-e2e-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.paths = dir, map[string]string{}
	}
	path := filepath.Join(built.dir, name)
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	built.paths[name] = path
	return path
}

// process is a command that runs until the test ends.
type process struct {
	// URL is the scheme and authority that it listens on, without a trailing slash.
	URL string

	name   string
	cmd    *exec.Cmd
	stdout lockedBuffer
	stderr lockedBuffer
	exited chan struct{} // closed after Wait returned
	err    error         // what Wait returned; read it after exited
}

// startAuthz runs "authz serve --dev" on a free loopback port without an admin
// listener, and waits until it is healthy. Flags in args come last; a --listen among
// them replaces the free port. env holds further "NAME=value" pairs.
func startAuthz(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	env = append([]string{"AUTHZ_DEV_PASSWORD=" + personPassword, "AUTHZ_EGRESS_CHECK=off"}, env...)
	args, address := withListen(t, args)
	return start(t, build(t, "authz"), address, env, append([]string{"serve", "--dev", "--admin-listen", "off"}, args...))
}

// startDemo runs demo-resource on a free loopback port, or on the --listen in args, and
// waits until it answers.
func startDemo(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	args, address := withListen(t, args)
	return start(t, build(t, "demo-resource"), address, env, args)
}

// startGateway runs "authz gateway" on a free loopback port, or on the --listen in args, for
// the path /mcp of the upstream, and waits until it is healthy.
func startGateway(t testing.TB, issuer, upstream string, args ...string) *process {
	t.Helper()
	args, address := withListen(t, args)
	return start(t, build(t, "authz"), address, nil, append([]string{
		"gateway", "--resource", "http://" + address + "/mcp", "--upstream", upstream + "/mcp", "--issuer", issuer}, args...))
}

func start(t testing.TB, binary, address string, env, args []string) *process {
	t.Helper()
	p := &process{
		URL: "http://" + address, name: filepath.Base(binary),
		cmd: exec.Command(binary, args...), exited: make(chan struct{}),
	}
	p.cmd.Env = append(cleanEnvironment(), env...)
	p.run(t, func() { p.Stop(t) })
	p.waitHealthy(t)
	return p
}

// startForeign runs a server of another project until the test ends, and waits until it answers at
// its URL. Its exit status does not count.
func startForeign(t testing.TB, address string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{URL: address, name: filepath.Base(cmd.Path), cmd: cmd, exited: make(chan struct{})}
	p.run(t, func() {
		_ = cmd.Process.Kill()
		<-p.exited
	})
	p.waitHealthy(t)
	return p
}

// run starts the process and has it stopped when the test ends.
func (p *process) run(t testing.TB, stop func()) {
	t.Helper()
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s\nstdout:\n%s\nstderr:\n%s", strings.Join(p.cmd.Args, " "), p.Stdout(), p.Stderr())
		}
	})
}

// Stdout returns the standard output of the process so far, Stderr its standard error.
func (p *process) Stdout() string { return p.stdout.String() }
func (p *process) Stderr() string { return p.stderr.String() }

// Stop interrupts the process and expects exit status 0. It may be called again.
func (p *process) Stop(t testing.TB) {
	t.Helper()
	_ = p.cmd.Process.Signal(os.Interrupt) // it does not wait for balancers
	select {
	case <-p.exited:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.exited
		t.Errorf("%s did not stop within %s", p.name, patience)
		return
	}
	if p.err != nil {
		t.Errorf("%s: %v", p.name, p.err)
	}
}

// waitHealthy polls /healthz until authz answers 200, or another server answers with any status.
func (p *process) waitHealthy(t testing.TB) {
	t.Helper()
	client := &http.Client{Timeout: 2 * time.Second}
	deadline := time.Now().Add(patience)
	for {
		err := p.health(client)
		if err == nil {
			return
		}
		select {
		case <-p.exited:
			t.Fatalf("%s ended before it answered: %v", p.name, errors.Join(p.err, err))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: %v", p.name, err)
		}
	}
}

// until waits for a condition that other goroutines change.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// awaitOutput waits until the process has written a text, which may arrive after its answer.
func (p *process) awaitOutput(t testing.TB, text string) {
	t.Helper()
	until(t, fmt.Sprintf("%s writes %q", p.name, text), func() bool { return strings.Contains(p.Stdout()+p.Stderr(), text) })
}

func (p *process) health(client *http.Client) error {
	resp, err := client.Get(p.URL + "/healthz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if (p.name == "authz" && resp.StatusCode != http.StatusOK) || resp.StatusCode == http.StatusBadGateway {
		return fmt.Errorf("/healthz: %s", resp.Status)
	}
	return nil
}

// withListen adds a free --listen to args unless they name one, and returns it.
func withListen(t testing.TB, args []string) ([]string, string) {
	t.Helper()
	for i, arg := range args {
		if address, ok := strings.CutPrefix(arg, "--listen="); ok {
			return args, address
		}
		if arg == "--listen" && i+1 < len(args) {
			return args, args[i+1]
		}
	}
	address := redistest.FreeAddress(t)
	return append([]string{"--listen", address}, args...), address
}

// cleanEnvironment returns the environment of the test without the variables that configure the
// commands.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "AUTHZ_") || strings.HasPrefix(pair, "DEMO_")
	})
}

// lockedBuffer is a buffer that a process may write while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
