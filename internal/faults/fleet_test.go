//go:build e2e

package faults

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

const (
	// The one person of a server that runs with --dev.
	personName     = "demo"
	personPassword = "correct horse battery staple"
	// resource is the resource of tokens; it introspects them with introspectionSecret.
	resource            = "http://127.0.0.1:8081/mcp"
	introspectionSecret = "introspection secret of the tests"
)

// masterKey returns the n-th of the master keys of the tests, in the form of --master-keys.
func masterKey(n byte) string {
	key := [32]byte{31: n}
	return base64.StdEncoding.EncodeToString(key[:])
}

// fleetConfig is what the processes of a fleet share. Flags of a single process override it.
type fleetConfig struct {
	// Store is the URL of the store. Required.
	Store string
	// MasterKeys are given as --master-keys; empty means masterKey(1).
	MasterKeys string
}

// fleet is any number of authz processes that are one server: one issuer, one store, the same
// master keys.
type fleet struct {
	t      testing.TB
	issuer string
	config fleetConfig
}

// newFleet returns a fleet without processes. Its issuer is a loopback address without a
// listener: requests are sent to the process that the test chooses, as by a load balancer.
func newFleet(t testing.TB, c fleetConfig) *fleet {
	t.Helper()
	if c.MasterKeys == "" {
		c.MasterKeys = masterKey(1)
	}
	return &fleet{t: t, config: c, issuer: "http://" + redistest.FreeAddress(t)}
}

// process is one authz process of a fleet. It keeps its address and its pool of connections
// across restarts.
type process struct {
	fleet   *fleet
	address string
	client  *http.Client
	output  tail

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
	err    error         // why it ended; read it after exited
}

// connections bounds the connections to one process.
const connections = 100

// answerTime bounds a request of the driver. The server promises two seconds.
const answerTime = 15 * time.Second

// start adds a process and waits until it is healthy. Flags override what the fleet shares: a
// process may have its own --store, for example one that leads through a proxy.
func (f *fleet) start(flags ...string) *process {
	f.t.Helper()
	p := &process{fleet: f, address: redistest.FreeAddress(f.t)}
	transport := &http.Transport{
		MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, p.address)
		},
	}
	p.client = &http.Client{Transport: transport, Timeout: answerTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	f.t.Cleanup(func() {
		p.kill()
		p.client.CloseIdleConnections()
		if f.t.Failed() {
			f.t.Logf("authz at %s, the end of its output:\n%s", p.address, p.output.String())
		}
	})
	p.start(f.t, flags...)
	return p
}

// start runs the process again, at the same address. It must not be running.
func (p *process) start(t testing.TB, flags ...string) {
	t.Helper()
	p.launch(t, flags)
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	eventually(t, patience, func() error { return p.health(t, client) })
}

// launch runs the command without waiting until it answers.
func (p *process) launch(t testing.TB, flags []string) {
	t.Helper()
	cmd := exec.Command(authzBinary, append([]string{"serve", "--dev", "--listen", p.address}, flags...)...)
	cmd.Env = p.fleet.environment()
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	endWithParent(cmd)
	exited := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd, p.exited = cmd, exited
	go func() {
		p.err = cmd.Wait()
		close(exited)
	}()
}

// environment returns that of the test, with the settings of the fleet.
func (f *fleet) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "AUTHZ_") })
	return append(env,
		"AUTHZ_ISSUER="+f.issuer, "AUTHZ_STORE="+f.config.Store, "AUTHZ_MASTER_KEYS="+f.config.MasterKeys,
		"AUTHZ_DEV_RESOURCE="+resource, "AUTHZ_DEV_PASSWORD="+personPassword, "AUTHZ_DEV_INTROSPECTION_SECRET="+introspectionSecret, "AUTHZ_EGRESS_CHECK=off",
	)
}

// health returns nil when the process answers. A process that has ended fails the test.
func (p *process) health(t testing.TB, client *http.Client) error {
	t.Helper()
	if p.ended() {
		t.Fatalf("authz at %s ended before it answered: %v", p.address, p.err)
	}
	resp, err := client.Get("http://" + p.address + "/healthz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz: %s", resp.Status)
	}
	return nil
}

func (p *process) running() (*exec.Cmd, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.exited
}

// ended reports whether the process is not running any more.
func (p *process) ended() bool {
	_, exited := p.running()
	select {
	case <-exited:
		return true
	default:
		return false
	}
}

// stop sends SIGINT, which does not wait for load balancers, and expects that the process ends
// without an error.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.client.CloseIdleConnections() // the process would wait for those that were never used
	cmd, exited := p.running()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatalf("stop %s: %v", p.address, errors.Join(err, p.err))
	}
	select {
	case <-exited:
	case <-time.After(patience):
		t.Fatalf("authz at %s did not stop within %s", p.address, patience)
	}
	if p.err != nil {
		t.Errorf("authz at %s stopped with %v", p.address, p.err)
	}
}

// kill sends SIGKILL and waits until the process is gone. It may be gone already.
func (p *process) kill() {
	cmd, exited := p.running()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	<-exited
}

// restart stops the process and runs it with other flags.
func (p *process) restart(t testing.TB, flags ...string) {
	t.Helper()
	p.stop(t)
	p.start(t, flags...)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailSize is the number of bytes of a process's output to keep.
const tailSize = 6 << 10

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	if len(w.text) > 2*tailSize {
		w.text = append([]byte("...\n"), w.text[len(w.text)-tailSize:]...)
	}
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}
