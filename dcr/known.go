package dcr

import "gatehouse.example/storage"

// Known returns what is known of a client without a read of the store and without a fetch: a
// configured client or one with a pinned document, and otherwise the id, and whether it is the
// address of a document. It does not say that there is such a client.
func (cs *Clients) Known(id string) storage.Client {
	if client, ok := cs.static[id]; ok {
		return client
	}
	if client, ok := cs.pinned[id]; ok {
		return client
	}
	if isDocument(id) {
		return storage.Client{ID: id, Source: storage.ClientDocument}
	}
	return storage.Client{ID: id, Source: storage.ClientRegistered}
}
