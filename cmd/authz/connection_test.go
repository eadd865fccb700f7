package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/internal/listener/listenertest"
	"gatehouse.example/middleware/middlewaretest"
)

// No listener serves a request that was hidden in the body of another: neither the authorization
// server's, its admin listener, the gateway's nor the registry's. The demo has the same test.
func TestNoListenerServesAHiddenRequest(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	server := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	gate := startGateway(t, deadline, nil, "--issuer", issuer.URL(), "--upstream", echo(t)+"/mcp")
	registry := startRegistry(t, nil)
	for _, at := range []struct{ name, addr, host, path string }{
		{"server", server.shown("listening on"), server.shown("listening on"), "/token"},
		{"server's pages", server.shown("listening on"), server.shown("listening on"), "/authorize"},
		{"admin", server.shown("admin on"), "localhost", "/livez"},
		{"gateway", gate.shown("listening on"), "notes.example.com", "/mcp"},
		{"gateway's own paths", gate.shown("listening on"), "notes.example.com", "/healthz"},
		{"registry", registry.shown("listening on"), "localhost", "/v0.1/servers"},
	} {
		t.Run(at.name, func(t *testing.T) { listenertest.Smuggling(t, listenertest.Dial(at.addr), at.host, at.path) })
	}
}

// The same over TLS, with the same listener.
func TestNoListenerServesAHiddenRequestOverTLS(t *testing.T) {
	dir := t.TempDir()
	pool := writeCertificate(t, dir)
	r := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--tls-cert", dir+"/cert.pem", "--tls-key", dir+"/key.pem")
	dial := func() (net.Conn, error) {
		return tls.Dial("tcp", r.shown("listening on"), &tls.Config{RootCAs: pool, ServerName: "localhost"})
	}
	listenertest.Smuggling(t, dial, "localhost", "/healthz")
}

// A client that opens connections and sends nothing gets the connections of one address; a trusted
// proxy gets all.
func TestMaxConnections(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want int
	}{
		"a stranger":      {nil, 5},
		"a trusted proxy": {[]string{"--trusted-proxies", "127.0.0.0/8"}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, nil, append([]string{"--dev", "--listen", "127.0.0.1:0", "--max-connections", "40"}, tt.args...)...)
			in := 0
			for range 50 {
				conn, err := net.Dial("tcp", r.shown("listening on"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				_ = conn.SetDeadline(time.Now().Add(deadline))
				fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
					in++
				}
			}
			if in != tt.want {
				t.Errorf("%d of 50 connections are let in, want %d", in, tt.want)
			}
		})
	}
}

// process is a command in a process of its own.
type process struct {
	*running
	cmd   *exec.Cmd
	ended chan error
}

// startProcess runs authz and waits until it prints a line.
func startProcess(t *testing.T, ready string, args ...string) *process {
	t.Helper()
	return startProcessWith(t, nil, ready, args...)
}

// startProcessWith is startProcess with variables beside those of the environment of the test.
func startProcessWith(t *testing.T, environ []string, ready string, args ...string) *process {
	t.Helper()
	p := &process{running: new(running), cmd: exec.Command("authz", args...), ended: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.stdout, &p.stderr, slices.Concat(os.Environ(), []string{noLookout}, environ)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	eventually(t, "the program is ready", func() bool { return strings.Contains(p.stdout.String(), ready) })
	return p
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// end waits for the process and returns its exit error.
func (p *process) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(deadline):
		t.Fatalf("it does not end:\n%s", p.stderr.String())
		return nil
	}
}

// programs are the verbs that serve, each with the path of its readiness.
func programs(t *testing.T) map[string]func(drain string) (*process, string) {
	t.Helper()
	issuer := middlewaretest.NewIssuer(t)
	upstream := echo(t)
	return map[string]func(string) (*process, string){
		"serve": func(drain string) (*process, string) {
			p := startProcess(t, "connect to", "serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", drain)
			return p, "http://" + p.shown("admin on") + "/readyz"
		},
		"gateway": func(drain string) (*process, string) {
			p := startProcess(t, "claude mcp add", "gateway", "--listen", "127.0.0.1:0", "--resource", guarded, "--upstream", upstream, "--issuer", issuer.URL(), "--drain", drain)
			return p, "http://" + p.shown("listening on") + "/healthz"
		},
		"registry serve": func(drain string) (*process, string) {
			p := startProcess(t, "programs", "registry", "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", drain)
			return p, "http://" + p.shown("admin on") + "/readyz"
		},
	}
}

// After SIGTERM a program is not ready, and answers for the time of --drain, closing the
// connection with each answer. A second signal of any kind ends it at once.
func TestProgramsDrain(t *testing.T) {
	for name, begin := range programs(t) {
		for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(name+", "+second.String(), func(t *testing.T) {
				p, ready := begin("1h")
				public := "http://" + p.shown("listening on") + "/.well-known/nothing"
				if closes(t, public) {
					t.Error("connections end before anybody stops")
				}
				p.signal(t, syscall.SIGTERM)
				eventually(t, "it is not ready", func() bool {
					status, _ := get(t, http.DefaultClient, ready)
					return status == http.StatusServiceUnavailable
				})
				if !closes(t, public) {
					t.Error("a connection is kept while the program stops")
				}
				p.signal(t, second)
				if err := p.end(t); err == nil || !strings.Contains(err.Error(), "signal") {
					t.Errorf("it ends with %v", err)
				}
			})
		}
	}
}

// A program exits with status 0 at the end of that time. SIGINT does not wait for it.
func TestProgramsEnd(t *testing.T) {
	const drain = 300 * time.Millisecond
	for name, begin := range programs(t) {
		t.Run(name, func(t *testing.T) {
			p, _ := begin(drain.String())
			told := time.Now()
			p.signal(t, syscall.SIGTERM)
			if err := p.end(t); err != nil || time.Since(told) < drain {
				t.Errorf("it ends with %v after %s:\n%s", err, time.Since(told), p.stderr.String())
			}
			if conn, err := net.Dial("tcp", p.shown("listening on")); err == nil {
				_ = conn.Close()
				t.Error("somebody listens after the end")
			}
		})
		t.Run(name+", interrupted", func(t *testing.T) {
			p, _ := begin("1h")
			p.signal(t, syscall.SIGINT)
			if err := p.end(t); err != nil {
				t.Errorf("it ends with %v:\n%s", err, p.stderr.String())
			}
		})
	}
}

// closes sends a request on a new connection and reports whether the response closes it.
func closes(t *testing.T, url string) bool {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.Close
}

// Every verb that serves refuses limits that are out of range.
func TestBoundsAreChecked(t *testing.T) {
	for name, args := range map[string][]string{
		"serve":          {"serve", "--dev", "--listen", "127.0.0.1:0"},
		"check-config":   {"check-config", "--dev"},
		"gateway":        {"gateway", "--resource", guarded, "--upstream", "http://127.0.0.1:9/mcp", "--issuer", "https://auth.example.com"},
		"registry serve": {"registry", "serve"},
	} {
		var out, complaints lockedBuffer
		status := run(t.Context(), append(args, "--drain=-1s", "--max-connections=0"), nil, strings.NewReader(""), &out, &complaints)
		if status != exitRefused || !strings.Contains(complaints.String(), "drain -1s is below 0") || !strings.Contains(complaints.String(), "max-connections 0 is not a number") {
			t.Errorf("%s: exit status %d:\n%s", name, status, complaints.String())
		}
	}
}
