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

// credentialVariable is where --stdio finds who it works for. It is no flag: the command
// lines of a machine are there for everybody to read.
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
	caller := holder(credential)
	server := newServer(desk{notes: newNotebook(), archive: archive, caller: func(*mcp.CallToolRequest) *middleware.Token { return caller }})
	l := newLine(stdin, stdout)
	err = server.Run(ctx, &mcp.IOTransport{Reader: l, Writer: l})
	if ctx.Err() != nil {
		return nil // it was asked to stop
	}
	return err
}

// holder is whoever has a credential, in the form in which the tools know callers. A name
// that is made of the credential tells people apart and says nothing about it.
func holder(credential string) *middleware.Token {
	sum := sha256.Sum256([]byte(credential))
	return &middleware.Token{
		Subject: "credential:" + hex.EncodeToString(sum[:4]), ClientID: "stdio", Issuer: "stdio", Scopes: []string{scopeRead, scopeWrite},
	}
}

// line stands between the SDK and standard input and output, where a message is a line. It
// answers what is no message, and requests whose id breaks a rule, in place of the SDK,
// which reads on only after what it understands and keeps numbers as floating point.
//
// The process at the other end is one requester. As long as it speaks a revision with
// sessions, the process here is one session.
type line struct {
	in       *bufio.Scanner
	rest     []byte // of a line that the SDK has not read
	used     message.SessionIDs
	waiting  message.InFlight
	answered sync.WaitGroup // waits for the answers to waiting

	mu  sync.Mutex
	out io.Writer
}

func newLine(stdin io.Reader, stdout io.Writer) *line {
	l := &line{in: bufio.NewScanner(stdin), out: stdout}
	l.in.Buffer(nil, maxBody)
	return l
}

// Read gives the SDK the next message that it may have. The end comes when all answers are
// out, or late.
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

// ended says why there is no next line.
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

// grace is how long answers may take to finish at the end of the input.
const grace = 3 * time.Second

// settle waits for answers that are under way.
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

// admits reports whether a line is for the SDK, and answers it otherwise.
func (l *line) admits(text []byte) bool {
	m, err := message.Decode(text, message.Limits{MaxBytes: maxBody})
	if refused := (*message.DecodeError)(nil); errors.As(err, &refused) {
		if answer, ok := refused.Response(); ok {
			l.say(answer)
		}
		return false
	}
	request, ok := m.(message.Request)
	if !ok {
		return true
	}
	if err := l.begin(request); err != nil {
		l.say(refusal(request, err))
		return false
	}
	return true
}

// begin takes note of a request. A subscription is answered when it ends: nothing waits
// for that.
func (l *line) begin(request message.Request) error {
	if err := exact(request.ID); err != nil {
		return err
	}
	if request.Method == "subscriptions/listen" {
		return nil // the SDK knows the ids of those
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

// modern reports whether a request is one of a revision without sessions. It says so
// itself.
func modern(request message.Request) bool {
	meta, err := request.Params.Meta()
	if err != nil {
		return false
	}
	version, err := meta.ProtocolVersion()
	return err == nil && version >= stateless
}

// say writes a message of our own.
func (l *line) say(m message.Message) {
	text, err := message.Encode(m)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(append(text, '\n')) // when nobody reads, the SDK finds out
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

// answers reports whether a message is the answer that a request waits for. From here on
// its id may be that of another one.
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

// Close leaves standard input and output open: they are not ours, and a read of them could
// not be interrupted anyway.
func (l *line) Close() error { return nil }
