package file

import "context"

// Housekeep does once what is done in the background every second.
func (b *Backend) Housekeep(ctx context.Context) { b.housekeep(ctx) }

// CheckPlace returns what is wrong with what is under a path.
func CheckPlace(path string) error { return checkPlace(path) }

// Closing is closed when the backend begins to close.
func (b *Backend) Closing() <-chan struct{} { return b.ctx.Done() }
