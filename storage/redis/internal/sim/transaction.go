package sim

// queued is the reply to a command between MULTI and EXEC.
const queued = "QUEUED"

// watch is the state of the keys that a connection watches.
type watch struct {
	data    *data
	changes map[string]int
}

func (s *server) watch(keys []string) watch {
	w := watch{s.data, map[string]int{}}
	for _, key := range keys {
		w.changes[key] = s.data.changes[key]
	}
	return w
}

// exec executes the queued commands, unless a watched key has changed. The replies are those of
// the queued commands, nil if they were not executed.
func (c *session) exec() any {
	queue := c.queue
	c.queueing, c.queue = false, nil
	watch, watches := c.s.watches[c.link]
	delete(c.s.watches, c.link)
	if watches && watch.broken(c.s) {
		return nil
	}
	replies := make([]any, len(queue))
	for i, args := range queue {
		replies[i] = c.s.command(args)
	}
	return replies
}

func (w watch) broken(s *server) bool {
	for key, n := range w.changes {
		if s.data.changes[key] != n {
			return true
		}
	}
	return s.data != w.data
}
