// Package transfer copies a store to another backend: from a file to Redis when one machine is not
// enough any more, and back.
//
// [Copy] carries every record with its version and its remaining lifetime, and every entry of every
// index. Records are copied as they are: their seals bind the issuer and the operation that wrote
// them, not the backend, so both sides are used with the same issuer and master keys.
//
// A copy marks both stores. The source is marked first, and nothing that is written there later is
// acknowledged: every server behind a [Guard] refuses to use a store with a mark, and notices one
// within [NoticeTime]. The target is marked before its first record, and the mark goes last, when
// the target was read again and is the same. So a copy that was interrupted goes on where the same
// two stores are named again, and no server ever serves a part of one. The mark at the source stays
// for good, unless [Undo] removes it.
//
// Two things are left out: records that are over, and authorization codes that were not redeemed,
// because a code that two stores know could be redeemed twice.
//
// Copy refuses a source that is empty or that the keys do not open, a record that this program does
// not know, and a target that has any record or list without the mark of this very copy.
package transfer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"gatehouse.example/storage"
)

var (
	// ErrKeys means that the master keys or the issuer are not those of the source.
	ErrKeys = errors.New("storage/transfer: the master keys or the issuer are not those of the source")
	// ErrEmpty means that there is nothing to copy.
	ErrEmpty = errors.New("storage/transfer: the source is empty")
	// ErrNotEmpty means that the target has records or lists that no copy from this source began.
	ErrNotEmpty = errors.New("storage/transfer: the target is not empty")
	// ErrDiffers means that the target was read again and is not what the source is: a program wrote
	// to one of them during the copy.
	ErrDiffers = errors.New("storage/transfer: the target is not the same as the source")
	// ErrTaken means that another copy to the same target has begun.
	ErrTaken = errors.New("storage/transfer: another copy to this target has begun")
	// ErrNotMarked means that a store is not the source of a copy.
	ErrNotMarked = errors.New("storage/transfer: the store is not the source of a copy")
)

// Side is one of the two stores.
type Side struct {
	// Name is how the mark at the other store, and people, call it: a URL without secrets.
	Name    string
	Backend storage.IndexLister
}

// Options are the arguments of [Copy].
type Options struct {
	From, To Side
	// Records are the settings of the servers of the source.
	Records storage.Options
	// Wait is how long to wait after the source was marked: [NoticeTime] where servers may be using
	// it, zero where they cannot, such as a file that this process has locked.
	Wait time.Duration
	// Surveyed, if set, is called with what will be copied and what will not, before anything is
	// written to the target.
	Surveyed func(Summary)
	// Progress, if set, is called often while the copy goes on, and must return soon.
	Progress func(Progress)
}

// Stage is a part of a copy.
type Stage string

// The stages, in their order.
const (
	Waiting  Stage = "wait"
	Counting Stage = "count"
	Copying  Stage = "copy"
	Checking Stage = "check"
)

// Progress is how many records and entries of lists a stage has done, of how many. The total is
// zero while it is not known.
type Progress struct {
	Stage       Stage
	Done, Total int
}

// Summary is what a copy carried: in the end what was found at the target, before that what there
// is at the source.
type Summary struct {
	// Resumed means that a copy that was interrupted went on.
	Resumed bool `json:"resumed"`
	// Records are the records by kind, Lists the entries of indexes by the kind of index.
	Records map[string]Tally `json:"records"`
	Lists   map[string]Tally `json:"lists"`
	// Codes are grants that were left out because their code was not redeemed, Over records that
	// were left out because they are over.
	Codes int `json:"codes_left_out"`
	Over  int `json:"over_left_out"`
	// Unverified records were copied although they cannot be read with the master keys and the
	// issuer: they cannot be read at the source either.
	Unverified int `json:"unverified"`
	// Marked means that the source is marked, so that no server uses it, whether or not the copy
	// was finished.
	Marked bool `json:"-"`
}

// total is the number of records and entries.
func (s Summary) total() (n int) {
	for _, all := range []map[string]Tally{s.Records, s.Lists} {
		for _, t := range all {
			n += t.Count
		}
	}
	return n
}

// run is one copy.
type run struct {
	Options
	store    *storage.Store // over the source
	from, to storage.IndexLister
	source   *mark // nil until it is marked
	target   *mark
	out      Summary
	done     int
}

// Copy copies a store and returns what it carried. After an error the same copy may be tried again
// if [Summary.Marked] is set, and goes on. No other program may use the target meanwhile.
func Copy(ctx context.Context, o Options) (Summary, error) {
	r := &run{Options: o, from: o.From.Backend, to: o.To.Backend}
	if r.Progress == nil {
		r.Progress = func(Progress) {}
	}
	if r.Surveyed == nil {
		r.Surveyed = func(Summary) {}
	}
	if r.Records.Now == nil {
		r.Records.Now = time.Now
	}
	if r.Records.Rand == nil {
		r.Records.Rand = rand.Reader
	}
	var err error
	if r.store, err = storage.New(o.From.Backend, r.Records); err != nil {
		return Summary{}, err
	}
	for _, step := range []func(context.Context) error{
		r.open, r.admit, r.markSource, r.wait, r.survey, r.markTarget, r.copyRecords, r.copyLists, r.check, r.finish,
	} {
		if err := step(ctx); err != nil {
			return r.out, err
		}
	}
	return r.out, nil
}

// markSource marks the source, unless it is marked by the same copy.
func (r *run) markSource(ctx context.Context) error {
	if r.source != nil {
		return nil
	}
	id := make([]byte, 16)
	if _, err := io.ReadFull(r.Records.Rand, id); err != nil {
		return fmt.Errorf("storage/transfer: random: %w", err)
	}
	m := mark{Copy: hex.EncodeToString(id), Role: roleSource, Other: r.To.Name, Since: r.Records.Now().UTC()}
	err := r.put(ctx, r.from, &m, storage.Absent)
	if err == nil || errors.Is(err, storage.ErrUncertain) {
		r.source, r.out.Marked = &m, true
	}
	return err
}

// wait gives servers that use the source the time to notice the mark.
func (r *run) wait(ctx context.Context) error {
	r.Progress(Progress{Stage: Waiting})
	select {
	case <-time.After(r.Wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// markTarget marks the target, or takes over the mark of a run before.
func (r *run) markTarget(ctx context.Context) error {
	r.Surveyed(r.out)
	m := mark{Copy: r.source.Copy, Role: roleTarget, Other: r.From.Name, Since: r.source.Since}
	condition := storage.Absent
	if r.target != nil {
		condition = storage.Unchanged(r.target.version)
	}
	r.target = &m
	return r.put(ctx, r.to, &m, condition)
}

// finish first tells servers at the source where it went, and lets the target be used last.
func (r *run) finish(ctx context.Context) error {
	if err := r.holds(ctx); err != nil {
		return err
	}
	done := *r.source
	done.Done = true
	if err := r.put(ctx, r.from, &done, storage.Unchanged(r.source.version)); err != nil {
		return err
	}
	return settled(ctx, func() error { return r.to.Delete(ctx, markKey) })
}

// Undo lets a store be used again that is the source of a copy, and returns what its mark said. If
// the copy was not finished, its target is never used: it has to be emptied before another copy.
// Undoing a finished one is for a target that is lost: what its servers did is not in the source.
func Undo(ctx context.Context, source storage.Backend) (*MarkedError, error) {
	m, err := readMark(ctx, source)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, ErrNotMarked
	case m.Role != roleSource:
		return nil, m.refusal()
	}
	return m.refusal(), settled(ctx, func() error { return source.Delete(ctx, markKey) })
}
