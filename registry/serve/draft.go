package serve

import (
	"bytes"
	"sync"
)

// draft is memory in which a page is written before its length is known, so that a page that is kept
// takes no more than its length.
type draft struct {
	text  []byte
	lists lists
}

// maxDraft is the limit of a draft that is used again, in bytes. Few are in use at a time: see builder.
const maxDraft = 1 << 20

var drafts = sync.Pool{New: func() any { return &draft{} }}

// finish returns the page and leaves the draft to another one. A large page is returned as it is: it
// should not be in memory twice.
func (d *draft) finish() []byte {
	if cap(d.text) > maxDraft {
		return d.text
	}
	page := bytes.Clone(d.text)
	drafts.Put(d)
	return page
}
