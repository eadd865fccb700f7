package file

import "context"

// Housekeep does once what is done in the background every second.
func (b *Backend) Housekeep(ctx context.Context) { b.housekeep(ctx) }
