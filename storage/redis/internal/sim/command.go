package sim

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// replyError is an error that a server answers. It is a goredis.Error.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError marks it as a reply.
func (replyError) RedisError() {}

// command is a command of servers.
type command struct {
	least  int // the smallest number of arguments, with the name
	writes bool
	run    func(s *server, args []string) any
}

// ok is the reply of a command that returns nothing.
const ok = "OK"

// commands are the commands of servers. Replies are strings, integers, lists, errors, and nil.
var commands map[string]command

func init() { // a script runs commands
	commands = map[string]command{
		"ping":        {1, false, func(*server, []string) any { return "PONG" }},
		"info":        {1, false, func(s *server, args []string) any { return s.infoOf(args[1:]) }},
		"get":         {2, false, func(s *server, args []string) any { return s.get(args[1]) }},
		"exists":      {2, false, func(s *server, args []string) any { return count(s.data.exists(args[1])) }},
		"zcard":       {2, false, func(s *server, args []string) any { return int64(len(s.data.sets[args[1]])) }},
		"zrangebylex": {4, false, func(s *server, args []string) any { return s.page(args) }},
		"config":      {3, false, func(*server, []string) any { return []any{} }},
		"script":      {2, false, func(*server, []string) any { return []any{} }},
		"set":         {3, true, (*server).set},
		"del":         {2, true, (*server).del},
		"zadd":        {4, true, func(s *server, args []string) any { return s.member(opAdd, args[1], args[len(args)-1]) }},
		"zrem":        {3, true, func(s *server, args []string) any { return s.member(opRemove, args[1], args[2]) }},
		"eval":        {3, false, (*server).eval},
		"evalsha":     {3, false, (*server).evalSHA},
		"client":      {2, false, func(*server, []string) any { return ok }},
		"readonly":    {1, false, func(*server, []string) any { return ok }},
		"replicaof":   {3, false, (*server).replicaOfCommand},
		"debug":       {2, false, func(*server, []string) any { return replyError("ERR nothing to debug") }},
	}
}

// command executes a command of a process.
func (s *server) command(args []string) any {
	c, known := commands[strings.ToLower(args[0])]
	switch {
	case !known:
		return replyError("ERR unknown command '" + args[0] + "'")
	case len(args) < c.least:
		return replyError("ERR wrong number of arguments for '" + args[0] + "' command")
	case c.writes && s.following != nil:
		return errReadOnly
	}
	return c.run(s, args)
}

func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// infoOf answers INFO. Sections other than replication are those of a server without a memory
// limit and with appendfsync always.
func (s *server) infoOf(sections []string) any {
	b := &strings.Builder{}
	for _, section := range sections {
		switch strings.ToLower(section) {
		case "replication":
			b.WriteString(s.info())
		case "memory":
			b.WriteString("# Memory\r\nused_memory:1000000\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nmem_not_counted_for_evict:0\r\n")
		case "server":
			b.WriteString("# Server\r\nredis_version:7.0.15\r\nrun_id:" + s.runID + "\r\n")
		case "persistence":
			b.WriteString("# Persistence\r\nloading:0\r\naof_enabled:1\r\n")
		}
	}
	return b.String()
}

func (s *server) get(key string) any {
	if value, there := s.data.strings[key]; there {
		return value
	}
	return nil
}

func (s *server) set(args []string) any {
	_, there := s.data.strings[args[1]]
	for _, option := range args[3:] {
		if strings.EqualFold(option, "nx") && there || strings.EqualFold(option, "xx") && !there {
			return nil
		}
	}
	s.execute(effect{opSet, args[1], args[2]})
	return ok
}

func (s *server) del(args []string) any {
	n := int64(0)
	for _, key := range args[1:] {
		if s.data.exists(key) {
			s.execute(effect{opDel, key, ""})
			n++
		}
	}
	return n
}

// member adds a member to a sorted set or removes it, if that changes something.
func (s *server) member(op, key, value string) any {
	if s.data.sets[key][value] == (op == opAdd) {
		return int64(0)
	}
	s.execute(effect{op, key, value})
	return int64(1)
}

// page answers ZRANGEBYLEX from an inclusive member to the end, with LIMIT.
func (s *server) page(args []string) any {
	members := s.data.members(args[1])
	from, _ := slices.BinarySearch(members, strings.TrimPrefix(args[2], "["))
	members = members[from:]
	if len(args) == 7 {
		limit, _ := strconv.Atoi(args[6])
		members = members[:min(limit, len(members))]
	}
	list := make([]any, len(members))
	for i, m := range members {
		list[i] = m
	}
	return list
}

// replicaOfCommand is REPLICAOF from a process: unlike the command of a sentinel it does not
// change the configuration and closes no connections.
func (s *server) replicaOfCommand(args []string) any {
	if strings.EqualFold(args[1], "no") {
		s.replicaOf("")
	} else {
		s.replicaOf(net.JoinHostPort(args[1], args[2]))
	}
	return ok
}
