package passwords

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/internal/deptest"
)

func TestDeps(t *testing.T) {
	deptest.CheckTests(t)
}

// TestMain is also the worker: the test program starts itself.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{WorkerArgument}) {
		os.Exit(RunWorker())
	}
	os.Exit(m.Run())
}

// strange are passwords that an encoding could change.
var strange = []string{"a password", "", "\x00", "\xff\xfe", "two\nlines\r\n", "p\u00e4ss", strings.Repeat("x", Longest), `"\u0000"`}

func hashOf(t testing.TB, password string) string {
	t.Helper()
	hash, err := Hash(rand.Reader, password)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// started are processes with a count of their commands, and their log.
type started struct {
	*Processes
	log      bytes.Buffer
	mu       sync.Mutex
	commands []*exec.Cmd
}

func observed(t *testing.T, command func() *exec.Cmd) *started {
	s := &started{}
	s.Processes = NewProcesses(slog.New(slog.NewTextHandler(&s.log, nil)), func() *exec.Cmd {
		c := command()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.commands = append(s.commands, c)
		return c
	})
	s.bounds = bounds{check: time.Minute, end: time.Minute} // the machine may have other things to do
	t.Cleanup(s.Close)
	return s
}

func TestCheck(t *testing.T) {
	p := observed(t, ThisProgram)
	if hash := hashOf(t, strange[0]); !p.Check(hash, strange[0]) || !Check(hash, strange[0]) || Check(hash, strange[1]) {
		t.Error("a new hash is not that of its password alone")
	}
	for _, password := range strange {
		hash := hashWith(password, []byte("salt of everyone"), 64, 1) // the lowest cost
		if !p.Check(hash, password) || !Check(hash, password) {
			t.Errorf("the password %q is not right", password)
		}
		for _, other := range []string{password + "x", password + "\x00", strings.ToUpper(password) + " "} {
			if p.Check(hash, other) || Check(hash, other) {
				t.Errorf("%q is as good as %q", other, password)
			}
		}
	}
	for _, hash := range []string{"", "x", "$argon2id$v=19$m=19456,t=2,p=1$$", "$argon2id$v=19$m=999999999,t=2,p=1$AAAA$AAAA", strings.Repeat("$", 70000), hashWith("", []byte("salt of everyone"), 64, 17)} {
		if p.Check(hash, "") || Check(hash, "") {
			t.Errorf("the hash %.50q matches", hash)
		}
	}
	if !p.Check(hashWith("x", []byte("salt of everyone"), 64, 1), "x") {
		t.Error("after those hashes, the right password is not right")
	}
	if len(p.commands) != 1 || p.log.Len() > 0 {
		t.Errorf("%d processes for one check at a time; log: %s", len(p.commands), p.log.String())
	}
}

func TestUnmatchable(t *testing.T) {
	unmatchable, err := Unmatchable(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	work := func(hash string) []string { return strings.Split(hash, "$")[:4] }
	if other := hashOf(t, "x"); len(unmatchable) != len(other) || !slices.Equal(work(unmatchable), work(other)) {
		t.Errorf("checking against %s is other work than against %s", unmatchable, other)
	}
}

func TestNeedsRehash(t *testing.T) {
	for hash, want := range map[string]bool{
		hashOf(t, "x"): false,
		"$argon2id$v=19$m=64,t=1,p=1$c2FsdA$AAAA":     true,
		"$argon2id$v=19$m=19456,t=1,p=1$c2FsdA$AAAA":  true,
		"$argon2id$v=19$m=19455,t=2,p=1$c2FsdA$AAAA":  true,
		"$argon2id$v=19$m=262144,t=3,p=4$c2FsdA$AAAA": false,
		"$argon2id$v=19$m=x,t=2,p=1$c2FsdA$AAAA":      false,
		"$argon2i$v=19$m=64,t=1,p=1$c2FsdA$AAAA":      false,
		"":                                            false,
	} {
		if NeedsRehash(hash) != want {
			t.Errorf("%q: %v, want %v", hash, !want, want)
		}
	}
}

// Checks at the same time have a process each, and later ones have the same processes.
func TestOneProcessForEachCheck(t *testing.T) {
	p := observed(t, ThisProgram)
	first, _, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := p.take()
	if err != nil || first.command.Process.Pid == second.command.Process.Pid {
		t.Fatalf("two checks share process %d (%v)", first.command.Process.Pid, err)
	}
	p.giveBack(first)
	p.giveBack(second)
	hash := hashOf(t, "right")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { p.Check(hash, "right") })
	}
	all.Wait()
	if n := len(p.commands); n > 4 {
		t.Errorf("%d processes for four checks", n)
	}
}

// A process that was killed is replaced, and the check has the right result.
func TestProcessThatWasKilled(t *testing.T) {
	p := observed(t, ThisProgram)
	hash := hashOf(t, "right")
	p.Check(hash, "right")
	if err := p.commands[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !p.Check(hash, "right") || p.Check(hash, "wrong") {
		t.Error("wrong after a process was killed")
	}
	if len(p.commands) != 2 || p.log.Len() > 0 {
		t.Errorf("%d processes, want a second one; log: %s", len(p.commands), p.log.String())
	}
}

// If processes do not answer, checks run in this process, and no other process is started for a
// while.
func TestProcessThatCannotWork(t *testing.T) {
	hash := hashOf(t, "right")
	for name, command := range map[string]func() *exec.Cmd{
		"is not there":          func() *exec.Cmd { return exec.Command("/nonexistent/program") },
		"ends at once":          func() *exec.Cmd { return exec.Command("true") },
		"does not know the job": func() *exec.Cmd { return exec.Command("cat") },
	} {
		t.Run(name, func(t *testing.T) {
			p := observed(t, command)
			for range 3 {
				if !p.Check(hash, "right") || p.Check(hash, "wrong") {
					t.Error("wrong without a process")
				}
			}
			if len(p.commands) != 1 || strings.Count(p.log.String(), "level=WARN") != 1 {
				t.Errorf("%d processes started; log: %s", len(p.commands), p.log.String())
			}
			p.pausedUntil = time.Time{}
			p.Check(hash, "right")
			if len(p.commands) != 2 {
				t.Error("after the rest, no process is started")
			}
		})
	}
}

// Idle processes end at Close or after idleProcess, and busy ones after their answer.
func TestProcessesEnd(t *testing.T) {
	p := observed(t, ThisProgram)
	working, _, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	bored, _, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	waiting, _, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	p.giveBack(bored)
	p.endIdle(bored)
	p.giveBack(waiting)
	p.Close()
	if matches, err := working.check(hashOf(t, "right"), "right"); err != nil || !matches {
		t.Errorf("the check under way says %v, %v", matches, err)
	}
	working.end()
	for _, c := range p.commands {
		if c.ProcessState == nil || !c.ProcessState.Success() {
			t.Errorf("a process ended as %v, want by itself", c.ProcessState)
		}
	}
	if !p.Check(hashOf(t, "right"), "right") || len(p.commands) != 3 {
		t.Error("after the end, checks are not made here")
	}
}

// Workers ignore the signals that end a service: the process that uses them waits for answers.
func TestSignalsLeaveWorkers(t *testing.T) {
	p := observed(t, ThisProgram)
	hash := hashOf(t, "right")
	p.Check(hash, "right")
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if err := p.commands[0].Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if !p.Check(hash, "right") || len(p.commands) != 1 {
		t.Error("a signal ended the process")
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add([]byte{})
	f.Add(question("hash", "password"))
	f.Add(append(question("", ""), 0xff))
	f.Fuzz(func(t *testing.T, asked []byte) {
		var said bytes.Buffer
		err := answer(io.LimitReader(bytes.NewReader(asked), 1<<20), &said)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v", err)
		}
	})
}
