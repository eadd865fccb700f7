package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
)

// Script is the effect of a script. Its result is its reply: a string, an integer, nil, or an
// error. A write on a replica ends it with an error.
type Script func(tx *Tx, keys, args []string) any

// Script defines what servers do for a script. Call it before any process connects.
func (w *World) Script(text string, run Script) { w.scripts[sha1Of(text)] = run }

func sha1Of(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Tx is a server's data for a script.
type Tx struct {
	s   *server
	err error
}

// Get returns the string under a key.
func (tx *Tx) Get(key string) (value string, there bool) {
	value, there = tx.s.data.strings[key]
	return value, there
}

// Set stores a string.
func (tx *Tx) Set(key, value string) { tx.write(effect{opSet, key, value}) }

// Add adds a member to a sorted set.
func (tx *Tx) Add(key, member string) { tx.write(effect{opAdd, key, member}) }

// Info returns the answer to INFO replication.
func (tx *Tx) Info() string { return tx.s.info() }

func (tx *Tx) write(e effect) {
	switch {
	case tx.err != nil:
	case tx.s.following != nil:
		tx.err = errReadOnly
	default:
		tx.s.execute(e)
	}
}

// Error returns an error reply.
func Error(text string) error { return replyError(text) }

func (s *server) eval(args []string) any {
	sha := sha1Of(args[1])
	s.scripts[sha] = true
	return s.runScript(sha, args)
}

func (s *server) evalSHA(args []string) any {
	if !s.scripts[args[1]] {
		return errNoScript
	}
	return s.runScript(args[1], args)
}

const errUnknownScript = replyError("ERR the world does not know this script")

func (s *server) runScript(sha string, args []string) any {
	run := s.w.scripts[sha]
	n, err := strconv.Atoi(args[2])
	if run == nil || err != nil || n > len(args)-3 {
		return errUnknownScript
	}
	tx := &Tx{s: s}
	reply := run(tx, args[3:3+n], args[3+n:])
	if tx.err != nil {
		return tx.err
	}
	return reply
}
