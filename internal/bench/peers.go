package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
)

// peers are the other servers that can be measured. They keep their state in memory.
var peers = map[string]func(*stand, context.Context) (*target, error){
	"fosite":        (*stand).fosite,
	"oidc-provider": (*stand).oidcProvider,
}

// fosite builds and starts the program in peers/fosite, which is a module of its own. Its client
// is there from the start, because fosite registers none.
func (s *stand) fosite(ctx context.Context) (*target, error) {
	folder, err := here(ctx, "peers", "fosite")
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(s.folder, "fosite")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build %s: %w\n%s", folder, err, out)
	}
	const document = "/.well-known/oauth-authorization-server"
	p, address, err := s.listening(ctx, answering(document), func(address string) (*process, error) {
		return s.begin(nil, binary, "-listen", address, "-secret", peerSecret, "-resource", resource, "-redirect", redirect)
	})
	if err != nil {
		return nil, err
	}
	t := &target{
		name: "fosite", processes: []*process{p}, addresses: []string{address}, host: host, origin: issuer,
		client: "bench", basic: basic("notes", peerSecret), metadata: document, lacks: "register",
	}
	return t, t.enroll()
}

// oidcProvider starts peers/oidcprovider.mjs with the node of $NODE, or else of the path, and the
// oidc-provider that is installed in the folder $OIDC_PROVIDER.
func (s *stand) oidcProvider(ctx context.Context) (*target, error) {
	if os.Getenv("OIDC_PROVIDER") == "" {
		return nil, errors.New("-peer oidc-provider: set OIDC_PROVIDER to a folder in which npm installed oidc-provider, and NODE to Node 22")
	}
	folder, err := here(ctx, "peers")
	if err != nil {
		return nil, err
	}
	node := os.Getenv("NODE")
	if node == "" {
		node = "node"
	}
	const document = "/.well-known/openid-configuration"
	p, address, err := s.listening(ctx, answering(document), func(address string) (*process, error) {
		_, port, _ := net.SplitHostPort(address)
		return s.begin([]string{"NODE_ENV=production"}, node, filepath.Join(folder, "oidcprovider.mjs"), port, resource, peerSecret)
	})
	if err != nil {
		return nil, err
	}
	t := &target{
		name: "oidc-provider", processes: []*process{p}, addresses: []string{address}, host: address, origin: "http://" + address,
		basic: basic("notes", peerSecret), metadata: document,
		introspects: "refresh_token", // it does not introspect access tokens that are JWTs
	}
	err = t.enroll()
	t.session = nil // a session has one grant for a client at a time, so each connection has its own
	return t, err
}

// peerSecret is that of the client that introspects.
const peerSecret = "not-secret-for-one-run"

func basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

// here returns a folder below that of this command, in the module that go finds.
func here(ctx context.Context, below ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "gatehouse.example/internal/bench").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return filepath.Join(append([]string{string(out[:len(out)-1])}, below...)...), nil
}
