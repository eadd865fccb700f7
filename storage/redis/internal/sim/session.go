package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// session is a connection on which a server executes commands of a process.
type session struct {
	s       *server
	link    *end
	left    [][]string // commands to be executed
	written int64      // the offset of the last write
	wait    *wait      // the WAIT in which it is blocked
	reply   func(replies []any)

	queueing bool // between MULTI and EXEC
	queue    [][]string
}

// wait is an unanswered WAIT.
type wait struct {
	of     *session
	enough int
	offset int64
}

// Error replies of servers.
const (
	errReadOnly  = replyError("READONLY You can't write against a read only replica.")
	errNoScript  = replyError("NOSCRIPT No matching script. Please use EVAL.")
	errUnblocked = replyError("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
	errReplica   = replyError("ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.")
)

// serve executes commands that have arrived together. Their replies go back together, except that
// those before a WAIT go back before it.
func (s *server) serve(link *end, commands [][]string, reply func([]any)) {
	c := &session{s: s, link: link, left: commands, reply: reply}
	link.onClose = func() { s.drop(c) }
	c.goOn()
}

func (c *session) goOn() {
	var replies []any
	for len(c.left) > 0 && c.wait == nil && !c.link.closed {
		args := c.left[0]
		c.left = c.left[1:]
		if strings.EqualFold(args[0], "wait") && !c.queueing {
			if r := c.waitFor(args); r != nil {
				replies = append(replies, r)
			}
			continue
		}
		replies = append(replies, c.command(args))
	}
	if len(replies) > 0 {
		c.send(replies)
	}
}

func (c *session) command(args []string) any {
	before := c.s.offset
	defer func() {
		if c.s.offset != before {
			c.written = c.s.offset
		}
	}()
	switch name := strings.ToLower(args[0]); {
	case name == "exec":
		return c.exec()
	case c.queueing:
		c.queue = append(c.queue, args)
		return queued
	case name == "multi":
		c.queueing = true
		return ok
	case name == "watch":
		c.s.watches[c.link] = c.s.watch(args[1:])
		return ok
	case name == "unwatch":
		delete(c.s.watches, c.link)
		return ok
	}
	return c.s.command(args)
}

func (c *session) send(replies []any) {
	reply := c.reply
	c.link.send(func() { reply(replies) })
}

// waitFor answers a WAIT, or blocks the session and returns nil.
func (c *session) waitFor(args []string) any {
	enough, _ := strconv.Atoi(args[1])
	timeout, _ := strconv.Atoi(args[2])
	s := c.s
	if s.following != nil {
		return errReplica
	}
	w := &wait{of: c, enough: enough, offset: c.written}
	if have := s.confirmed(w.offset); have >= enough {
		return int64(have)
	}
	c.wait = w
	s.waits = append(s.waits, w)
	if timeout > 0 {
		s.after(time.Duration(timeout)*time.Millisecond, func() { s.answer(w, int64(s.confirmed(w.offset))) })
	}
	s.feed(effect{op: opGetAck})
	return nil
}

// confirmed counts the replicas that have reported an offset or a later one.
func (s *server) confirmed(offset int64) int {
	n := 0
	for _, f := range s.followers {
		if f.state == stateOnline && f.acked >= offset {
			n++
		}
	}
	return n
}

// settle answers the waits that have enough replicas.
func (s *server) settle() {
	for _, w := range slices.Clone(s.waits) {
		if have := s.confirmed(w.offset); have >= w.enough {
			s.answer(w, int64(have))
		}
	}
}

func (s *server) answer(w *wait, reply any) {
	c := w.of
	if c.wait != w {
		return
	}
	s.drop(c)
	c.send([]any{reply})
	c.goOn()
}

// drop removes a session from those that wait.
func (s *server) drop(c *session) {
	s.waits = slices.DeleteFunc(s.waits, func(w *wait) bool { return w == c.wait })
	c.wait = nil
}

// unblock ends all waits when the server becomes a replica.
func (s *server) unblock() {
	for _, w := range slices.Clone(s.waits) {
		c := w.of
		s.drop(c)
		c.send([]any{errUnblocked})
		c.link.close()
	}
}
