package quietlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/internal/quietlog"
)

// page holds the logged lines.
type page struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

// take returns the lines since the last time.
func (p *page) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(p.b.String(), "\n"), "\n")
	p.b.Reset()
	if lines[0] == "" {
		return nil
	}
	return lines
}

func open() (*page, *quietlog.Handler, *slog.Logger) {
	p := &page{}
	quiet := quietlog.New(slog.NewTextHandler(p, nil))
	return p, quiet, slog.New(quiet)
}

// TestManyLinesOfAKindAreCounted: of a thousand lines twenty are written, and a minute after the
// first one the number of the others, also if no other line follows.
func TestManyLinesOfAKindAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, log := open()
		for i := range 1000 {
			log.Info("refused", "code", "invalid_client", "from", fmt.Sprint(i))
		}
		if lines := p.take(); len(lines) != 20 {
			t.Fatalf("%d lines, want 20", len(lines))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		lines := p.take()
		if len(lines) != 1 || !strings.Contains(lines[0], `level=INFO msg="and 980 more like this in the last minute" like=refused code=invalid_client`) {
			t.Fatalf("%q", lines)
		}
		for range 25 {
			log.Info("refused", "code", "invalid_client")
		}
		if lines := p.take(); len(lines) != 20 {
			t.Errorf("%d lines in another minute, want 20", len(lines))
		}
	})
}

// TestKindsDoNotHideEachOther: another message, another level or another code is another
// kind; another value of anything else is not.
func TestKindsDoNotHideEachOther(t *testing.T) {
	p, quiet, log := open()
	for i := range 100 {
		log.Info("refused", "code", "invalid_client", "path", fmt.Sprint("/", i))
		log.With("endpoint", i).WithGroup("more").Info("refused", "code", "invalid_client")
	}
	p.take()
	log.Info("refused", "code", "invalid_grant")
	log.Warn("refused", "code", "invalid_client")
	log.Info("signed out")
	if lines := p.take(); len(lines) != 3 {
		t.Errorf("%q, want 3 lines", lines)
	}
	quiet.Flush()
	if lines := p.take(); len(lines) != 1 || !strings.Contains(lines[0], "and 180 more like this") {
		t.Errorf("at the end: %q", lines)
	}
	quiet.Flush()
	if lines := p.take(); len(lines) != 0 {
		t.Errorf("counted twice: %q", lines)
	}
}

// TestWhatPeopleDidIsAlwaysWritten: lines of Always are written also while lines of their kind
// are held back.
func TestWhatPeopleDidIsAlwaysWritten(t *testing.T) {
	p, _, log := open()
	for range 100 {
		log.Info("signed in")
	}
	p.take()
	for range 300 {
		log.InfoContext(quietlog.Always(t.Context()), "signed in")
	}
	if lines := p.take(); len(lines) != 300 {
		t.Errorf("%d lines, want 300", len(lines))
	}
}

// TestALogIsBounded: too many kinds are counted as one, earlier kinds are not affected, and texts
// are cut.
func TestALogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, quiet, log := open()
		log.Info("known")
		for i := range 10_000 {
			log.Info(fmt.Sprint("chosen ", i))
		}
		if lines := p.take(); len(lines) > 300 {
			t.Fatalf("%d lines", len(lines))
		}
		log.Info("known")
		if lines := p.take(); len(lines) != 1 {
			t.Errorf("a kind that was known: %q", lines)
		}
		quiet.Flush()
		if lines := p.take(); len(lines) != 1 || !strings.Contains(lines[0], `like="other lines"`) {
			t.Errorf("the rest: %q", lines)
		}
		time.Sleep(time.Minute + time.Second)
		log.Info("new")
		if lines := p.take(); len(lines) != 1 {
			t.Errorf("after a minute: %q", lines)
		}
		long := strings.Repeat("x", 1<<20)
		log.With("a", long).Info(long, "b", long, "c", errors.New(long), slog.Group("d", "e", long))
		if lines := p.take(); len(lines) != 1 || len(lines[0]) > 50<<10 || !strings.Contains(lines[0], "(1048576 bytes)") {
			t.Errorf("a line of %d bytes", len(lines[0]))
		}
		log.Info("letters", "of three bytes", strings.Repeat("\u20ac", 1<<19))
		if lines := p.take(); len(lines) != 1 || strings.Contains(lines[0], `\x`) {
			t.Errorf("a letter is cut in the middle: %.100q", lines[0][8<<10:])
		}
	})
}

// TestServerLog: a line of net/http becomes one warning of a constant kind, with any text.
func TestServerLog(t *testing.T) {
	p, _, log := open()
	server := quietlog.ServerLog(log.Handler())
	for i := range 1000 {
		server.Printf("http: TLS handshake error from 192.0.2.%d:%d: EOF", i%256, i)
	}
	server.Printf("http: panic serving 192.0.2.1:1: evil\n\x1b[2J\nlevel=ERROR msg=forged\ngoroutine 1")
	server.Printf("http: superfluous response.WriteHeader call")
	server.Printf("http2: panic serving 192.0.2.1:1: evil")
	lines := p.take()
	if len(lines) != 23 || strings.Contains(strings.Join(lines, ""), "\x1b") {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for i, want := range map[int]string{0: `level=WARN msg="a TLS handshake failed" said=`, 20: `level=WARN msg="a handler panicked" said=`, 21: `level=WARN msg="the HTTP server reports an error" said=`, 22: `level=WARN msg="a handler panicked" said=`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("%s, want %s", lines[i], want)
		}
	}
}

// TestLinesTogether runs with the race detector: no line is lost or counted twice.
func TestLinesTogether(t *testing.T) {
	p, quiet, log := open()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				log.Info("refused")
			}
		})
	}
	all.Wait()
	quiet.Flush()
	if lines := p.take(); len(lines) != 21 || !strings.Contains(lines[20], "and 3980 more") {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}
