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
	// longestCheck bounds the time of one check, on a busy machine.
	longestCheck = 10 * time.Second
	// idleProcess is the time after which an idle process ends.
	idleProcess = time.Minute
	// pauseAfterFailure is the time for which no process is started after one failed.
	pauseAfterFailure = time.Minute
	// longestEnd is the time in which a process must end by itself.
	longestEnd = time.Second
	// longestHash bounds a hash in bytes; those of [Hash] have about 100.
	longestHash = 1024
)

// Processes checks passwords in separate processes, one for each concurrent check. They start
// when they are needed and end after a minute without a check. If a process fails, the check
// runs in this process, so there is always a result. It is safe for concurrent use.
type Processes struct {
	command func() *exec.Cmd
	log     *slog.Logger
	bounds  bounds

	mu          sync.Mutex
	idle        []*process
	pausedUntil time.Time // until then, none is started
	closed      bool
}

// NewProcesses returns Processes that run the command that command returns: a program that calls
// [RunWorker], such as [ThisProgram]. The environment of the processes is always empty. Failures
// are logged to log as warnings.
func NewProcesses(log *slog.Logger, command func() *exec.Cmd) *Processes {
	return &Processes{command: command, log: log, bounds: bounds{check: longestCheck, end: longestEnd}}
}

// ThisProgram returns the command to run this program as a worker. Its main function must call
// [RunWorker] if its only argument is [WorkerArgument].
func ThisProgram() *exec.Cmd {
	path := "/proc/self/exe" // also after an upgrade has replaced the file
	if _, err := os.Stat(path); err != nil {
		path, _ = os.Executable() // "" cannot be started
	}
	return exec.Command(path, WorkerArgument)
}

// Check reports whether password matches hash, like the function [Check].
func (p *Processes) Check(hash, password string) bool {
	if len(hash) > longestHash || len(password) > Longest {
		return Check(hash, password)
	}
	for {
		w, fresh, err := p.take()
		if err != nil {
			p.pause(err)
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
			p.pause(err)
		} // an idle process may have been killed meanwhile: try another one
	}
}

// Close ends the idle processes. The others end after their check.
func (p *Processes) Close() {
	p.mu.Lock()
	waiting := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, w := range waiting {
		w.end()
	}
}

// take returns an idle process or starts one, which is fresh. It returns nil while no process may
// be started.
func (p *Processes) take() (w *process, fresh bool, err error) {
	p.mu.Lock()
	n := len(p.idle)
	if n > 0 {
		w = p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		w.idleTimer.Stop()
		return w, false, nil
	}
	paused := p.closed || time.Now().Before(p.pausedUntil)
	p.mu.Unlock()
	if paused {
		return nil, false, nil
	}
	w, err = start(p.command(), p.bounds)
	return w, true, err
}

func (p *Processes) pause(err error) {
	p.mu.Lock()
	p.pausedUntil = time.Now().Add(pauseAfterFailure)
	p.mu.Unlock()
	p.log.Warn("passwords are checked in this process for a minute, which slows down other requests: no process for it", "err", err)
}

// giveBack makes a process available for the next check.
func (p *Processes) giveBack(w *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go w.end()
		return
	}
	w.idleTimer = time.AfterFunc(idleProcess, func() { p.endIdle(w) })
	p.idle = append(p.idle, w)
}

// endIdle ends a process if it is still idle.
func (p *Processes) endIdle(w *process) {
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

// bounds are the limits on the time of a check and of the end of a process.
type bounds struct{ check, end time.Duration }

// process is a process that checks one password at a time.
type process struct {
	bounds    bounds
	command   *exec.Cmd
	questions *os.File
	answers   *os.File
	idleTimer *time.Timer
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
	var result [1]byte
	if _, err := io.ReadFull(w.answers, result[:]); err != nil {
		return false, fmt.Errorf("passwords: no answer: %w", err)
	}
	switch result[0] {
	case right:
		return true, nil
	case wrong:
		return false, nil
	}
	return false, errors.New("passwords: the answer is not valid")
}

// end ends a process that makes no check, and kills it if it does not end by itself in time.
func (w *process) end() {
	_, _ = w.questions.Close(), w.answers.Close()
	late := time.AfterFunc(w.bounds.end, func() { _ = w.command.Process.Kill() })
	defer late.Stop()
	_ = w.command.Wait()
}

// kill kills a process that failed.
func (w *process) kill() {
	_ = w.command.Process.Kill()
	w.end()
}
