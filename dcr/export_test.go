package dcr

import "gatehouse.example/storage"

// ReadDocument makes a client of a document as if it had been read from its address.
func (r *Registry) ReadDocument(address string, body []byte) (storage.Client, error) {
	return r.readDocument(address, body)
}

// Reading reports whether a document is being read.
func (r *Registry) Reading(address string) bool {
	r.published.mu.Lock()
	defer r.published.mu.Unlock()
	return r.published.open[address] != nil
}
