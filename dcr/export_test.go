package dcr

import "gatehouse.example/storage"

// ReadDocument makes a client of a document as if it had been read from its address.
func (r *Registry) ReadDocument(address string, body []byte) (storage.Client, error) {
	return r.readDocument(address, body)
}
