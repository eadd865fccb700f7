package sim

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	goredis "github.com/redis/go-redis/v9"
)

// Process is a program that uses the servers and asks the sentinels. While it is stalled its
// commands neither leave nor come back; between two commands no time passes for it.
type Process struct {
	*node
	// watching are the connections that watch keys, by the address of the server.
	watching map[string]*end
}

// Process adds a process to the world.
func (w *World) Process(name string) *Process {
	defer w.enter()()
	return &Process{w.newNode(name, name), map[string]*end{}}
}

// Connect returns a client for the server or sentinel at an address. Whatever its commands and
// settings, it opens no connection.
func (p *Process) Connect(addr string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{
		Addr: addr, Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	c.AddHook(hook{p, addr})
	return c
}

// hook answers the commands of a client.
type hook struct {
	p    *Process
	addr string
}

// DialHook implements goredis.Hook. Nothing is dialled.
func (hook) DialHook(goredis.DialHook) goredis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
}

// ProcessHook implements goredis.Hook.
func (h hook) ProcessHook(goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		h.p.call(ctx, h.addr, []goredis.Cmder{cmd})
		return cmd.Err()
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (h hook) ProcessPipelineHook(goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		h.p.call(ctx, h.addr, cmds)
		if cmds[0].Name() == "multi" {
			return setTransaction(cmds)
		}
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil {
				return err
			}
		}
		return nil
	}
}

// request is a pipeline that waits for replies.
type request struct {
	replies []any
	failed  error // why there are no more replies
	done    chan struct{}
}

// call sends commands on a connection and waits for their replies.
func (p *Process) call(ctx context.Context, addr string, cmds []goredis.Cmder) {
	if ctx.Err() != nil {
		setReplies(cmds, nil, p.unsent(ctx.Err()))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.w.cfg.CommandTime)
	defer cancel()
	p.resumed()
	r, link := p.begin(addr, commandsOf(cmds))
	select {
	case <-r.done:
	case <-ctx.Done():
		p.resumed()
	}
	defer p.w.enter()()
	p.w.waiting--
	switch {
	case len(r.replies) == len(cmds):
		if link != p.watching[addr] { // keys are watched on one connection
			link.abandon() // as if it went back to a pool
		}
	case r.failed == nil:
		r.failed = timedOut(ctx)
		link.close()
	}
	setReplies(cmds, r.replies, r.failed)
}

func timedOut(ctx context.Context) error {
	if err := ctx.Err(); err == context.Canceled {
		return err
	}
	return &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
}

// begin sends commands.
func (p *Process) begin(addr string, commands [][]string) (*request, *end) {
	w := p.w
	defer w.enter()()
	w.waiting++
	r := &request{done: make(chan struct{})}
	to := w.addrs[addr]
	if to == nil {
		r.fail(p.unsent(syscall.EHOSTUNREACH))
		return r, nil
	}
	own := p.connection(addr, to, commands)
	if own.closed {
		r.fail(io.EOF)
		return r, own
	}
	theirs := own.peer
	refused := theirs.closed
	own.onClose = func() {
		if refused {
			r.fail(p.unsent(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}))
		} else {
			r.fail(io.EOF)
		}
	}
	own.send(func() {
		w.program(to).serve(theirs, commands, func(replies []any) { r.add(replies, len(commands)) })
	})
	return r, own
}

// connection opens a connection, or returns the one that watches keys, on which transactions are
// sent.
func (p *Process) connection(addr string, to *node, commands [][]string) *end {
	first := commands[0][0]
	if own := p.watching[addr]; own != nil && (first == "multi" || first == "unwatch") {
		delete(p.watching, addr)
		return own
	}
	own, _ := p.connect(to, hash(fmt.Sprint(commands)))
	if first == "watch" {
		p.watching[addr] = own
	}
	return own
}

// program answers commands.
type program interface {
	serve(link *end, commands [][]string, reply func([]any))
}

func (w *World) program(n *node) program {
	for _, s := range w.sentinels {
		if s.node == n {
			return s
		}
	}
	return w.server(n.addr)
}

// server returns the server at an address, nil if there is none.
func (w *World) server(addr string) *server {
	for _, s := range w.servers {
		if s.addr == addr {
			return s
		}
	}
	return nil
}

func (r *request) add(replies []any, all int) {
	if r.replies = append(r.replies, replies...); len(r.replies) == all {
		r.end()
	}
}

func (r *request) fail(err error) {
	r.failed = err
	r.end()
}

func (r *request) end() {
	select {
	case <-r.done:
	default:
		close(r.done)
	}
}

// resumed returns when the process is awake.
func (p *Process) resumed() {
	awake := make(chan struct{})
	func() {
		defer p.w.enter()()
		p.w.waiting++
		p.do(nil, func() { close(awake) })
	}()
	<-awake
	defer p.w.enter()()
	p.w.waiting--
}

func (p *Process) unsent(err error) error {
	if p.w.cfg.Unsent != nil {
		return p.w.cfg.Unsent(err)
	}
	return err
}

// Name returns the name of the process.
func (p *Process) Name() string { return p.name }
