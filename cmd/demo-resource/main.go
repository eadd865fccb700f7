// Command demo-resource is a notes server of the context protocol, for demonstrations and tests.
//
//	demo-resource --issuer http://127.0.0.1:8080
//
// It supports the stateless revision 2026-07-28 and the revisions with sessions on one endpoint,
// which gatehouse.example/middleware protects. The guard reads each message and checks the
// scopes that its tool needs: whoami none, list_notes notes:read, add_note notes:write. Lists
// show which scopes a token lacks, and streams end with their token. Notes are kept per person
// in memory and are lost at exit.
//
//	demo-resource --archive https://archive.example.com/notes --archive-token-file FILE
//
// adds the tool archive_notes (notes:read), which sends a person's notes to another API. It uses
// a token of its own for that API, never the one that it received.
//
//	DEMO_CREDENTIAL=… demo-resource --stdio
//
// serves the same tools over standard input and output, without OAuth: the credential comes from
// the environment and identifies the person.
//
// The server refuses messages that two readers could interpret differently, batches, tools that
// the policy does not name, and ids that were used before in a session or that the response
// could not repeat exactly.
//
// Every flag --some-name is also the environment variable DEMO_SOME_NAME. The exit status is 0
// when the server was asked to stop, 1 when it could not run and 2 when the command line is
// invalid.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/internal/listener"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
)

func main() {
	os.Exit(run(listener.Signalled(context.Background()), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// devIssuer and devResource are the defaults of "authz serve --dev".
const (
	devListen   = "127.0.0.1:8081"
	devIssuer   = "http://127.0.0.1:8080"
	devResource = "http://" + devListen + "/mcp"
)

// settings are the flags. serve sets the defaults of empty ones.
type settings struct {
	Listen           string        `placeholder:"ADDR" help:"Address to listen on; port 0 takes any (default ${listen})."`
	Resource         string        `placeholder:"URL" help:"The URL that clients dial (default: /mcp on the address of --listen)."`
	Issuer           string        `placeholder:"URL" help:"The authorization server whose tokens are accepted (default ${issuer})."`
	Archive          string        `placeholder:"URL" help:"Where the tool archive_notes sends notes. Without it there is no such tool."`
	ArchiveToken     secret        `placeholder:"TOKEN" help:"The token for the archive. Other users of the machine can read the command line: better use the environment, or a file."`
	ArchiveTokenFile string        `placeholder:"FILE" help:"A file with the token for the archive."`
	Drain            time.Duration `default:"5s" placeholder:"TIME" help:"After SIGTERM, how long requests are still taken while their answers close the connection; not after SIGINT (default ${default})."`
	Check            bool          `help:"Serve nothing: check whether the server at --listen answers, for the health checks of containers."`
	Stdio            bool          `help:"Serve over standard input and output, without OAuth. The credential is in ${credential}."`
}

// Validate returns an error for flags that contradict each other. kong calls it after parsing.
func (s settings) Validate() error {
	switch {
	case s.Drain < 0:
		return fmt.Errorf("--drain %s is below 0", s.Drain)
	case s.Stdio && (s.Listen != "" || s.Resource != "" || s.Issuer != ""):
		return errors.New("--stdio has no address and no issuer: leave out --listen, --resource and --issuer")
	}
	return s.validateArchive()
}

// validateArchive returns an error unless there is exactly one token with --archive, and none
// without it.
func (s settings) validateArchive() error {
	switch {
	case s.ArchiveToken != "" && s.ArchiveTokenFile != "":
		return errors.New("give --archive-token or --archive-token-file, not both")
	case s.Archive == "" && (s.ArchiveToken != "" || s.ArchiveTokenFile != ""):
		return errors.New("a token for the archive needs --archive")
	case s.Archive != "" && s.ArchiveToken == "" && s.ArchiveTokenFile == "":
		return errors.New("--archive needs --archive-token-file or --archive-token")
	}
	return nil
}

// run serves until ctx ends and returns the exit status.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	var s settings
	helpShown := false
	parser, err := kong.New(&s, kong.Name("demo-resource"),
		kong.Description("A notes server of the context protocol, protected by the Gatehouse middleware. "+
			"Each flag --some-name is also the environment variable DEMO_SOME_NAME; the flag wins."),
		kong.Vars{"listen": devListen, "issuer": devIssuer, "credential": credentialVariable},
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helpShown = true }), kong.Resolvers(fromEnvironment(getenv)))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if helpShown {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "demo-resource: %v\n(demo-resource --help lists the flags)\n", err)
		return 2
	}
	quiet := quietlog.New(slog.NewTextHandler(stderr, nil))
	defer quiet.Flush()
	log := slog.New(quiet)
	switch {
	case s.Check:
		err = s.check(ctx)
	case s.Stdio:
		err = s.talk(ctx, getenv(credentialVariable), stdin, stdout, log)
	default:
		err = s.serve(ctx, stdout, log)
	}
	if err != nil {
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

// serve serves over HTTP until ctx ends.
func (s settings) serve(ctx context.Context, stdout io.Writer, log *slog.Logger) error {
	s.Listen, s.Issuer = cmp.Or(s.Listen, devListen), cmp.Or(s.Issuer, devIssuer)
	archive, err := s.openArchive(log)
	if err != nil {
		return err
	}
	if err := s.addressMistakes(); err != nil {
		return err
	}
	socket, err := listener.Open(ctx, "listen", s.Listen)
	if err != nil {
		return err
	}
	if s.Resource == "" {
		s.Resource = "http://" + reachable(s.Listen, socket.Addr()) + "/mcp"
	}
	handler, err := s.handler(desk{notes: newNotebook(), archive: archive, caller: callerOf}, log)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	s.announce(stdout)
	return s.serveUntil(ctx, socket, handler, log)
}

// addressMistakes returns what is wrong with the issuer and with the resource, if one is given.
func (s settings) addressMistakes() error {
	var errs []error
	mistake := func(name, value string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s cannot be used: %s", name, value, strings.TrimPrefix(err.Error(), "metadata: "+name+": ")))
		}
	}
	mistake("issuer", s.Issuer, metadata.ValidIssuer(s.Issuer))
	if s.Resource != "" {
		mistake("resource", s.Resource, metadata.ValidResource(s.Resource))
	}
	return errors.Join(errs...)
}

// handler returns the handler of the server.
func (s settings) handler(d desk, log *slog.Logger) (http.Handler, error) {
	guard, err := middleware.New(s.guardConfig(d.needs(), log))
	if err != nil {
		return nil, err
	}
	server := newServer(d)
	return newHandler(guard, s.Resource, newEndpoint(server, newSessions(server, log), log))
}

// announce prints the addresses and the next steps.
func (s settings) announce(stdout io.Writer) {
	fmt.Fprintf(stdout, "The notes server is ready.\n  %-14s %s\n  %-14s %s\n", "connect to", s.Resource, "sign in at", s.Issuer)
	fmt.Fprintf(stdout, "Next: have the authorization server run (%s),\nand give a client the first address:\n", s.counterpart())
	fmt.Fprintf(stdout, "  claude mcp add --transport http notes %s\n", s.Resource)
}

// check returns an error unless the server at the address of --listen answers, with any status.
func (s settings) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	listen := cmp.Or(s.Listen, devListen)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(listen, address(listen))+"/.well-known/oauth-protected-resource", nil)
	if err != nil {
		return fmt.Errorf("listen %s is not an address", listen)
	}
	resp, err := (&http.Transport{}).RoundTrip(req) // no proxy, no redirect
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", listen, err)
	}
	return resp.Body.Close()
}

// address is the address of a listener of another process.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// counterpart returns the command, or a hint, for running a matching authorization server.
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

// reachable returns the host and port by which clients on this machine reach the listener.
func reachable(listen string, addr net.Addr) string {
	host, _, _ := net.SplitHostPort(listen)
	_, port, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// serveUntil serves until ctx ends. Then it accepts no new requests, lets those in flight finish,
// and ends long streams.
func (s settings) serveUntil(ctx context.Context, socket net.Listener, handler http.Handler, log *slog.Logger) error {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	server := listener.New(handler, listener.Config{Streams: streams, Log: log})
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(socket) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	server.Stop(ctx, listener.Stop{Drain: s.Drain, Grace: listener.Grace, EndStreams: endStreams})
	return nil
}
