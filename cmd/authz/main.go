// Command authz runs and administers a Gatehouse authorization server.
//
//	authz serve --dev                        try everything on this machine
//	authz serve --config gatehouse.yaml      run a server
//	authz check-config --config FILE         find every mistake without running it
//	authz user add|ls|show|passwd|invite|reset|disable|rm
//	                                         people who can sign in
//	authz group add|ls|rm|join|leave         groups of people, for who may use what
//	authz client add|ls|show|vouch|disable|rm|token
//	                                         clients, and tokens for registering them
//	authz resource add|ls|show|check|disable|enable|rm
//	                                         the servers that tokens are for, beside those of the file
//	authz grant ls|revoke                    what people allowed clients to do
//	authz key ls|rotate|revoke|reseal|seal-records
//	                                         the keys that sign tokens, and the seals on records
//	authz store backup|verify|copy           back up a store in a file, check a copy, and move to Redis or back
//	authz audit verify|search|tail|trace     audit trails: what servers did, and for whom
//	authz gateway --resource URL --upstream URL --issuer URL
//	                                         guard a protocol server in any language
//	authz registry serve|sync                a catalogue of servers: your own, and those of another registry
//	authz reload                             let a running server or gateway read its settings again
//	authz doctor URL                         say why a client cannot connect to a server, and how to mend it
//	authz health [URL]                       check that a server on this machine answers
//	authz completion bash|zsh|fish           completion for a shell
//	authz manual                             this command line as a page for man
//	authz version [--json]
//
// For sign-ins it starts itself with the argument check-passwords, as a process that only checks
// passwords and ends after a minute without one.
//
// Every flag --some-name of serve, gateway and registry is also the environment variable
// AUTHZ_SOME_NAME and the key some-name of the YAML file; a flag beats the environment, the
// environment beats the file, the file beats the default (package settings). The structs
// serveSettings, registrySettings and gatewaySettings list them all, once, with their defaults. Every
// flag of doctor is also such a variable; it reads no file.
//
// The exit status is 0 for success, 1 for a refusal or a failure, and 2 for a mistake on the
// command line.
//
// The command refuses: an unknown key in the file, a setting that one source sets twice, an
// http issuer outside --dev, a missing master key or registration policy outside --dev, an
// ephemeral master key over a store that outlives the process, and administering an embedded
// store from another process.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/internal/listener"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/storage"
)

func main() {
	if slices.Equal(os.Args[1:], []string{passwords.WorkerArgument}) {
		os.Exit(passwords.RunWorker())
	}
	quietRedis()
	p := newProgram(os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	p.passwordCheckers = passwords.ThisProgram
	p.beforeAnswers = func(ctx context.Context) {
		collectSeldom()
		go giveBack(ctx)
	}
	os.Exit(p.run(listener.Signalled(context.Background()), os.Args[1:]))
}

// The exit statuses.
const (
	exitDone    = 0
	exitRefused = 1
	exitUsage   = 2
)

// usageError is a mistake on the command line, for which the exit status is exitUsage.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// grammar is the command line.
type grammar struct {
	Serve       serveVerb     `cmd:"" help:"Run the authorization server."`
	CheckConfig checkVerb     `cmd:"" name:"check-config" help:"Report every mistake in the configuration, without running it."`
	User        userVerbs     `cmd:"" help:"Add, list, disable and remove the people who can sign in."`
	Group       groupVerbs    `cmd:"" help:"Add, list and remove groups of people; let people join and leave them."`
	Client      clientVerbs   `cmd:"" help:"Add, list, show, disable and remove clients; mint tokens for registering."`
	Resource    resourceVerbs `cmd:"" help:"Add, list, check, disable and remove the servers that tokens are for."`
	Grant       grantVerbs    `cmd:"" help:"List and revoke what people allowed clients to do."`
	Key         keyVerbs      `cmd:"" help:"List, rotate and revoke the keys that sign tokens; re-seal secrets."`
	Store       storeVerbs    `cmd:"" help:"Back up a store in a file while a server uses it, check a copy, and move a store to Redis or back."`
	Audit       auditVerbs    `cmd:"" help:"Check and search audit trails: what servers did, and for whom."`
	Gateway     gatewayVerb   `cmd:"" help:"Guard a protocol server in any language, and forward allowed requests."`
	Registry    registryVerbs `cmd:"" help:"Serve a catalogue of servers, your own and those of another registry."`
	Reload      reloadVerb    `cmd:"" help:"Let a running server or gateway read its settings again, and print what changed."`
	Doctor      doctorVerb    `cmd:"" help:"Say why a client cannot connect to a server, and how to mend it."`
	Health      healthVerb    `cmd:"" help:"Check that a server on this machine answers, for the health checks of containers."`
	Completion  completeVerb  `cmd:"" help:"Print the completion script of a shell."`
	Manual      manualVerb    `cmd:"" help:"Print this command line as a page for man."`
	Version     versionVerb   `cmd:"" help:"Print the version, the commit and the build."`
}

// program is the environment of a verb, beside its flags.
type program struct {
	env    settings.Environment
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	rand   io.Reader
	grace  time.Duration // time for requests in flight after the end of a server

	passwordCheckers func() *exec.Cmd      // processes that check passwords; nil for none
	beforeAnswers    func(context.Context) // called once a server is about to answer

	hangups    func() (signals chan os.Signal, stop func()) // of a server; nil for none
	reloadRest time.Duration                                // the least time between two reloads
	parsed     *kong.Context                                // the verb that runs
}

func newProgram(environ []string, stdin io.Reader, stdout, stderr io.Writer) *program {
	return &program{
		env: settings.NewEnvironment(environ), stdin: stdin, stdout: stdout, stderr: stderr,
		rand: rand.Reader, grace: listener.Grace, hangups: hangups, reloadRest: reloadRest, beforeAnswers: func(context.Context) {},
	}
}

// run runs the verb in args and returns the exit status. It ends when ctx does.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newProgram(environ, stdin, stdout, stderr).run(ctx, args)
}

func (p *program) run(ctx context.Context, args []string) int {
	helped := false // --help was given, and kong printed the help
	parsed, err := p.parse(ctx, args, func(int) { helped = true })
	if helped {
		return exitDone
	}
	if errors.As(err, new(outputError)) {
		return p.report(err)
	}
	if err != nil {
		return p.report(usageError{fmt.Errorf("%w%s\n(authz --help lists the verbs, authz VERB --help the flags)", err, takenForFlags(err, args))})
	}
	p.parsed = parsed
	return p.report(p.runVerb(parsed))
}

// parser returns a parser with a grammar. It calls exit after it has printed the help.
func (p *program) parser(ctx context.Context, grammar any, exit func(int)) (*kong.Kong, error) {
	return kong.New(grammar,
		kong.Name("authz"),
		kong.Description("An OAuth 2.1 authorization server for servers of the context protocol."),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(exit),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
}

// report prints one line for each mistake and returns the exit status for err.
func (p *program) report(err error) int {
	if err == nil {
		return exitDone
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(p.stderr, "authz: %s\n", strings.TrimPrefix(strings.TrimSpace(line), "authz: "))
	}
	if errors.Is(err, storage.ErrRecord) || errors.Is(err, storage.ErrNoMasterKey) {
		fmt.Fprintln(p.stderr, "authz: give the master keys and the issuer that the store was used with; if they are right, somebody else wrote that record")
	}
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	return exitRefused
}
