package mirror

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/storage/catalogue"
)

// progress is how far the mirror has come. It is committed with every page, and read with
// every state, so it is small.
type progress struct {
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

	registry.Progress // what readers use

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

func readProgress(st catalogue.State) (p progress, err error) {
	if len(st.Progress) > 0 {
		if err := json.Unmarshal(st.Progress, &p); err != nil {
			return progress{}, fmt.Errorf("registry/mirror: the progress on record cannot be read: %w", err)
		}
	}
	if p.Flags == nil {
		p.Flags = map[string]int{}
	}
	return p, nil
}

// isOwn reports whether a server is one of our own.
func (p *progress) isOwn(name string) bool {
	_, found := slices.BinarySearch(p.Own, name)
	return found
}

// count keeps the numbers of flags when a row changes.
func (p *progress) count(c change) {
	if c.before != nil {
		for _, flag := range c.before.Flags {
			p.Flags[flag]--
		}
	}
	for _, flag := range c.Flags {
		p.Flags[flag]++
	}
	maps.DeleteFunc(p.Flags, func(_ string, n int) bool { return n == 0 })
}

// stamp returns a time of update for what changes now, later than all before.
func (p *progress) stamp(now time.Time) time.Time {
	p.Stamp = later(now.UTC().Truncate(time.Microsecond), p.Stamp.Add(time.Microsecond))
	return p.Stamp
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
