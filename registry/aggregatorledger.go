package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"gatehouse.example/storage/catalogue"
)

// Mode is what a round asks an upstream for.
type Mode string

// The modes.
const (
	ModeFull      Mode = "full"      // everything
	ModeIncrement Mode = "increment" // what was updated
	ModeOwn       Mode = "own"       // nothing: only servers of our own were looked after
)

// Report is what a round did: so far, or altogether.
type Report struct {
	Mode  Mode      `json:"mode"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`

	// Resumed says that it went on where one was interrupted, Restarted that the upstream
	// did not know where to go on, so that it began again.
	Resumed   bool `json:"resumed,omitempty"`
	Restarted bool `json:"restarted,omitempty"`
	// NotModified says that the upstream said that nothing had changed.
	NotModified bool `json:"not_modified,omitempty"`

	Pages int `json:"pages"`
	Items int `json:"items"` // that could be read

	// What became of rows. One that readers see otherwise than before is one of these.
	Added   int `json:"added"`
	Updated int `json:"updated"`
	Deleted int `json:"deleted"`

	// Invalid counts elements that cannot be used, and Examples says why of some.
	Invalid  int      `json:"invalid"`
	Examples []string `json:"examples,omitempty"`
	// Changed counts records that are not what they were, Conflicts those that have the name
	// of a server of our own, Stripped those that spoke under our own key of _meta.
	Changed   int `json:"changed"`
	Conflicts int `json:"conflicts"`
	Stripped  int `json:"stripped"`

	// Judged says that a full crawl could tell what is missing. One that was resumed cannot:
	// what it saw before is not kept.
	Judged bool `json:"judged,omitempty"`
	// Missing counts rows that the upstream does not list any more, Vanished those of them
	// that were deleted for it.
	Missing  int `json:"missing"`
	Vanished int `json:"vanished"`

	// Waits counts how often the upstream had to be asked again.
	Waits int `json:"waits"`
}

// Shrink is a full crawl that did not see so much that nothing was removed for it.
type Shrink struct {
	Since   time.Time `json:"since"`
	Missing int       `json:"missing"`
	Held    int       `json:"held"`
}

// String says it to whoever has to decide.
func (s Shrink) String() string {
	return fmt.Sprintf("the upstream does not list %d of the %d records that were held: it may have been reset, so none was removed; "+
		"if that is right, run authz registry sync --accept-shrink", s.Missing, s.Held)
}

// Failure is why the last round did not end well.
type Failure struct {
	At    time.Time `json:"at"`
	Text  string    `json:"text"`
	Times int       `json:"times"` // in a row
	// RetryAt is when the next one begins.
	RetryAt time.Time `json:"retry_at"`
	// NotBefore is when the upstream wants to be asked again, zero if it did not say. No round
	// asks it before, in whatever process.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// ledger is what the aggregator has come to. It is committed with every page, and read with
// every state, so it is small.
type ledger struct {
	Upstream string `json:"upstream,omitempty"`
	// Crawl is the crawl that is not over, if there is one.
	Crawl *crawlState `json:"crawl,omitempty"`

	// Watermark is up to when the updates of the upstream are known, by its clock, and
	// Anchor a row that was updated then or later.
	Watermark time.Time `json:"watermark,omitzero"`
	Anchor    *rowName  `json:"anchor,omitempty"`
	// Tag is the ETag of the only page of a crawl, TagOf what that crawl asked for.
	Tag   string `json:"tag,omitempty"`
	TagOf string `json:"tag_of,omitempty"`

	Ended     time.Time `json:"ended,omitzero"` // the last round that ended well
	Full      *Report   `json:"full,omitempty"`
	Increment *Report   `json:"increment,omitempty"`
	// FullDue says that everything has to be asked for, whenever that was done last.
	FullDue bool `json:"full_due,omitempty"`
	// ResetAt is when a full crawl was last begun because the anchor was gone.
	ResetAt time.Time `json:"reset_at,omitzero"`

	Failure *Failure `json:"failure,omitempty"`
	Shrink  *Shrink  `json:"shrink,omitempty"`

	// Flags counts the rows with a flag.
	Flags map[string]int `json:"flags,omitempty"`
	// Stamp is the last time of an update that was given to a row. They only rise, so that
	// whoever asks for what was updated since misses nothing.
	Stamp time.Time `json:"stamp,omitzero"`

	// Own are the names of the servers of our own, OwnDigest what they were made from.
	Own       []string `json:"own,omitempty"`
	OwnDigest string   `json:"own_digest,omitempty"`
}

// crawlState is a crawl that is under way.
type crawlState struct {
	Cursor string    `json:"cursor,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// At is when it began, by the clock of the upstream if it tells.
	At time.Time `json:"at"`
	// Newest is the last update that was seen, NewestRow of what.
	Newest    time.Time `json:"newest,omitzero"`
	NewestRow *rowName  `json:"newest_row,omitempty"`
	// Done says that there is no further page.
	Done   bool   `json:"done,omitempty"`
	Tag    string `json:"tag,omitempty"` // of the first page
	Report Report `json:"report"`
}

// rowName names a row.
type rowName struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func readLedger(st catalogue.State) (l ledger, err error) {
	if len(st.Progress) > 0 {
		if err := json.Unmarshal(st.Progress, &l); err != nil {
			return ledger{}, fmt.Errorf("registry: aggregator: what was come to cannot be read: %w", err)
		}
	}
	if l.Flags == nil {
		l.Flags = map[string]int{}
	}
	return l, nil
}

// SyncStatus is how the catalogue is kept, for people and for metrics.
type SyncStatus struct {
	Upstream string `json:"upstream,omitempty"`
	// Running is the round that is under way or was interrupted.
	Running *Report `json:"running,omitempty"`
	// LastFull and LastIncrement are the last rounds of each kind that ended well.
	LastFull      *Report `json:"last_full,omitempty"`
	LastIncrement *Report `json:"last_increment,omitempty"`
	// LastSync is when a round ended well last.
	LastSync time.Time `json:"last_sync,omitzero"`
	Failure  *Failure  `json:"failure,omitempty"`
	// Shrink is set while somebody has to decide whether what is missing is to be removed.
	Shrink *Shrink `json:"shrink,omitempty"`

	// Servers counts those with a version that is not deleted, Rows all versions that are
	// not, Deleted the others.
	Servers int `json:"servers"`
	Rows    int `json:"rows"`
	Deleted int `json:"deleted"`
	// Own counts the servers of our own, and the others rows with a flag.
	Own       int `json:"own"`
	Changed   int `json:"changed"`
	Conflicts int `json:"conflicts"`
	Vanished  int `json:"vanished"`
	Shadowed  int `json:"shadowed"`
	// UnknownStatus counts those that are hidden because the upstream gives them a status
	// that is none of the three.
	UnknownStatus int `json:"unknown_status"`

	// Writer is who fills the catalogue at this moment, "" for nobody.
	Writer string `json:"writer,omitempty"`
	// Committed and CommittedAt are the last change that readers see.
	Committed   uint64    `json:"committed"`
	CommittedAt time.Time `json:"committed_at,omitzero"`
}

// ReadStatus reads how a catalogue is kept, by whatever process.
func ReadStatus(ctx context.Context, c *catalogue.Catalogue) (SyncStatus, error) {
	st, err := c.State(ctx)
	if err != nil {
		return SyncStatus{}, err
	}
	l, err := readLedger(st)
	if err != nil {
		return SyncStatus{}, err
	}
	return l.status(st), nil
}

func (l ledger) status(st catalogue.State) SyncStatus {
	s := SyncStatus{
		Upstream: l.Upstream, LastFull: l.Full, LastIncrement: l.Increment, LastSync: l.Ended, Failure: l.Failure, Shrink: l.Shrink,
		Servers: st.Servers, Rows: st.Live, Deleted: st.Deleted, Own: len(l.Own),
		Changed: l.Flags[FlagChanged], Conflicts: l.Flags[FlagConflict], Vanished: l.Flags[FlagVanished], Shadowed: l.Flags[FlagShadowed],
		UnknownStatus: l.Flags[FlagStatus],
		Committed:     st.Committed, CommittedAt: st.Changed,
	}
	if l.Crawl != nil {
		s.Running = &l.Crawl.Report
	}
	if st.Leased {
		s.Writer = st.Owner
	}
	return s
}

// isOwn reports whether a server is one of our own.
func (l *ledger) isOwn(name string) bool {
	_, found := slices.BinarySearch(l.Own, name)
	return found
}

// count keeps the numbers of flags when a row changes.
func (l *ledger) count(c change) {
	if c.was != nil {
		for _, flag := range c.was.Flags {
			l.Flags[flag]--
		}
	}
	for _, flag := range c.Flags {
		l.Flags[flag]++
	}
	maps.DeleteFunc(l.Flags, func(_ string, n int) bool { return n == 0 })
}

// stamp returns a time for what changes now.
func (l *ledger) stamp(now time.Time) time.Time {
	l.Stamp = later(now.UTC().Truncate(time.Microsecond), l.Stamp.Add(time.Microsecond))
	return l.Stamp
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// maxExamples and maxExample bound what a report says about invalid items.
const (
	maxExamples = 3
	maxExample  = 160
)

// invalid counts an element that cannot be used.
func (r *Report) invalid(name, version string, err error) {
	r.Invalid++
	if len(r.Examples) >= maxExamples {
		return
	}
	text := err.Error()
	if name != "" {
		text = name + " " + version + ": " + text
	}
	if runes := []rune(text); len(runes) > maxExample {
		text = string(runes[:maxExample]) + "..."
	}
	r.Examples = append(r.Examples, text)
}

// became counts what a change of a row means to readers.
func (r *Report) became(c change) {
	switch {
	case c.was == nil:
		r.Added++
	case live(*c.was) && !live(c.entry):
		r.Deleted++
	case differs(*c.was, c.entry):
		r.Updated++
	}
}
