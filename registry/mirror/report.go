package mirror

import (
	"fmt"
	"time"
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

	// What countChange of rows. One that readers see otherwise than before is one of these.
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

// Shrink is a full crawl that lacked so many records that none was removed: somebody has to
// decide whether the upstream lost them.
type Shrink struct {
	Since   time.Time `json:"since"`
	Missing int       `json:"missing"`
	Held    int       `json:"held"`
}

// String tells whoever has to decide.
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

// maxExamples and maxExample bound what a report says about invalid items.
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

// countChange counts what a change of a row means to readers.
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
