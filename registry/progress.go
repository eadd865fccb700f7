package registry

import (
	"encoding/json"
	"time"
)

// Progress is what whoever fills a catalogue tells its readers beside the rows. It is a part
// of what is committed with them.
type Progress struct {
	// Stamp is the last time of an update that was given to a row. The times only rise, so a
	// reader who asks for what was updated since misses nothing.
	Stamp time.Time `json:"stamp,omitzero"`
}

// ParseProgress reads what was committed with the rows of a catalogue. It is zero if that
// says nothing to readers, because something else has filled the catalogue.
func ParseProgress(committed json.RawMessage) (p Progress) {
	if json.Unmarshal(committed, &p) != nil {
		return Progress{}
	}
	return p
}
