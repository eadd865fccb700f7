package mirror

import (
	"fmt"
	"time"
)

// Mode is the part of the upstream that a round reads.
type Mode string

// The modes.
const (
	ModeFull      Mode = "full"      // everything
	ModeIncrement Mode = "increment" // the updates
	ModeOwn       Mode = "own"       // nothing: the round published own servers alone
)

// Report is the result of a round, or of a round in progress so far.
type Report struct {
	Mode  Mode      `json:"mode"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`

	// Resumed reports whether the round continued an interrupted crawl. Restarted reports
	// whether the crawl began again because the upstream refused the stored cursor.
	Resumed   bool `json:"resumed,omitempty"`
	Restarted bool `json:"restarted,omitempty"`
	// NotModified reports whether the upstream answered 304 to the first page.
	NotModified bool `json:"not_modified,omitempty"`

	Pages int `json:"pages"`
	Items int `json:"items"` // valid items

	// Added, Updated and Deleted count the rows whose change readers can see. Each row counts
	// as one of them.
	Added   int `json:"added"`
	Updated int `json:"updated"`
	Deleted int `json:"deleted"`

	// Invalid counts elements that cannot be used. Examples has the errors of the first ones.
	Invalid  int      `json:"invalid"`
	Examples []string `json:"examples,omitempty"`
	// Changed counts items whose record differs from the first one under the same name and
	// version, Conflicts items with the name of an own server, and Stripped items from which
	// the registry's own key of _meta was removed.
	Changed   int `json:"changed"`
	Conflicts int `json:"conflicts"`
	Stripped  int `json:"stripped"`

	// Judged reports whether a full crawl could determine the missing rows. A resumed crawl
	// cannot: the rows listed before the interruption are not stored.
	Judged bool `json:"judged,omitempty"`
	// Missing counts rows that the upstream does not list any more, Vanished the rows that
	// were deleted for that reason.
	Missing  int `json:"missing"`
	Vanished int `json:"vanished"`

	// Waits counts the waits before repeated requests.
	Waits int `json:"waits"`
}

// Shrink describes full crawls that missed so many rows that none was removed. The operator has
// to decide whether the upstream lost them.
type Shrink struct {
	Since   time.Time `json:"since"`
	Missing int       `json:"missing"` // rows that the upstream does not list
	Held    int       `json:"held"`    // rows of the upstream in the catalogue
}

// String returns a sentence for the operator, with the command that accepts the loss.
func (s Shrink) String() string {
	return fmt.Sprintf("the upstream does not list %d of the %d records that were held: it may have been reset, so none was removed; "+
		"if that is right, run authz registry sync --accept-shrink", s.Missing, s.Held)
}

// Failure describes why the last round failed.
type Failure struct {
	At    time.Time `json:"at"`
	Text  string    `json:"text"`
	Times int       `json:"times"` // consecutive failed rounds
	// RetryAt is the time of the next round.
	RetryAt time.Time `json:"retry_at"`
	// NotBefore is the time that the upstream's Retry-After demands, zero if it sent none. No
	// process sends a request before.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// maxExamples is the maximum number of examples of invalid items in a report, maxExample the
// length limit of one in characters.
const (
	maxExamples = 3
	maxExample  = 160
)

// addInvalid counts an element that cannot be used.
func (r *Report) addInvalid(name, version string, err error) {
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

// countChange counts a change as an addition, deletion or update, or not at all if readers
// cannot see it.
func (r *Report) countChange(c change) {
	switch {
	case c.before == nil:
		r.Added++
	case live(*c.before) && !live(c.entry):
		r.Deleted++
	case differs(*c.before, c.entry):
		r.Updated++
	}
}
