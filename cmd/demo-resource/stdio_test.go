package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/message"
)

const (
	credential = "a-credential-that-nobody-may-see"
	// holderOf is the subject for it: the first four bytes of its SHA-256.
	holderOf = "credential:999236a1"

	hello     = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	helloDone = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// buildDemo builds the command.
func buildDemo(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "demo-resource")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// stdioCommand returns the command with a credential and an archive, and without the settings of
// this process.
func stdioCommand(t *testing.T, binary, archive string) (cmd *exec.Cmd, complaints *lockedBuffer) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), binary, "--stdio", "--archive", archive)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "DEMO_") })
	cmd.Env = append(cmd.Env, "DEMO_CREDENTIAL="+credential, "DEMO_ARCHIVE_TOKEN="+ownToken)
	complaints = &lockedBuffer{}
	cmd.Stderr = complaints
	return cmd, complaints
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// hidesSecrets checks that an output contains no secret.
func hidesSecrets(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(text, credential) || strings.Contains(text, ownToken) {
			t.Errorf("a secret is in %q", text)
		}
	}
}

// The built command serves the official client over standard input and output, and ends with the
// end of its input, and on a signal.
func TestStdioCommand(t *testing.T) {
	binary := buildDemo(t)
	for _, revision := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		t.Run("official client "+revision, func(t *testing.T) { officialClient(t, binary, revision) })
	}
	t.Run("one message in a line", func(t *testing.T) { oneMessageInALine(t, binary) })
	t.Run("SIGTERM", func(t *testing.T) { endsBySignal(t, binary) })
}

func officialClient(t *testing.T, binary, revision string) {
	u := newUpstream(t, nil)
	cmd, complaints := stdioCommand(t, binary, u.URL)
	var wire lockedBuffer
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	transport := &mcp.LoggingTransport{Transport: &mcp.CommandTransport{Command: cmd}, Writer: &wire}
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints.String())
	}
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Errorf("it speaks %s, want %s", got, revision)
	}
	for _, step := range []struct {
		tool      string
		arguments map[string]any
		want      string
	}{
		{"whoami", nil, `{"client_id":"stdio","issuer":"stdio","scopes":["notes:read","notes:write"],"subject":"` + holderOf + `"}`},
		{"add_note", map[string]any{"text": "milk"}, `{"count":1}`},
		{"list_notes", nil, `{"notes":["milk"]}`},
		{"archive_notes", nil, `{"archived":1}`},
	} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: step.tool, Arguments: step.arguments})
		if err != nil {
			t.Fatalf("%s: %v", step.tool, err)
		}
		if got, _ := json.Marshal(result.StructuredContent); string(got) != step.want {
			t.Errorf("%s = %s, want %s", step.tool, got, step.want)
		}
	}
	if err := session.Close(); err != nil { // which closes the input and waits
		t.Errorf("the end: %v", err)
	}
	hidesSecrets(t, wire.String(), complaints.String())
	if got := strings.Join(u.requests(), ""); !strings.Contains(got, holderOf) || strings.Contains(got, credential) {
		t.Errorf("the archive received %q", got)
	}
}

// oneMessageInALine checks every byte of the output. Requests before the end of the input are
// answered.
func oneMessageInALine(t *testing.T, binary string) {
	cmd, complaints := stdioCommand(t, binary, "http://127.0.0.1:9/nobody")
	cmd.Stdin = strings.NewReader(strings.Join([]string{
		hello, helloDone, "", "no JSON", "[" + helloDone + "]",
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"whoami","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"archive_notes","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`,
	}, "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v\n%s", err, complaints.String())
	}
	got := map[string]int{}
	for line := range bytes.Lines(out) {
		m, err := message.Decode(line, message.Limits{})
		if err != nil || line[len(line)-1] != '\n' {
			t.Errorf("%q is no message in a line: %v", line, err)
		}
		switch m := m.(type) {
		case message.ResultResponse:
			got[m.ID.String()]++
		case message.ErrorResponse:
			got[fmt.Sprint(m.Error.Code)]++
		}
	}
	if want := (map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "-32700": 1, "-32600": 1}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("answers are %v, want %v:\n%s", got, want, out)
	}
	hidesSecrets(t, string(out), complaints.String())
	if !strings.Contains(complaints.String(), "archive") {
		t.Errorf("the log says %q", complaints.String())
	}
}

func endsBySignal(t *testing.T, binary string) {
	cmd, complaints := stdioCommand(t, binary, "http://127.0.0.1:9/nobody")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	fmt.Fprintln(stdin, hello)
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || strings.Contains(complaints.String(), "demo-resource:") {
		t.Errorf("%v\n%s", err, complaints.String())
	}
}

// terminal is a call of run with --stdio, and its input and output.
type terminal struct {
	in      *io.PipeWriter
	answers chan string
	done    chan int
	stderr  lockedBuffer
}

func newTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	input, in := io.Pipe()
	out, output := io.Pipe()
	term := &terminal{in: in, answers: make(chan string, 100), done: make(chan int, 1)}
	go func() {
		env := environment("DEMO_CREDENTIAL="+credential, "DEMO_ARCHIVE_TOKEN="+map[bool]string{true: ownToken}[len(args) > 0])
		term.done <- run(t.Context(), append([]string{"--stdio"}, args...), env, input, output, &term.stderr)
		output.Close()
	}()
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			term.answers <- lines.Text()
		}
		close(term.answers)
	}()
	t.Cleanup(func() { in.Close() })
	return term
}

// send writes a line.
func (term *terminal) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(term.in, line+"\n"); err != nil {
		t.Fatalf("%v\n%s", err, term.stderr.String())
	}
}

// next returns the next response.
func (term *terminal) next(t *testing.T) message.Message {
	t.Helper()
	select {
	case text := <-term.answers:
		m, err := message.Decode([]byte(text), message.Limits{})
		if err != nil {
			t.Fatalf("%q: %v\n%s", text, err, term.stderr.String())
		}
		return m
	case <-time.After(patience):
		t.Fatalf("no answer\n%s", term.stderr.String())
		return nil
	}
}

// refuses checks that the next response is an error.
func (term *terminal) refuses(t *testing.T, code message.Code, id string) {
	t.Helper()
	refused, ok := term.next(t).(message.ErrorResponse)
	if got, _ := refused.ID.MarshalJSON(); !ok || refused.Error.Code != code || string(got) != id {
		t.Errorf("the answer is %+v, want code %d and id %q", refused, code, id)
	}
}

// answersWell checks that the next response is a result.
func (term *terminal) answersWell(t *testing.T, id string) {
	t.Helper()
	m := term.next(t)
	result, ok := m.(message.ResultResponse)
	if !ok || result.ID.String() != id {
		t.Errorf("the answer is %+v, want a result for %s", m, id)
	}
}

// ends closes the input and checks that run returns.
func (term *terminal) ends(t *testing.T, want int) {
	t.Helper()
	term.in.Close()
	select {
	case code := <-term.done:
		if code != want {
			t.Errorf("exit %d, want %d\n%s", code, want, term.stderr.String())
		}
	case <-time.After(patience):
		t.Error("it does not end")
	}
	hidesSecrets(t, term.stderr.String())
}

// callOf returns a request of a stateless revision, or of one with sessions.
func callOf(tool, id string, modern bool) string {
	meta := ""
	if modern {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{}%s}}`, id, tool, meta)
}

// In a revision with sessions, the process is one session of one requester.
func TestStdioSessionUsesIDsOnce(t *testing.T) {
	term := newTerminal(t)
	term.send(t, hello)
	term.answersWell(t, "1")
	term.send(t, helloDone)
	for _, id := range []string{"2", `"2"`, "7"} {
		term.send(t, callOf("whoami", id, false))
		term.answersWell(t, id)
	}
	for _, id := range []string{"1", "2", `"2"`, "7"} {
		term.send(t, callOf("whoami", id, false))
		term.refuses(t, message.CodeInvalidRequest, id)
	}
	term.ends(t, 0)
}

// Without sessions, an id must differ from those of the requests without a response, and may be
// used again after the response. The outstanding request is not affected.
func TestStdioRequestsInFlight(t *testing.T) {
	arrived, released := make(chan struct{}, 2), make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-released
		w.WriteHeader(http.StatusNoContent)
	})
	term := newTerminal(t, "--archive", u.URL)
	term.send(t, callOf("archive_notes", "5", true))
	select {
	case <-arrived:
	case <-time.After(patience):
		t.Error("the archive is not called")
	}
	term.send(t, callOf("whoami", "5", true))
	term.refuses(t, message.CodeInvalidRequest, "5")
	term.send(t, callOf("whoami", "6", true))
	term.answersWell(t, "6")
	close(released)
	term.answersWell(t, "5")
	for range 2 {
		term.send(t, callOf("whoami", "5", true))
		term.answersWell(t, "5")
	}
	term.ends(t, 0)
}

// A line that is not a message is answered with an error, and one that must not be answered is
// not. Later lines are served.
func TestStdioIsStrict(t *testing.T) {
	term := newTerminal(t)
	call := callOf("whoami", "1", true)
	for _, test := range []struct {
		line string
		code message.Code
		id   string
	}{
		{"no JSON", message.CodeParseError, ""},
		{call + call, message.CodeParseError, ""},
		{"[" + call + "]", message.CodeInvalidRequest, ""},
		{callOf("whoami", "9007199254740993", true), message.CodeInvalidRequest, "9007199254740993"},
		{callOf("whoami", "1.5", true), message.CodeInvalidRequest, ""},
		{callOf("whoami", "null", true), message.CodeInvalidRequest, ""},
		{strings.Replace(call, `"name"`, `"name":"add_note","name"`, 1), message.CodeInvalidRequest, "1"},
	} {
		term.send(t, test.line)
		term.refuses(t, test.code, test.id)
	}
	for _, silent := range []string{`{"jsonrpc":"2.0","method":"x","method":"y"}`, `{"jsonrpc":"2.0","id":1,"result":7}`, "", `{"jsonrpc":"2.0","id":77,"result":{}}`} {
		term.send(t, silent)
	}
	term.send(t, call)
	term.answersWell(t, "1")
	term.ends(t, 0)
}

// A line without an end ends the program, with an error.
func TestStdioLinesAreBounded(t *testing.T) {
	term := newTerminal(t)
	go func() { _, _ = io.WriteString(term.in, strings.Repeat("x", maxBody)) }() // until the reader stops
	select {
	case code := <-term.done:
		if code != 1 || !strings.Contains(term.stderr.String(), "more than 1048576 bytes") {
			t.Errorf("exit %d, said %q", code, term.stderr.String())
		}
	case <-time.After(patience):
		t.Error("it does not end")
	}
}

// The end of the input does not wait for a subscription.
func TestStdioSubscriptionsDoNotHoldUpTheEnd(t *testing.T) {
	l := newLine(strings.NewReader(""), io.Discard)
	listen := message.Request{ID: message.NumberID(1), Method: "subscriptions/listen"}
	if err := l.begin(listen); err != nil {
		t.Error(err)
	}
	done := make(chan struct{})
	go func() {
		l.answered.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("it is waited for")
	}
}

// The end of the input waits for an outstanding response, for a bounded time.
func TestStdioCallsDoNotHoldUpTheEnd(t *testing.T) {
	l := newLine(strings.NewReader(callOf("whoami", "1", true)), io.Discard)
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(l)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil || !l.waiting.End(message.NumberID(1)) {
			t.Errorf("the end is %v, and the call was answered", err)
		}
	case <-time.After(patience):
		t.Error("the end does not come")
	}
}

// Different credentials have different subjects.
func TestHolder(t *testing.T) {
	if got := tokenOf(credential); got.Subject != holderOf || got.Principal() == tokenOf(credential+"x").Principal() || !got.HasScope(scopeRead, scopeWrite) {
		t.Errorf("%+v", got)
	}
}
