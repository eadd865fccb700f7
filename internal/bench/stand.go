package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	host     = "auth.example.com"
	issuer   = "https://" + host
	person   = "demo"
	password = "correct horse battery staple"
	secret   = "not secret: this server lives as long as one benchmark"
)

// configuration of the server under test. Limits on requests are off, because all requests come
// from one address; nothing else differs from the defaults, but for codes that wait to be redeemed.
const configuration = `issuer: ` + issuer + `
registration: open
registration-quota: 0
code-ttl: 10m
limit-token: 0
limit-client: 0
limit-introspection: 0
limit-registration: 0
limit-documents: 0
limit-pages: 0
egress-check: "off"
resources:
  - uri: ` + resource + `
    name: Notes
    default: true
    introspection:
      client_id: notes
      client_secret_file: %s
    scopes:
      notes:read: Read your notes
      notes:write: Add and change notes
`

// stand is everything that one run starts, in a folder that goes away with it.
type stand struct {
	options
	folder string
	key    [32]byte // the master key of our servers
	core   int      // of the servers, or negative
	redis  *redis
	live   []*process
}

func newStand(o options) (*stand, error) {
	folder, err := os.MkdirTemp("", "gatehouse-bench-")
	if err != nil {
		return nil, err
	}
	s := &stand{options: o, folder: folder, core: -1}
	_, _ = rand.Read(s.key[:])
	err = errors.Join(
		os.WriteFile(filepath.Join(folder, "secret"), []byte(secret), 0o600),
		os.WriteFile(s.config(), fmt.Appendf(nil, configuration, filepath.Join(folder, "secret")), 0o600))
	return s, err
}

func (s *stand) config() string { return filepath.Join(s.folder, "server.yaml") }

// close ends all programs and removes the folder.
func (s *stand) close() {
	for _, p := range s.live {
		p.stop()
	}
	_ = os.RemoveAll(s.folder)
}

// build compiles a command of this module, stripped, and returns its path.
func (s *stand) build(ctx context.Context, pkg string) (string, error) {
	path := filepath.Join(s.folder, filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", path, "gatehouse.example/"+pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// begin starts a program on the core of the servers; it ends with the stand.
func (s *stand) begin(env []string, command string, args ...string) (*process, error) {
	p, err := start(s.core, env, command, args...)
	if err == nil {
		s.live = append(s.live, p)
	}
	return p, err
}

// database is the URL of a store of its own for the nth server.
func (s *stand) database(n int) string {
	switch s.store {
	case "redis":
		return fmt.Sprintf("redis://%s/%d", s.redis.address, n)
	case "file":
		return "file:" + filepath.Join(s.folder, fmt.Sprintf("store%d", n))
	}
	return "embedded:"
}

// environment holds the secrets of the server under test, which no command line shows.
func (s *stand) environment() []string {
	env := []string{"AUTHZ_MASTER_KEYS=" + base64.StdEncoding.EncodeToString(s.key[:])}
	if s.store == "memory" {
		env = append(env, "AUTHZ_DEV_PASSWORD="+password)
	}
	return env
}

// target is a server that operations are sent to: ours, the floor or a peer.
type target struct {
	name      string
	processes []*process
	addresses []string // of the listeners, one for each process
	metrics   []string // of their admin listeners; none if they have no metrics
	host      string
	origin    string
	client    string
	basic     string
	metadata  string
	authorize string
	session   [][2]string // the cookies of a browser that is signed in
	codes     int         // how many codes are made beforehand for one connection
	people    []string    // the subjects of those who have grants that were stored beforehand
	clients   []string    // clients that were registered beforehand
	held      []heldGrant // these grants
	given     int         // how many of them workers have
	workers   int
	lacks     string // operations that it does not have
	// introspects is the token that it introspects; empty means the access token.
	introspects string
}

// wireTo returns a connection to the nth of its processes in turn, with the session.
func (t *target) wireTo(n int) *wire {
	w := newWire(t.addresses[n%len(t.addresses)], t.host)
	w.cookies = append(w.cookies, t.session...)
	return w
}

// server starts our server from a binary, with as many processes as asked for.
func (s *stand) server(ctx context.Context, name, binary string, n, processes int) (*target, error) {
	t := &target{
		name: name, host: host, origin: issuer, metadata: "/.well-known/oauth-authorization-server",
		basic: basic("notes", secret),
	}
	for range processes {
		p, address, admin, err := s.serve(ctx, binary, n)
		if err != nil {
			return nil, err
		}
		t.processes, t.addresses, t.metrics = append(t.processes, p), append(t.addresses, address), append(t.metrics, admin)
	}
	if err := s.addPerson(ctx, binary, n); err != nil {
		return nil, err
	}
	return t, t.enroll()
}

// serve starts one process of our server and waits until it is ready.
func (s *stand) serve(ctx context.Context, binary string, n int) (p *process, address, admin string, err error) {
	args := []string{"serve", "--config", s.config(), "--store", s.database(n)}
	if s.store == "memory" {
		args = append(args, "--dev")
	}
	p, address, err = s.listening(ctx, answering("/healthz"), func(address string) (*process, error) {
		if admin, err = freeAddress(); err != nil {
			return nil, err
		}
		return s.begin(s.environment(), binary, append(slices.Clone(args), "--listen", address, "--admin-listen", admin)...)
	})
	return p, address, admin, err
}

// listening starts a program on a free address and waits until it is ready. Somebody else
// may take the address first: then it tries another one.
func (s *stand) listening(ctx context.Context, ready func(address string) error, begin func(address string) (*process, error)) (*process, string, error) {
	var address string
	var p *process
	var err error
	for range 5 {
		if address, err = freeAddress(); err != nil {
			return nil, "", err
		}
		if p, err = begin(address); err != nil {
			return nil, "", err
		}
		if err = p.await(ctx, func() error { return ready(address) }); !errors.Is(err, errEnded) {
			break
		}
	}
	return p, address, err
}

// addPerson adds the one person to the store of a server that runs; with --dev, which the store in
// memory needs, there is one.
func (s *stand) addPerson(ctx context.Context, binary string, n int) error {
	if s.store == "memory" {
		return nil
	}
	cmd := exec.CommandContext(ctx, binary, "user", "add", person, "--config", s.config(), "--store", s.database(n))
	cmd.Env = append(cleanEnvironment(), s.environment()...)
	cmd.Stdin = strings.NewReader(password)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("user add: %w\n%s", err, out)
	}
	return nil
}

// enroll registers a client and signs the person in once; connections share the session.
func (t *target) enroll() error {
	w := newWire(t.addresses[0], t.host)
	defer w.close()
	if t.client == "" {
		a, err := w.post("/register", jsonType, "", []byte(registration))
		if err := check(a, err, 201, `"client_id"`); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		t.client = member(a.body, "client_id")
	}
	t.authorize = authorizePath(t.client)
	if _, err := t.tokens(w); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	for _, c := range w.cookies {
		if strings.Contains(c[0], "session") {
			t.session = append(t.session, c)
		}
	}
	return nil
}
