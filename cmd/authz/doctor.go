package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/doctor"
)

// doctorVerb says why clients cannot connect to a server.
type doctorVerb struct {
	URL       string        `arg:"" optional:"" help:"The URL of the protected server, as clients are given it."`
	Server    string        `placeholder:"ISSUER" help:"Examine an authorization server alone."`
	Register  bool          `help:"Register clients as the recorded ones do, try redirect URIs and PKCE with one, and remove them again."`
	SignIn    bool          `xor:"token" help:"Open the browser ($$BROWSER, else xdg-open), and judge a sign-in and its tokens with a client of the doctor's own."`
	ClientID  string        `name:"client-id" placeholder:"ID" help:"With --sign-in, be this client instead of registering: public, with the redirect URI http://127.0.0.1/callback at any port."`
	Wait      time.Duration `placeholder:"TIME" help:"With --sign-in, wait so long at most for the token to end, and see that it is refused then."`
	Token     string        `placeholder:"TOKEN" xor:"token" help:"Also ask with this access token, and judge it. Other users of the machine can read the command line: better use --token-file."`
	TokenFile string        `placeholder:"FILE" xor:"token" help:"A file with the access token; - is standard input."`
	As        string        `placeholder:"CLIENT" help:"Play one client only: claude-code, codex, vscode, cursor, gemini-cli, inspector, mcp-remote, go-sdk or typescript-sdk."`
	AllowHost []string      `placeholder:"HOST" help:"A host that may be asked although the rule for addresses forbids it; repeatable."`
	JSON      bool          `name:"json" xor:"format" help:"Print the report as JSON."`
	SARIF     bool          `name:"sarif" xor:"format" help:"Print the report as SARIF 2.1.0."`
	JUnit     bool          `name:"junit" xor:"format" help:"Print the report as JUnit XML."`
	List      bool          `help:"Print every check with its source, and ask nothing."`
}

// errDoctor says that the report has an error.
var errDoctor = errors.New("there are errors")

// Run prints the report. It fails if there is an error among the findings.
func (v *doctorVerb) Run(ctx context.Context, p *program) error {
	if v.List {
		return v.list(p)
	}
	if err := v.mistake(); err != nil {
		return usageError{err}
	}
	report, err := v.examine(ctx, p)
	if err != nil {
		return usageError{proxyHint(err)}
	}
	if v.As != "" {
		if report, err = report.Only(v.As); err != nil {
			return usageError{err}
		}
	}
	if err := v.print(p, report); err != nil {
		return err
	}
	if report.Worst() == doctor.Error {
		return errDoctor
	}
	return nil
}

// mistake returns what is wrong with the command line.
func (v *doctorVerb) mistake() error {
	switch {
	case (v.URL == "") == (v.Server == ""):
		return errors.New("give the URL of a server, or --server ISSUER")
	case v.As != "" && !slices.Contains(doctor.Clients(), v.As):
		return fmt.Errorf("--as takes one of %s", strings.Join(doctor.Clients(), ", "))
	case v.Server != "" && (v.As != "" || v.SignIn || v.Token != "" || v.TokenFile != ""):
		return errors.New("--as, --sign-in and --token are for a protected server: give its URL, without --server")
	}
	return v.signInMistake()
}

func (v *doctorVerb) signInMistake() error {
	switch {
	case v.ClientID != "" && !v.SignIn:
		return errors.New("--client-id is of use with --sign-in only")
	case v.Wait < 0, v.Wait > 0 && !v.SignIn:
		return errors.New("--wait takes a time such as 15m, and is of use with --sign-in only")
	}
	return nil
}

func (v *doctorVerb) examine(ctx context.Context, p *program) (*doctor.Report, error) {
	token, err := v.token(p)
	if err != nil {
		return nil, err
	}
	o := doctor.Options{Token: token, ClientID: v.ClientID, Expiry: v.Wait, Register: v.Register, AllowHosts: v.AllowHost}
	if v.SignIn {
		o.SignIn = p.openBrowser
	}
	if terminal(p.stderr) {
		o.Progress = func(method, url string) {
			fmt.Fprint(p.stderr, "\r\x1b[K"+oneLine(method+" "+doctor.Clean(url), columns(p.stderr)))
		}
		defer fmt.Fprint(p.stderr, "\r\x1b[K")
	}
	if v.Server != "" {
		return doctor.CheckServer(ctx, v.Server, o)
	}
	return doctor.Check(ctx, v.URL, o)
}

func (v *doctorVerb) print(p *program, report *doctor.Report) error {
	switch {
	case v.JSON:
		out := json.NewEncoder(p.stdout)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		return out.Encode(report)
	case v.SARIF:
		_, err := fmt.Fprintf(p.stdout, "%s\n", report.SARIF())
		return err
	case v.JUnit:
		_, err := fmt.Fprintf(p.stdout, "%s\n", report.JUnit())
		return err
	}
	return report.WriteText(p.stdout, terminal(p.stdout) && os.Getenv("NO_COLOR") == "")
}

// openBrowser prints a URL and opens it in a browser, if there is one. The URL has no secret, and the
// browser does not inherit ours.
func (p *program) openBrowser(_ context.Context, url string) error {
	fmt.Fprintf(p.stderr, "\nSign in at:\n%s\n", url)
	command := strings.Fields(cmp.Or(strings.TrimSpace(os.Getenv("BROWSER")), "xdg-open"))
	browser := exec.Command(command[0], append(command[1:], url)...)
	browser.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, settings.Prefix) })
	if err := browser.Start(); err != nil {
		fmt.Fprintf(p.stderr, "(%s does not start: open it yourself)\n", command[0])
		return nil
	}
	go func() { _ = browser.Wait() }()
	return nil
}

// token returns the access token, "" for none.
func (v *doctorVerb) token(p *program) (string, error) {
	var raw []byte
	var err error
	switch v.TokenFile {
	case "":
		return v.Token, nil
	case "-":
		raw, err = io.ReadAll(io.LimitReader(p.stdin, maxToken+1))
	default:
		raw, err = readToken(v.TokenFile)
	}
	token := strings.TrimSpace(string(raw))
	if err == nil && (token == "" || len(token) > maxToken || strings.ContainsAny(token, " \r\n")) {
		err = fmt.Errorf("%s does not have one access token", v.TokenFile)
	}
	return token, err
}

// readToken reads a little more of a file than a token may have: the file may be a device.
func readToken(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxToken+1))
}

// proxyHint tells who is behind a proxy why nothing could be asked: a proxy would look names up
// where they cannot be judged, so the doctor uses none.
func proxyHint(err error) error {
	if !errors.Is(err, doctor.ErrNothing) {
		return err
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if os.Getenv(name) != "" {
			return fmt.Errorf("%w (the doctor connects directly, not by the proxy of %s)", err, name)
		}
	}
	return err
}

// maxToken bounds an access token, in bytes.
const maxToken = 64 << 10

// list prints every check.
func (v *doctorVerb) list(p *program) error {
	if v.JSON {
		type line struct {
			ID       string          `json:"id"`
			Severity doctor.Severity `json:"severity"`
			Rule     string          `json:"rule"`
			Title    string          `json:"title"`
			Mend     string          `json:"mend"`
			Clients  []string        `json:"clients"`
		}
		lines := []line{}
		for _, e := range doctor.Catalogue() {
			lines = append(lines, line{e.ID, e.Severity, e.Rule, e.Title, e.Mend, append([]string{}, e.Clients...)})
		}
		return json.NewEncoder(p.stdout).Encode(lines)
	}
	for _, e := range doctor.Catalogue() {
		stops := cmp.Or(strings.Join(e.Clients, ", "), "nobody")
		if _, err := fmt.Fprintf(p.stdout, "%-8s %-32s %s\n         %s (can stop %s)\n", e.Severity, e.ID, e.Title, e.Rule, stops); err != nil {
			return err
		}
	}
	return nil
}

// columns returns the width of a terminal, 80 if it is not known.
func columns(stream any) int {
	if file, ok := stream.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// oneLine cuts a text that it stays on one line of a terminal: of a second one nothing is removed.
// What is not ASCII may take two columns.
func oneLine(text string, columns int) string {
	used := 0
	for i, r := range text {
		if used++; r > '~' {
			used++
		}
		if used >= columns {
			return text[:i]
		}
	}
	return text
}

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
