// Package trail writes the events of package audit to a file of JSON lines that shows when a line
// was changed, removed or moved, and reads such files.
//
//	t, err := trail.Open(ctx, trail.Config{Path: "/var/log/gatehouse/audit.jsonl", Key: key, Heads: store})
//	...
//	go t.Run(ctx)
//	defer t.Close(ctx)
//	t.Record(audit.Event{Kind: audit.SignedIn, By: audit.ByPerson, Person: "sub"})
//
// Each line has a number, the MAC of the line before, and a MAC over itself ([Key]). All lines that
// one process after another wrote to one path are a chain. A chain without a key is a chain of
// hashes: it shows accidents, and nothing that an attacker did.
//
// A path belongs to one process: a second one that opens it is refused ([ErrInUse]), by a lock on the
// file .NAME.lock beside it, which stays. A file that was
// renamed goes on in a new one, whose first line continues the chain; [Trail.Reopen] does so at
// once, [Trail.Run] within a second. Rotation must rename: a file that was copied and truncated is
// reported as damaged, and so is one into which another machine writes ([Figures.Disturbed]).
//
// Each line is in the file when [Trail.Record] returns, so the end of the process by a signal loses
// nothing. A line that could not be written because the disk is full waits in memory; beyond a
// mebibyte lines are lost and counted, and an event with their number follows.
//
// That lines at the end are missing shows by the head ([Heads]): the number of the last line, kept
// elsewhere. Run keeps it every few seconds, and Close at the end. A cut-off end of a process that
// was killed shows up to the head that was kept last.
package trail

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"gatehouse.example/audit"
)

var (
	// ErrInUse is the error of a file that another process writes.
	ErrInUse = errors.New("trail: another process writes this file")
	// ErrHeadOfAnother is the error of a head that a process keeps for the same host and path while
	// this one runs.
	ErrHeadOfAnother = errors.New("trail: another process keeps a head for the same host and path: two processes have one path, or two machines one name")
)

// Config configures [Open]. Path or Output is required.
type Config struct {
	// Path is the file. It is made if it does not exist, for its owner alone.
	Path string
	// Output is written in place of a file, if Path is empty. It begins a new chain.
	Output io.Writer
	// Key is under what the lines are chained. Nil is a chain of hashes: set it wherever somebody
	// may want to change the file.
	Key *Key
	// OldKeys were the Key of earlier processes, so that the end of the file can be checked.
	OldKeys []Key
	// Heads keeps the head of the chain outside the file; nil keeps none.
	Heads Heads
	// Every is the time between two heads. Default five seconds.
	Every time.Duration
	// Program is named in the first line.
	Program string
	// Logger is told when lines cannot be written, and what is wrong with the end of the file.
	// Default: slog.Default.
	Logger *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// maxPending bounds the bytes that wait for the file.
const maxPending = 1 << 20

// Trail writes a chain. It is safe for concurrent use.
type Trail struct {
	cfg    Config
	host   string
	writer string    // identifies this Trail among those that keep heads
	began  time.Time // when it was opened
	before string    // the writer of the head that was there then

	mu      sync.Mutex
	out     io.Writer // the file, or Config.Output
	file    *os.File  // nil for an Output
	place   *place    // nil for an Output
	astray  bool      // another process has the path
	size    int64     // of the file, as far as this process knows
	chain   string
	seq     uint64 // of the last line
	mac     mac    // of the last line
	pending []byte // lines that are not in the file yet, the first perhaps in part
	lost    int    // events that found no place in pending
	failure error  // of the last attempt to write
	figures Figures
	closed  bool
	held    holder

	keepErr error      // of the last attempt to keep the head
	keeping sync.Mutex // one head at a time
	kept    Head       // the head that was kept last
}

// Record writes an event. It fills in the time unless that is set, and cleans the event. It does
// not fail: see [Trail.Failing].
func (t *Trail) Record(e audit.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if e.Time.IsZero() {
		e.Time = t.cfg.Now()
	}
	if !t.held.admit(e, e.Time) {
		return
	}
	t.add(e, nil)
	t.flush()
}

// add appends the line of an event to what is pending, or counts it as lost.
func (t *Trail) add(e audit.Event, about *About) {
	if len(t.pending) >= maxPending {
		t.lost++
		t.figures.Lost++
		return
	}
	t.append(e, about)
}

func (t *Trail) append(e audit.Event, about *About) {
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	text, sum := t.cfg.Key.line(t.seq+1, t.mac, e.Clean(), about)
	t.seq, t.mac = t.seq+1, sum
	t.figures.Lines++
	t.pending = append(t.pending, text...)
}

// flush writes what is pending. What does not get in waits.
func (t *Trail) flush() {
	if len(t.pending) == 0 {
		return
	}
	n, err := t.out.Write(t.pending)
	t.size += int64(n)
	t.pending = t.pending[:copy(t.pending, t.pending[n:])]
	switch {
	case err != nil && t.failure == nil:
		t.cfg.Logger.Error("the audit trail cannot be written: its lines wait in memory", "file", t.cfg.Path, "error", err)
	case err == nil && t.failure != nil:
		t.cfg.Logger.Warn("the audit trail can be written again", "file", t.cfg.Path, "lost", t.lost)
	}
	t.failure = err
	if err == nil && t.lost > 0 {
		lost := t.lost
		t.lost = 0
		t.append(audit.Event{Time: t.cfg.Now(), Kind: audit.Lost, By: audit.ByServer, Count: lost}, nil)
		t.flush()
	}
}

// Failing returns the error of the last attempt to write, nil if every line is in the file. It
// tries again first, so that a program which does nothing while it fails notices the end of that.
func (t *Trail) Failing() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure != nil {
		t.flush()
	}
	return t.failure
}

// Figures are counts since a trail was opened.
type Figures struct {
	// Lines were made, Lost events found no place in memory while they could not be written.
	Lines, Lost uint64
	// Disturbed is how often the file had another size than this process knew: somebody else wrote
	// to it, or truncated it.
	Disturbed uint64
	// Failing says that the last attempt to write failed, HeadFailing that the last one to keep the
	// head did.
	Failing, HeadFailing bool
}

// Figures returns what was counted.
func (t *Trail) Figures() Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.figures.Failing, t.figures.HeadFailing = t.failure != nil, t.keepErr != nil
	return t.figures
}

// Run keeps the head, looks whether the file was renamed, and writes the counts of events that were
// held back, until ctx ends.
func (t *Trail) Run(ctx context.Context) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	heads := time.NewTicker(t.cfg.Every)
	defer heads.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
			t.look()
		case <-heads.C:
			t.keep(ctx, false)
		}
	}
}

// look does what is due each second.
func (t *Trail) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	for _, e := range t.held.due(t.cfg.Now()) {
		t.add(e, nil)
	}
	t.flush()
	if t.file == nil {
		return
	}
	t.measure()
	if t.owns() && t.renamed() {
		t.rotate()
	}
}

// Close writes the counts of events that were held back and the last line, and keeps the head. No
// event is recorded after it.
func (t *Trail) Close(ctx context.Context) error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	for _, e := range t.held.all(t.cfg.Now()) {
		t.add(e, nil)
	}
	t.add(audit.Event{Time: t.cfg.Now(), Kind: audit.Chain, By: audit.ByServer}, &About{Why: WhyClosed, Keyed: t.cfg.Key != nil})
	t.flush()
	t.closed = true
	err := t.failure
	t.mu.Unlock()
	err = errors.Join(err, t.keep(ctx, true))
	if t.file != nil {
		err = errors.Join(err, t.file.Close(), t.place.file.Close())
	}
	return err
}
