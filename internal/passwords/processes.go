package passwords

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

const (
	// longestCheck is how long one check may take, on a machine that has no time for it.
	longestCheck = 10 * time.Second
	// idleProcess is how long a process waits for the next check before it ends.
	idleProcess = time.Minute
	// restAfterFailure is how long no process is started after one failed.
	restAfterFailure = time.Minute
	// longestEnd is how long a process may take to end by itself.
	longestEnd = time.Second
	// longestHash bounds a hash in bytes; those of [Hash] have about 100.
	longestHash = 1024
)

// Processes checks passwords in processes of their own, one for each check that goes on at
// the same time. They start when they are needed and end when a minute passes without. A check
// that a process cannot make is made in this one, so there is always an answer. It is safe
// for concurrent use.
type Processes struct {
	command func() *exec.Cmd
	log     *slog.Logger
	bounds  bounds

	mu     sync.Mutex
	idle   []*process
	rests  time.Time // until then, none is started
	closed bool
}

// NewProcesses returns Processes that run what command returns: a program that calls
// [RunWorker], such as this one with [WorkerArgument]. Their environment is empty, whatever
// the command says. Failures are told to log, as warnings.
func NewProcesses(log *slog.Logger, command func() *exec.Cmd) *Processes {
	return &Processes{command: command, log: log, bounds: bounds{check: longestCheck, end: longestEnd}}
}

// ThisProgram is the command for a program whose main function calls [RunWorker] when its
// only argument is [WorkerArgument].
func ThisProgram() *exec.Cmd {
	path := "/proc/self/exe" // also after an upgrade has replaced the file
	if _, err := os.Stat(path); err != nil {
		path, _ = os.Executable() // "" cannot be started
	}
	return exec.Command(path, WorkerArgument)
}

// Check reports whether password belongs to hash, like the function of that name.
func (p *Processes) Check(hash, password string) bool {
	if len(hash) > longestHash || len(password) > Longest {
		return Check(hash, password)
	}
	for {
		w, fresh, err := p.take()
		if err != nil {
			p.failed(err)
		}
		if w == nil {
			return Check(hash, password)
		}
		matches, err := w.check(hash, password)
		if err == nil {
			p.giveBack(w)
			return matches
		}
		w.kill()
		if fresh {
			p.failed(err)
		} // one that waited for long may have been ended by somebody, and the next is asked
	}
}

// Close ends the processes that wait. Those that check end after their answer.
func (p *Processes) Close() {
	p.mu.Lock()
	waiting := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, w := range waiting {
		w.end()
	}
}

// take returns a process that waits, or a fresh one; nil while none is to be started.
func (p *Processes) take() (w *process, fresh bool, err error) {
	p.mu.Lock()
	n := len(p.idle)
	if n > 0 {
		w = p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		w.tired.Stop()
		return w, false, nil
	}
	resting := p.closed || time.Now().Before(p.rests)
	p.mu.Unlock()
	if resting {
		return nil, false, nil
	}
	w, err = start(p.command(), p.bounds)
	return w, true, err
}

func (p *Processes) failed(err error) {
	p.mu.Lock()
	p.rests = time.Now().Add(restAfterFailure)
	p.mu.Unlock()
	p.log.Warn("passwords are checked in this process for a minute, which slows down other requests: no process for it", "err", err)
}

// giveBack has a process wait for the next check.
func (p *Processes) giveBack(w *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go w.end()
		return
	}
	w.tired = time.AfterFunc(idleProcess, func() { p.dismiss(w) })
	p.idle = append(p.idle, w)
}

// dismiss ends a process if it still waits.
func (p *Processes) dismiss(w *process) {
	p.mu.Lock()
	i := slices.Index(p.idle, w)
	if i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		w.end()
	}
}

// bounds are how long a check and the end of a process may take.
type bounds struct{ check, end time.Duration }

// process is a process that checks one password at a time.
type process struct {
	bounds    bounds
	command   *exec.Cmd
	questions *os.File
	answers   *os.File
	tired     *time.Timer
}

func start(command *exec.Cmd, b bounds) (*process, error) {
	theirIn, questions, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("passwords: %w", err)
	}
	answers, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("passwords: %w", err), theirIn.Close(), questions.Close())
	}
	command.Stdin, command.Stdout, command.Env = theirIn, theirOut, []string{}
	err = command.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("passwords: %w", err), questions.Close(), answers.Close())
	}
	return &process{bounds: b, command: command, questions: questions, answers: answers}, nil
}

func (w *process) check(hash, password string) (bool, error) {
	deadline := time.Now().Add(w.bounds.check)
	if err := errors.Join(w.questions.SetWriteDeadline(deadline), w.answers.SetReadDeadline(deadline)); err != nil {
		return false, fmt.Errorf("passwords: %w", err)
	}
	if _, err := w.questions.Write(question(hash, password)); err != nil {
		return false, fmt.Errorf("passwords: ask: %w", err)
	}
	var said [1]byte
	if _, err := io.ReadFull(w.answers, said[:]); err != nil {
		return false, fmt.Errorf("passwords: no answer: %w", err)
	}
	switch said[0] {
	case right:
		return true, nil
	case wrong:
		return false, nil
	}
	return false, errors.New("passwords: the answer is neither yes nor no")
}

// end ends a process that has no question. It is given a little time to do so by itself.
func (w *process) end() {
	_, _ = w.questions.Close(), w.answers.Close()
	late := time.AfterFunc(w.bounds.end, func() { _ = w.command.Process.Kill() })
	defer late.Stop()
	_ = w.command.Wait()
}

// kill ends a process that does not answer.
func (w *process) kill() {
	_ = w.command.Process.Kill()
	w.end()
}
