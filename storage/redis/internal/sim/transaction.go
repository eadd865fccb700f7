package sim

// queued is the reply to a command between MULTI and EXEC.
const queued = "QUEUED"

// watch is what a connection has found under the keys that it watches.
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

// exec carries out what was queued, unless something changed that the connection watches. The
// replies are those of the queued commands, nil if they were not carried out.
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
