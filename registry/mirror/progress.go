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

// progress is the state of the mirror in the store. It is committed with every page and read
// with every state of the catalogue, so it must be small.
type progress struct {
	Upstream string `json:"upstream,omitempty"`
	// Crawl is the crawl in progress, nil if there is none.
	Crawl *crawlState `json:"crawl,omitempty"`

	// Watermark is the time, by the clock of the upstream, up to which all updates were read.
	// Anchor is a row that was updated then or later.
	Watermark time.Time `json:"watermark,omitzero"`
	Anchor    *rowName  `json:"anchor,omitempty"`
	// Tag is the ETag of the last crawl if it had a single page, TagOf the queryKey of that
	// crawl.
	Tag   string `json:"tag,omitempty"`
	TagOf string `json:"tag_of,omitempty"`

	Ended     time.Time `json:"ended,omitzero"` // the end of the last successful round
	Full      *Report   `json:"full,omitempty"`
	Increment *Report   `json:"increment,omitempty"`
	// FullDue demands a full crawl in the next round.
	FullDue bool `json:"full_due,omitempty"`
	// ResetAt is the time of the last full crawl because of a missing anchor.
	ResetAt time.Time `json:"reset_at,omitzero"`

	Failure *Failure `json:"failure,omitempty"`
	Shrink  *Shrink  `json:"shrink,omitempty"`

	// Flags is the number of rows with each flag.
	Flags map[string]int `json:"flags,omitempty"`

	registry.Progress // for readers

	// Own has the names of the own servers, sorted. OwnDigest is the digest of the items.
	Own       []string `json:"own,omitempty"`
	OwnDigest string   `json:"own_digest,omitempty"`
}

// crawlState is a crawl in progress.
type crawlState struct {
	Cursor string    `json:"cursor,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// At is the beginning of the crawl, by the clock of the upstream if its answers have a Date.
	At time.Time `json:"at"`
	// Newest is the latest update time in the list, NewestRow its row.
	Newest    time.Time `json:"newest,omitzero"`
	NewestRow *rowName  `json:"newest_row,omitempty"`
	// AnchorSeen reports whether the list has progress.Anchor.
	AnchorSeen bool `json:"anchor_seen,omitempty"`
	// Done reports whether the last page was read.
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
			return progress{}, fmt.Errorf("registry/mirror: the stored progress cannot be read: %w", err)
		}
	}
	if p.Flags == nil {
		p.Flags = map[string]int{}
	}
	return p, nil
}

// isOwn reports whether name is the name of an own server.
func (p *progress) isOwn(name string) bool {
	_, found := slices.BinarySearch(p.Own, name)
	return found
}

// count updates the number of rows with each flag.
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

// stamp returns the update time for changes made now. It is later than all earlier stamps.
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
