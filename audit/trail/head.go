package trail

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// ErrNoHead is the error of [Heads] for a place without a head.
var ErrNoHead = errors.New("trail: no head is kept")

// Head is the last line of a chain, as it is kept outside the file.
type Head struct {
	Chain string    `json:"chain"`
	Seq   uint64    `json:"seq"`
	MAC   string    `json:"mac"`
	At    time.Time `json:"at"`
	// Closed says that the line is the last one of a process that ended regularly.
	Closed bool `json:"closed,omitempty"`
	// Writer identifies the [Trail] that kept it. Heads of earlier releases have none.
	Writer string `json:"writer,omitempty"`
}

// Heads keeps heads where whoever can change the file cannot change them.
type Heads interface {
	// AuditHead returns the head for a host and the path of its file, or [ErrNoHead].
	AuditHead(ctx context.Context, host, file string) (Head, error)
	// KeepAuditHead replaces it.
	KeepAuditHead(ctx context.Context, host, file string, h Head) error
	// AuditHeads lists all heads. The iteration may go on after an error.
	AuditHeads(ctx context.Context) iter.Seq2[PlacedHead, error]
}

// PlacedHead is a head with the host and the path of its file.
type PlacedHead struct {
	Host string `json:"host"`
	Path string `json:"path"`
	Head
}

// keep puts what was written so far on the disk, and keeps the head. It does nothing if there is
// nothing new.
func (t *Trail) keep(ctx context.Context, closed bool) error {
	t.keeping.Lock()
	defer t.keeping.Unlock()
	t.mu.Lock()
	h := Head{Chain: t.chain, Seq: t.seq, MAC: t.mac.String(), At: t.cfg.Now().UTC(), Closed: closed, Writer: t.writer}
	file, waiting := t.file, len(t.pending) > 0
	t.mu.Unlock()
	if file == nil || waiting || h.Seq == t.kept.Seq && h.Closed == t.kept.Closed {
		return nil
	}
	if err := file.Sync(); err != nil {
		return t.outcome(fmt.Errorf("trail: %w", err))
	}
	if t.cfg.Heads == nil {
		return nil
	}
	err := t.replaces(ctx)
	if err == nil {
		err = t.cfg.Heads.KeepAuditHead(ctx, t.host, t.cfg.Path, h)
	}
	if err != nil {
		return t.outcome(fmt.Errorf("trail: the head cannot be kept: %w", err))
	}
	t.kept = h
	return t.outcome(nil)
}

// replaces returns an error unless the head that is there is one of this process, or of one before
// it: of one that ended, or as a store knows it that lost its last writes or came from a backup.
func (t *Trail) replaces(ctx context.Context) error {
	h, err := t.cfg.Heads.AuditHead(ctx, t.host, t.cfg.Path)
	switch {
	case errors.Is(err, ErrNoHead):
		return nil
	case err != nil:
		return err
	case h.Writer != t.writer && h.Writer != t.before && h.At.After(t.began):
		return ErrHeadOfAnother
	}
	return nil
}

// outcome logs when keeping begins to fail, and when it succeeds again.
func (t *Trail) outcome(err error) error {
	t.mu.Lock()
	before := t.keepErr
	t.keepErr = err
	t.mu.Unlock()
	switch {
	case err != nil && before == nil:
		t.cfg.Logger.Warn("the head of the audit trail cannot be kept: a cut-off end would not show", "error", err)
	case err == nil && before != nil:
		t.cfg.Logger.Info("the head of the audit trail is kept again")
	}
	return err
}
