// Command demo-resource is a protected notes server, for people to try and tests to use.
//
//	demo-resource --issuer http://127.0.0.1:8080
//
// It speaks the stateless revision 2026-07-28 of the context protocol and the revisions
// with sessions on one endpoint, guarded by gatehouse.example/middleware. Its tools are
// whoami (any valid token), list_notes (notes:read) and add_note (notes:write). Notes are
// kept per person in memory and are gone at exit.
//
// Every flag --some-name is also the environment variable DEMO_SOME_NAME. The exit
// status is 0 when the server was asked to stop, 1 when it could not run and 2 when the
// command line makes no sense.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/middleware"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// devIssuer and devResource are what "authz serve --dev" is and knows without being told.
const (
	devIssuer   = "http://127.0.0.1:8080"
	devResource = "http://127.0.0.1:8081/mcp"
)

// settings are the flags, each once, with its default.
type settings struct {
	Listen   string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Address to listen on; port 0 takes any (default ${default})."`
	Resource string `placeholder:"URL" help:"The URL that clients dial (default: /mcp on the address of --listen)."`
	Issuer   string `default:"http://127.0.0.1:8080" placeholder:"URL" help:"The authorization server whose tokens are accepted (default ${default})."`
}

// run serves until ctx ends and returns the exit status.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	var s settings
	helped := false
	parser, err := kong.New(&s, kong.Name("demo-resource"),
		kong.Description("A notes server of the context protocol, protected by the Gatehouse middleware. "+
			"Each flag --some-name is also the environment variable DEMO_SOME_NAME; the flag wins."),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }), kong.Resolvers(fromEnvironment(getenv)))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if helped {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "demo-resource: %v\n(demo-resource --help lists the flags)\n", err)
		return 2
	}
	if err := s.serve(ctx, stdout, slog.New(slog.NewTextHandler(stderr, nil))); err != nil {
		fmt.Fprintf(stderr, "demo-resource: %v\n", err)
		return 1
	}
	return 0
}

// fromEnvironment reads DEMO_SOME_NAME for --some-name when the flag is not given.
func fromEnvironment(getenv func(string) string) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if value := getenv("DEMO_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))); value != "" {
			return value, nil
		}
		return nil, nil
	})
}

// grace is how long requests in flight may take to finish at the end.
const grace = 3 * time.Second

func (s settings) serve(ctx context.Context, stdout io.Writer, log *slog.Logger) error {
	listener, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", s.Listen, err)
	}
	if s.Resource == "" {
		s.Resource = "http://" + reachable(s.Listen, listener.Addr()) + "/mcp"
	}
	d := desk{notes: newNotebook(), caller: callerOf}
	guard, err := middleware.New(s.guardConfig(d.needs(), log))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := newServer(d)
	handler, err := newHandler(guard, s.Resource, newEndpoint(server, newSessions(server), log))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.announce(stdout)
	return serveUntil(ctx, listener, handler)
}

// announce says what runs and what to do next.
func (s settings) announce(stdout io.Writer) {
	fmt.Fprintf(stdout, "The notes server is ready.\n  %-14s %s\n  %-14s %s\n", "connect to", s.Resource, "sign in at", s.Issuer)
	fmt.Fprintf(stdout, "Next: have the authorization server run (%s),\nand give a client the first address:\n", s.counterpart())
	fmt.Fprintf(stdout, "  claude mcp add --transport http notes %s\n", s.Resource)
}

// counterpart is how to run an authorization server that fits.
func (s settings) counterpart() string {
	host, plain := strings.CutPrefix(s.Issuer, "http://")
	if !plain || strings.Contains(host, "/") {
		return "with " + s.Resource + " among its resources"
	}
	serve := "authz serve --dev"
	if s.Issuer != devIssuer {
		serve += " --listen " + host
	}
	if s.Resource != devResource {
		serve += " --dev-resource " + s.Resource
	}
	return serve
}

// reachable is the host and port by which clients on this machine reach the listener.
func reachable(listen string, addr net.Addr) string {
	host, _, _ := net.SplitHostPort(listen)
	_, port, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// serveUntil serves until ctx ends. Then no new request gets in, those in flight may
// finish, and long streams are ended.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return streams },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	time.AfterFunc(grace/2, endStreams)
	if server.Shutdown(bounded) != nil {
		return server.Close()
	}
	return nil
}
