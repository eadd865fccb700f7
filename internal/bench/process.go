package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a program that runs beside the generator, on the core of the servers.
type process struct {
	cmd    *exec.Cmd
	output output
	exited chan struct{}
}

// output keeps the end of what a program writes.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if over := len(o.text) - 64<<10; over > 0 {
		o.text = append(o.text[:0], o.text[over:]...)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// start runs a command on the given core; a negative one is any.
func start(core int, env []string, command string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(command, args...), exited: make(chan struct{})}
	p.cmd.Env = append(cleanEnvironment(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := startOn(core, p.cmd); err != nil {
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

// stop ends the program, at last by force.
func (p *process) stop() {
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
			return fmt.Errorf("%s: %w: %s", p.cmd.Path, errEnded, p.output.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w\n%s", p.cmd.Path, err, p.output.String())
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
