package registry

import (
	"encoding/json"
	"time"
)

// Progress is the part of a catalogue's progress that its readers use. The writer of the
// catalogue commits it with the rows.
type Progress struct {
	// Stamp is the latest update time of all rows. Update times only increase, so a client
	// that asks for the rows updated since a time misses none.
	Stamp time.Time `json:"stamp,omitzero"`
}

// ParseProgress decodes the progress that was committed with the rows of a catalogue. It
// returns the zero Progress if committed has none, because another program wrote it.
func ParseProgress(committed json.RawMessage) (p Progress) {
	if json.Unmarshal(committed, &p) != nil {
		return Progress{}
	}
	return p
}
