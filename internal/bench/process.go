package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that runs beside the generator, on the core of the servers.
type process struct {
	cmd    *exec.Cmd
	log    *os.File // what it writes: a pipe to the generator would wake it at each line
	exited chan struct{}
}

// output returns the end of what the program wrote.
func (p *process) output() string {
	const most = 64 << 10
	info, err := p.log.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(0, info.Size()-most)
	text, _ := io.ReadAll(io.NewSectionReader(p.log, from, most))
	return string(text)
}

// start runs a command on the given core; a negative one is any.
func start(core int, env []string, command string, args ...string) (*process, error) {
	log, err := os.CreateTemp("", "gatehouse-bench-log-")
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(command, args...), log: log, exited: make(chan struct{})}
	p.cmd.Env = append(cleanEnvironment(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := startOn(core, p.cmd); err != nil {
		p.forget()
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// cleanEnvironment is the environment without settings of the server.
func cleanEnvironment() (env []string) {
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "AUTHZ_") {
			env = append(env, pair)
		}
	}
	return env
}

// forget removes the log.
func (p *process) forget() {
	_ = p.log.Close()
	_ = os.Remove(p.log.Name())
}

// stop ends the program, at last by force, and removes its log.
func (p *process) stop() {
	defer p.forget()
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// errEnded means that a program ended by itself.
var errEnded = errors.New("the program ended")

// await calls ready until it answers nil, the program ends or patience does.
func (p *process) await(ctx context.Context, ready func() error) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s: %w: %s", p.cmd.Path, errEnded, p.output())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w\n%s", p.cmd.Path, err, p.output())
		}
	}
}

// answering returns a function that asks a server for a document, and reports a status other than 200.
func answering(path string) func(address string) error {
	return func(address string) error {
		w := newWire(address, host)
		defer w.close()
		a, err := w.get(path)
		return check(a, err, 200, "")
	}
}

// resident returns the memory of a process in bytes, and zero where the system does not tell.
func (p *process) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("VmRSS:"))
	line, _, _ := strings.Cut(string(rest), "kB")
	n, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return n << 10
}

// freeAddress returns a loopback address on which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
