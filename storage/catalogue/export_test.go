package catalogue

import "encoding/json"

// RowHead returns the head of a row as this package reads it without encoding/json, nil for another
// form than that which is written, and as encoding/json reads it.
func RowHead(data []byte) (here, there any, err error) {
	var h rowHead
	err = json.Unmarshal(data, &h)
	if own, ok := parseRowHead(&rowRoom{}, data); ok {
		here = own
	}
	return here, h, err
}

// RowHeadOf returns the head of a row with two versions as it is stored.
func RowHeadOf(current, previous *Entry) []byte {
	var r storedRow
	if current != nil {
		r.current = versionOf(*current, 1<<63)
		r.current.Size = 3
	}
	if previous != nil {
		r.previous = versionOf(*previous, 0)
	}
	data, _ := json.Marshal(r.record("").Head) // cannot fail
	return data
}
