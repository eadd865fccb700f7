package dcr

import (
	"encoding/json"

	"gatehouse.example/storage"
)

// ReadDocument makes a client of a document as if it had been read from its address.
func (cs *Clients) ReadDocument(address string, body []byte) (storage.Client, error) {
	return cs.readDocument(address, body)
}

// Reading reports whether a document is being read.
func (cs *Clients) Reading(address string) bool {
	cs.published.mu.Lock()
	defer cs.published.mu.Unlock()
	return cs.published.pending[address] != nil
}

// EncodedResponse returns the client information response that a JSON text describes, as it is sent
// and as encoding/json writes it, with their errors. It reports false for a text that describes none.
func EncodedResponse(text []byte) (sent, want []byte, errs [2]error, ok bool) {
	var r response
	if json.Unmarshal(text, &r) != nil {
		return nil, nil, errs, false
	}
	sent, errs[0] = r.encode()
	want, errs[1] = json.Marshal(r)
	return sent, want, errs, true
}
