package trail

import "context"

// Look does what Run does each second, Keep what it does each time a head is due.
func (t *Trail) Look() { t.look() }

func (t *Trail) Keep(ctx context.Context) error { return t.keep(ctx, false) }

// Pending returns the size of what waits for the file.
func (t *Trail) Pending() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending)
}

// Kill does what the end of the process does.
func (t *Trail) Kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	_ = t.file.Close()
	_ = t.place.file.Close()
}
