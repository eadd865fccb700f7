package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse.example/message"
	"gatehouse.example/middleware"
)

// credentialVariable is the environment variable with the credential for --stdio. It has no
// flag, because other users of the machine can read the command line.
const credentialVariable = "DEMO_CREDENTIAL"

// talk serves the tools over standard input and output until the input ends or ctx does.
// There is no OAuth (requirement R-APP-1: over STDIO a server should take credentials from
// the environment): the caller is the person who started the process.
func (s settings) talk(ctx context.Context, credential string, stdin io.Reader, stdout io.Writer, log *slog.Logger) error {
	if credential == "" {
		return fmt.Errorf("with --stdio the environment variable %s must hold a credential", credentialVariable)
	}
	archive, err := s.openArchive(log)
	if err != nil {
		return err
	}
	caller := tokenOf(credential)
	server := newServer(desk{notes: newNotebook(), archive: archive, caller: func(*mcp.CallToolRequest) *middleware.Token { return caller }})
	l := newLine(stdin, stdout)
	err = server.Run(ctx, &mcp.IOTransport{Reader: l, Writer: l})
	if ctx.Err() != nil {
		return nil // it was asked to stop
	}
	return err
}

// tokenOf returns a token for a credential, as the tools need it. The subject is a hash, which
// distinguishes credentials and does not reveal them.
func tokenOf(credential string) *middleware.Token {
	sum := sha256.Sum256([]byte(credential))
	return &middleware.Token{
		Subject: "credential:" + hex.EncodeToString(sum[:4]), ClientID: "stdio", Issuer: "stdio", Scopes: []string{scopeRead, scopeWrite},
	}
}

// line reads and writes standard input and output for the SDK, with one message per line. In
// place of the SDK, it answers lines that are not a message, and requests whose id breaks a
// rule: the SDK stops at a line that it cannot read, and stores numbers as floating point.
//
// The process at the other end is one requester. In the revisions with sessions, the lifetime of
// this process is one session.
type line struct {
	in       *bufio.Scanner
	rest     []byte // the part of a line that the SDK has not read
	used     message.SessionIDs
	waiting  message.InFlight
	answered sync.WaitGroup // waits for the responses to the requests in waiting

	mu  sync.Mutex
	out io.Writer
}

func newLine(stdin io.Reader, stdout io.Writer) *line {
	l := &line{in: bufio.NewScanner(stdin), out: stdout}
	l.in.Buffer(nil, maxBody)
	return l
}

// Read implements io.Reader for the SDK. It returns the messages that admits accepts, and the
// end of the input when all responses are written or grace has passed.
func (l *line) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if !l.in.Scan() {
			l.settle()
			return 0, l.ended()
		}
		if text := l.in.Bytes(); len(text) > 0 && l.admits(text) {
			l.rest = append(append(l.rest, text...), '\n')
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// ended returns the reason why there is no next line.
func (l *line) ended() error {
	switch err := l.in.Err(); {
	case err == nil:
		return io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("a message on standard input has more than %d bytes", maxBody)
	default:
		return fmt.Errorf("standard input: %w", err)
	}
}

// grace is the time for outstanding responses after the end of the input.
const grace = 3 * time.Second

// settle waits for outstanding responses, at most for grace.
func (l *line) settle() {
	done := make(chan struct{})
	go func() {
		l.answered.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(grace):
	}
}

// admits reports whether the SDK may read a line. It answers all other lines.
func (l *line) admits(text []byte) bool {
	m, err := message.Decode(text, message.Limits{MaxBytes: maxBody})
	if refused := (*message.DecodeError)(nil); errors.As(err, &refused) {
		if answer, ok := refused.Response(); ok {
			l.send(answer)
		}
		return false
	}
	request, ok := m.(message.Request)
	if !ok {
		return true
	}
	if err := l.begin(request); err != nil {
		l.send(refusal(request, err))
		return false
	}
	return true
}

// begin records a request. It does not record subscriptions, whose response comes when they
// end: the end of the input does not wait for that.
func (l *line) begin(request message.Request) error {
	if err := exact(request.ID); err != nil {
		return err
	}
	if request.Method == "subscriptions/listen" {
		return nil // the SDK checks the ids of subscriptions
	}
	if err := l.waiting.Begin(request.ID); err != nil {
		return err
	}
	if !modern(request) {
		if err := l.used.Use(request.ID); err != nil {
			l.waiting.End(request.ID)
			return err
		}
	}
	l.answered.Add(1)
	return nil
}

// modern reports whether the _meta of a request has a revision without sessions.
func modern(request message.Request) bool {
	meta, err := request.Params.Meta()
	if err != nil {
		return false
	}
	version, err := meta.ProtocolVersion()
	return err == nil && version >= stateless
}

// send writes a message of this program, not of the SDK.
func (l *line) send(m message.Message) {
	text, err := message.Encode(m)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(append(text, '\n')) // the SDK handles the error at its next write
}

// Write writes one message of the SDK.
func (l *line) Write(p []byte) (int, error) {
	if l.answers(p) {
		defer l.answered.Done()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// answers reports whether a message is the response to a request in waiting, and removes the
// request, so that its id can be used again.
func (l *line) answers(text []byte) bool {
	m, err := message.Decode(text, message.Limits{MaxBytes: len(text)})
	if err != nil {
		return false
	}
	switch m := m.(type) {
	case message.ResultResponse:
		return l.waiting.End(m.ID)
	case message.ErrorResponse:
		return l.waiting.End(m.ID)
	}
	return false
}

// Close does nothing. It leaves standard input and output open: this type did not open them, and
// closing would not interrupt a read.
func (l *line) Close() error { return nil }
