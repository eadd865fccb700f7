package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.example/middleware/middlewaretest"
)

// patience bounds every wait.
const patience = 20 * time.Second

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, pair := range pairs {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// running is a call of run that has announced that it is ready.
type running struct {
	announced string
	resource  string
	stop      context.CancelFunc
	done      chan int
}

// startRun calls run and waits until the server has announced itself.
func startRun(t *testing.T, getenv func(string) string, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, done: make(chan int, 1)}
	out, in := io.Pipe()
	var complaints bytes.Buffer
	go func() {
		code := run(ctx, args, getenv, strings.NewReader(""), in, &complaints)
		in.Close()
		r.done <- code
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		r.announced += lines.Text() + "\n"
		if rest, ok := strings.CutPrefix(lines.Text(), "  connect to"); ok {
			r.resource = strings.TrimSpace(rest)
		}
		if strings.Contains(lines.Text(), "claude mcp add") {
			return r
		}
	}
	t.Fatalf("run ended with %d:\n%s%s", <-r.done, r.announced, complaints.String())
	return nil
}

// end stops the server and returns its exit status.
func (r *running) end(t *testing.T) int {
	t.Helper()
	r.stop()
	select {
	case code := <-r.done:
		return code
	case <-time.After(patience):
		t.Fatal("the server does not stop")
		return 0
	}
}

func TestRunRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		env  string
		args []string
		code int
		says string
	}{
		{"unknown flag", "", []string{"--isuer", "http://127.0.0.1:8080"}, 2, "--isuer"},
		{"flag without value", "", []string{"--listen"}, 2, "--listen"},
		{"argument", "", []string{"serve"}, 2, "serve"},
		{"taken port", "", []string{"--listen", taken.Addr().String()}, 1, "listen " + taken.Addr().String() + ": the port is taken"},
		{"taken port from the environment", "DEMO_LISTEN=" + taken.Addr().String(), nil, 1, "the port is taken"},
		{"listen without port", "", []string{"--listen", "127.0.0.1"}, 1, "missing port"},
		{"issuer without TLS", "", []string{"--listen", "127.0.0.1:0", "--issuer", "http://auth.example.com"}, 1, "https"},
		{"issuer with a slash", "", []string{"--listen", "127.0.0.1:0", "--issuer", "https://auth.example.com/"}, 1, "slash"},
		{"issuer is no URL", "DEMO_ISSUER=auth.example.com", []string{"--listen", "127.0.0.1:0"}, 1, "issuer auth.example.com cannot be used: it must be absolute"},
		{"resource is no URL", "", []string{"--listen", "127.0.0.1:0", "--resource", "notes"}, 1, "resource notes cannot be used: it must be absolute"},
		{"nobody to check", "", []string{"--check", "--listen", "127.0.0.1:1"}, 1, "127.0.0.1:1 does not answer: "},
		{"resource without TLS", "", []string{"--listen", "127.0.0.1:0", "--resource", "http://notes.example.com/mcp"}, 1, "https"},
		{"resource with a fragment", "", []string{"--listen", "127.0.0.1:0", "--resource", "https://notes.example.com/mcp#x"}, 1, "fragment"},
		{"archive without a token", "", []string{"--archive", "https://archive.example.com"}, 2, "--archive-token-file"},
		{"token without an archive", "DEMO_ARCHIVE_TOKEN=hidden-token", nil, 2, "needs --archive"},
		{"two tokens", "DEMO_ARCHIVE_TOKEN=hidden-token", []string{"--archive", "https://archive.example.com", "--archive-token-file", empty}, 2, "not both"},
		{"no file with a token", "", []string{"--archive", "https://archive.example.com", "--archive-token-file", empty + "-not"}, 1, "no such file"},
		{"a file without a token", "", []string{"--archive", "https://archive.example.com", "--archive-token-file", empty}, 1, "is empty"},
		{"archive without TLS", "DEMO_ARCHIVE_TOKEN=hidden-token", []string{"--archive", "http://archive.example.com"}, 1, "https"},
		{"stdio with an address", "", []string{"--stdio", "--listen", "127.0.0.1:0"}, 2, "--listen"},
		{"stdio with a resource", "", []string{"--stdio", "--resource", "https://notes.example.com/mcp"}, 2, "--resource"},
		{"stdio with an issuer", "DEMO_ISSUER=https://auth.example.com", []string{"--stdio"}, 2, "--issuer"},
		{"stdio without a credential", "", []string{"--stdio"}, 1, "DEMO_CREDENTIAL"},
		{"stdio with a wrong archive", "DEMO_CREDENTIAL=hidden-token", []string{"--stdio", "--archive", "http://archive.example.com", "--archive-token", "x"}, 1, "https"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), test.args, environment(test.env), strings.NewReader(""), &stdout, &stderr)
			if code != test.code || !strings.Contains(stderr.String(), test.says) || stdout.Len() > 0 {
				t.Errorf("exit %d, said %q and %q; want exit %d and %q", code, stdout.String(), stderr.String(), test.code, test.says)
			}
			if strings.Contains(stderr.String(), "hidden-token") {
				t.Errorf("it shows a secret: %q", stderr.String())
			}
		})
	}
}

func TestRunHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	env := environment("DEMO_ARCHIVE_TOKEN=hidden-token", "DEMO_CREDENTIAL=hidden-token")
	if code := run(t.Context(), []string{"--help"}, env, strings.NewReader(""), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit %d, complained %q", code, stderr.String())
	}
	if strings.Contains(stdout.String(), "hidden-token") {
		t.Errorf("the help shows a secret:\n%s", stdout.String())
	}
	for _, want := range []string{"--listen", devListen, "--resource", "--issuer", devIssuer, "--archive", "--archive-token", "--archive-token-file", "--stdio", "DEMO_CREDENTIAL", "DEMO_SOME_NAME"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the help does not mention %s:\n%s", want, stdout.String())
		}
	}
}

// A flag overrides the environment, which overrides the default; the resource follows the
// address; and the demo starts while the issuer is down.
func TestRunSettings(t *testing.T) {
	tests := []struct {
		name string
		env  []string
		args []string
		says []string
	}{
		{"the resource follows the address", nil, []string{"--listen", "127.0.0.1:0"},
			[]string{"sign in at     http://127.0.0.1:8080", "/mcp\n", "authz serve --dev --dev-resource http://127.0.0.1:"}},
		{"every interface", nil, []string{"--listen", ":0"}, []string{"connect to     http://127.0.0.1:"}},
		{"a name", nil, []string{"--listen", "localhost:0"}, []string{"connect to     http://localhost:"}},
		{"environment", []string{"DEMO_LISTEN=127.0.0.1:0", "DEMO_ISSUER=https://auth.example.com", "DEMO_RESOURCE=https://notes.example.com/mcp"}, nil,
			[]string{"sign in at     https://auth.example.com\n", "connect to     https://notes.example.com/mcp\n", "(with https://notes.example.com/mcp among its resources)"}},
		{"flag over environment", []string{"DEMO_LISTEN=127.0.0.1:0", "DEMO_ISSUER=https://auth.example.com"}, []string{"--issuer", "https://other.example.org"},
			[]string{"sign in at     https://other.example.org\n"}},
		{"another port of the server", nil, []string{"--listen", "127.0.0.1:0", "--issuer", "http://localhost:9", "--resource", devResource}, []string{"(authz serve --dev --listen localhost:9),"}},
		{"a server below a path", nil, []string{"--listen", "127.0.0.1:0", "--issuer", "http://localhost:9/auth", "--resource", devResource}, []string{"(with " + devResource + " among its resources)"}},
		{"the server's own default", nil, []string{"--listen", "127.0.0.1:0", "--resource", devResource}, []string{"(authz serve --dev),"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := startRun(t, environment(test.env...), test.args...)
			for _, want := range test.says {
				if !strings.Contains(server.announced, want) {
					t.Errorf("it does not say %q:\n%s", want, server.announced)
				}
			}
			if code := server.end(t); code != 0 {
				t.Errorf("exit %d after it was asked to stop, want 0", code)
			}
		})
	}
}

// A stream that a client keeps open does not delay the shutdown.
func TestRunEndsOpenStreams(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	server := startRun(t, environment(), "--listen", "127.0.0.1:0", "--issuer", issuer.URL())
	c := caller{resource: server.resource, token: issuer.Mint(middlewaretest.Claims{"aud": server.resource})}
	c.initialize(t)
	stream := c.open(t, "")
	if code := server.end(t); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if rest, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("the stream broke off after %q: %v", rest, err)
	}
}
