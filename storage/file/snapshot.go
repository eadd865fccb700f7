package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gatehouse.example/storage"
)

// Source is a store in a file that can be copied while it is in use: a [Backend], and what
// gatehouse.example/storage/file/local.Open returns.
type Source interface {
	// Snapshot calls begin with the moment of the copy and its size in bytes, and writes so many
	// to the writer that begin returns. The copy has everything that was acknowledged before the
	// call. If the error is not nil, what was written is no copy.
	Snapshot(ctx context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error
}

var _ Source = (*Backend)(nil)

// SnapshotTime is how long [Backend.Snapshot] may take. Meanwhile no page that the copy has is used
// again, so every write makes the file longer.
const SnapshotTime = 15 * time.Minute

// Errors of a snapshot that was given up.
var (
	errSlow    = fmt.Errorf("the copy takes longer than %s, and the file grows meanwhile: write it to a faster disk", SnapshotTime)
	errTight   = errors.New("the disk of the store became nearly full during the copy: write it to another disk")
	errClosing = errors.New("the store was closed during the copy")
)

// Snapshot writes the state of the store that is on the disk; see [Source]. It is given up when it
// takes longer than [SnapshotTime], when the [storage.Room] of the file becomes less meanwhile, and
// when the store is closed, which waits for the writer.
func (b *Backend) Snapshot(ctx context.Context, begin func(of time.Time, size int64) (io.Writer, error)) error {
	ctx, stop := context.WithTimeoutCause(ctx, SnapshotTime, errSlow)
	defer stop()
	if err := b.committer.failure(); err != nil {
		return err
	}
	tx, err := b.readers.take(ctx)
	if err != nil {
		return err
	}
	defer b.readers.give(tx)
	w := &copyWriter{ctx: ctx, backend: b, room: b.Room()}
	w.to, err = begin(time.UnixMilli(b.clock.now().UnixMilli()).UTC(), tx.Size())
	if err != nil {
		return err
	}
	err = guarded(func() error {
		_, err := tx.WriteTo(w)
		return err
	})
	if w.err != nil {
		return w.err // bbolt keeps only the text of some
	}
	return b.named(err)
}

// copyWriter writes a copy until there is a reason to give it up.
type copyWriter struct {
	ctx     context.Context
	to      io.Writer
	backend *Backend
	room    storage.Room // at the beginning: a store whose disk is nearly full can be copied too
	err     error
}

func (w *copyWriter) Write(p []byte) (n int, err error) {
	switch {
	case w.ctx.Err() != nil:
		err = context.Cause(w.ctx)
	case w.backend.ctx.Err() != nil:
		err = errClosing
	case w.backend.Room() > w.room:
		err = errTight
	default:
		n, err = w.to.Write(p)
	}
	w.err = err
	return n, err
}
