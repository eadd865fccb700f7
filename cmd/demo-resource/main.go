// Command demo-resource is a notes server of the context protocol, for people to try and
// tests to use.
//
//	demo-resource --issuer http://127.0.0.1:8080
//
// It speaks the stateless revision 2026-07-28 and the revisions with sessions on one
// endpoint, guarded by gatehouse.example/middleware. The guard reads each message and holds
// it against what its tool needs: whoami any valid token, list_notes notes:read, add_note
// notes:write. Lists show which scopes a token lacks, and streams end with their token.
// Notes are kept per person in memory and are gone at exit.
//
//	demo-resource --archive https://archive.example.com/notes --archive-token-file FILE
//
// adds the tool archive_notes (notes:read), which sends a person's notes to another API. It
// shows a token of its own there, never the one that it received.
//
//	DEMO_CREDENTIAL=… demo-resource --stdio
//
// serves the same tools over standard input and output, without OAuth: the credential comes
// from the environment, and whoever has the same one is the same person.
//
// What it refuses: messages that two readers could understand differently, batches, tools
// that the policy does not name, an id that was used before in a session or that would not
// come back as it was sent.
//
// Every flag --some-name is also the environment variable DEMO_SOME_NAME. The exit
// status is 0 when the server was asked to stop, 1 when it could not run and 2 when the
// command line makes no sense.
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
	"gatehouse.example/middleware"
)

func main() {
	os.Exit(run(listener.Signalled(context.Background()), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// devIssuer and devResource are what "authz serve --dev" is and knows without being told.
const (
	devListen   = "127.0.0.1:8081"
	devIssuer   = "http://127.0.0.1:8080"
	devResource = "http://" + devListen + "/mcp"
)

// settings are the flags. Those without a value have their default from serve.
type settings struct {
	Listen           string        `placeholder:"ADDR" help:"Address to listen on; port 0 takes any (default ${listen})."`
	Resource         string        `placeholder:"URL" help:"The URL that clients dial (default: /mcp on the address of --listen)."`
	Issuer           string        `placeholder:"URL" help:"The authorization server whose tokens are accepted (default ${issuer})."`
	Archive          string        `placeholder:"URL" help:"Where the tool archive_notes sends notes. Without it there is no such tool."`
	ArchiveToken     secret        `placeholder:"TOKEN" help:"The token for the archive. The command line is there for everybody to read: better use the environment, or a file."`
	ArchiveTokenFile string        `placeholder:"FILE" help:"A file with the token for the archive."`
	Drain            time.Duration `default:"5s" placeholder:"TIME" help:"After SIGTERM, how long requests are still taken while their answers close the connection; not after SIGINT (default ${default})."`
	Check            bool          `help:"Serve nothing: ask the server at --listen whether it answers, for the health checks of containers."`
	Stdio            bool          `help:"Talk over standard input and output, without OAuth. The credential is in ${credential}."`
}

// Validate finds flags that do not go together. It is called when they have been read.
func (s settings) Validate() error {
	switch {
	case s.Drain < 0:
		return fmt.Errorf("--drain %s is below 0", s.Drain)
	case s.Stdio && (s.Listen != "" || s.Resource != "" || s.Issuer != ""):
		return errors.New("--stdio has no address and no issuer: leave out --listen, --resource and --issuer")
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
	helped := false
	parser, err := kong.New(&s, kong.Name("demo-resource"),
		kong.Description("A notes server of the context protocol, protected by the Gatehouse middleware. "+
			"Each flag --some-name is also the environment variable DEMO_SOME_NAME; the flag wins."),
		kong.Vars{"listen": devListen, "issuer": devIssuer, "credential": credentialVariable},
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
	door, err := listener.Open(ctx, "listen", s.Listen)
	if err != nil {
		return err
	}
	if s.Resource == "" {
		s.Resource = "http://" + reachable(s.Listen, door.Addr()) + "/mcp"
	}
	handler, err := s.handler(desk{notes: newNotebook(), archive: archive, caller: callerOf}, log)
	if err != nil {
		return errors.Join(err, door.Close())
	}
	s.announce(stdout)
	return s.serveUntil(ctx, door, handler, log)
}

// handler is all that is served.
func (s settings) handler(d desk, log *slog.Logger) (http.Handler, error) {
	guard, err := middleware.New(s.guardConfig(d.needs(), log))
	if err != nil {
		return nil, err
	}
	server := newServer(d)
	return newHandler(guard, s.Resource, newEndpoint(server, newSessions(server, log), log))
}

// announce says what runs and what to do next.
func (s settings) announce(stdout io.Writer) {
	fmt.Fprintf(stdout, "The notes server is ready.\n  %-14s %s\n  %-14s %s\n", "connect to", s.Resource, "sign in at", s.Issuer)
	fmt.Fprintf(stdout, "Next: have the authorization server run (%s),\nand give a client the first address:\n", s.counterpart())
	fmt.Fprintf(stdout, "  claude mcp add --transport http notes %s\n", s.Resource)
}

// check asks the server at the address of --listen whether it answers, whatever it says.
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
		return err
	}
	return resp.Body.Close()
}

// address is a listener that somebody else has opened.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

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
func (s settings) serveUntil(ctx context.Context, door net.Listener, handler http.Handler, log *slog.Logger) error {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	server := listener.New(handler, listener.Config{Streams: streams, Log: log})
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(door) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	server.Stop(ctx, listener.Stop{Drain: s.Drain, Grace: listener.Grace, EndStreams: endStreams})
	return nil
}
