package main

import (
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/internal/listener/listenertest"
	"gatehouse.example/middleware/middlewaretest"
)

// The demo does not serve a request that is hidden in the body of another.
func TestNoHiddenRequest(t *testing.T) {
	r := startRun(t, environment("DEMO_ISSUER="+middlewaretest.NewIssuer(t).URL()), "--listen", "127.0.0.1:0")
	host := strings.TrimSuffix(strings.TrimPrefix(r.resource, "http://"), "/mcp")
	for _, path := range []string{"/mcp", "/.well-known/oauth-protected-resource/mcp", "/elsewhere"} {
		t.Run(path, func(t *testing.T) { listenertest.Smuggling(t, listenertest.Dial(host), host, path) })
	}
	if code := r.end(t); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// demoProcess is a demo in a process of its own.
type demoProcess struct {
	*exec.Cmd
	stdout, stderr lockedBuffer
	url            string
}

func startDemo(t *testing.T, binary, drain string) *demoProcess {
	t.Helper()
	d := &demoProcess{Cmd: exec.Command(binary, "--listen", "127.0.0.1:0", "--drain", drain)}
	d.Stdout, d.Stderr = &d.stdout, &d.stderr
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Process.Kill() })
	await(t, "the demo is ready", func() bool { return strings.Contains(d.stdout.String(), "claude mcp add") })
	_, url, _ := strings.Cut(d.stdout.String(), "connect to")
	d.url = strings.Fields(url)[0]
	return d
}

func (d *demoProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := d.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// After SIGTERM the demo answers for the time of --drain, closing the connection each time, and
// then exits with status 0. A second signal ends it at once, and so does SIGINT.
func TestDrains(t *testing.T) {
	binary := buildDemo(t)
	t.Run("while it waits", func(t *testing.T) {
		d := startDemo(t, binary, "1h")
		if closes(t, d.url) {
			t.Error("connections end before anybody stops")
		}
		d.signal(t, syscall.SIGTERM)
		await(t, "it stops", func() bool { return strings.Contains(d.stderr.String(), "not ready any more") })
		if !closes(t, d.url) {
			t.Error("a connection is kept while the demo stops")
		}
		d.signal(t, syscall.SIGTERM)
		if err := d.Wait(); err == nil {
			t.Error("the second signal is nothing special")
		}
	})
	for name, tt := range map[string]struct {
		drain  string
		signal syscall.Signal
	}{"SIGTERM": {"10ms", syscall.SIGTERM}, "SIGINT": {"1h", syscall.SIGINT}} {
		t.Run(name, func(t *testing.T) {
			d := startDemo(t, binary, tt.drain)
			d.signal(t, tt.signal)
			if err := d.Wait(); err != nil {
				t.Errorf("%v\n%s", err, d.stderr.String())
			}
		})
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
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
