package dcr

import "gatehouse.example/storage"

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
