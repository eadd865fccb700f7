package listener

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// stopping is a server that stops, with the channels that control its steps.
type stopping struct {
	server  *Server
	addr    string
	end     context.CancelCauseFunc
	noticed chan struct{}
	waited  chan time.Duration // how long it means to wait
	pass    chan time.Time     // lets the wait end
	arrived chan struct{}      // a request for /held is there
	release chan struct{}      // lets it finish
	done    chan struct{}
}

func newStopping(t *testing.T, drain time.Duration) *stopping {
	t.Helper()
	s := &stopping{noticed: make(chan struct{}), waited: make(chan time.Duration, 1), pass: make(chan time.Time),
		arrived: make(chan struct{}, 2), release: make(chan struct{}), done: make(chan struct{})}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			s.arrived <- struct{}{}
			<-s.release
		}
		_, _ = io.WriteString(w, "ok")
	})
	s.server, s.addr = running(t, handler, Config{})
	ctx, end := context.WithCancelCause(t.Context())
	s.end = end
	how := Stop{Drain: drain, Grace: patience, Notice: func() { close(s.noticed) }, after: func(d time.Duration) <-chan time.Time {
		s.waited <- d
		return s.pass
	}}
	go func() {
		defer close(s.done)
		<-ctx.Done()
		s.server.Stop(ctx, how)
	}()
	return s
}

// visitor is a client connection that reads answers.
type visitor struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func (s *stopping) visitor(t *testing.T) *visitor {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = conn.Close() })
	return &visitor{t, conn, bufio.NewReader(conn)}
}

func (v *visitor) ask(path string) {
	fmt.Fprintf(v.conn, "GET %s HTTP/1.1\r\nHost: example.com\r\n\r\n", path)
}

// answered reads an answer and reports whether it ends the connection.
func (v *visitor) answered() bool {
	v.t.Helper()
	resp, err := http.ReadResponse(v.r, nil)
	if err != nil {
		v.t.Fatalf("no answer: %v", err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok" {
		v.t.Fatalf("%q, %v", body, err)
	}
	return resp.Close
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("still not so: %s", what)
	}
}

// After SIGTERM a server first reports that it is not ready, and still answers, while every answer
// ends its connection: an idle one, one with a request in flight, a new one. Then no connections
// are accepted, and requests in flight finish.
func TestDrainAfterSIGTERM(t *testing.T) {
	s := newStopping(t, 5*time.Second)
	idle, slow := s.visitor(t), s.visitor(t)
	idle.ask("/")
	if idle.answered() {
		t.Fatal("connections end before the server stops")
	}
	slow.ask("/held")
	within(t, "the slow request is there", s.arrived)
	s.end(ErrTerminated)
	within(t, "Notice was called", s.noticed)
	select {
	case d := <-s.waited:
		if d != 5*time.Second {
			t.Errorf("it waits for %s", d)
		}
	case <-time.After(patience):
		t.Fatal("it does not wait")
	}
	idle.ask("/")
	if !idle.answered() {
		t.Error("an idle connection is kept")
	}
	late := s.visitor(t)
	late.ask("/")
	if !late.answered() {
		t.Error("a new connection is kept")
	}
	s.release <- struct{}{}
	if !slow.answered() {
		t.Error("the answer to a request that was in flight keeps its connection")
	}
	last := s.visitor(t)
	last.ask("/held")
	within(t, "the last request is there", s.arrived)
	s.pass <- time.Time{}
	s.refuses(t)
	select {
	case <-s.done:
		t.Fatal("the server left a request behind")
	default:
	}
	s.release <- struct{}{}
	if !last.answered() {
		t.Error("the last answer keeps its connection")
	}
	within(t, "the server has stopped", s.done)
}

// refuses waits until connections are refused.
func (s *stopping) refuses(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
	t.Fatal("the listener stays open")
}

// A server does not wait for load balancers after SIGINT, nor if Drain is 0.
func TestDrainIsForSIGTERMAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		drain time.Duration
		cause error
	}{
		"interrupted":                {5 * time.Second, nil},
		"something else":             {5 * time.Second, errors.New("something else")},
		"terminated without a delay": {0, ErrTerminated},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStopping(t, tt.drain)
			s.end(tt.cause)
			within(t, "the server has stopped", s.done)
			select {
			case d := <-s.waited:
				t.Errorf("it waits for %s", d)
			default:
			}
		})
	}
}
