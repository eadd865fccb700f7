package dcr

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"gatehouse.example/storage"
)

// pin reads the documents that the configuration pins, under every rule of documents that are
// fetched, and returns every mistake.
func (r *Registry) pin(documents map[string][]byte) error {
	r.pinned = make(map[string]storage.Client, len(documents))
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(documents)) {
		client, err := r.readPinned(id, documents[id])
		if err != nil {
			errs = append(errs, fmt.Errorf("dcr: documents: pinned %q: %w", id, err))
		}
		r.pinned[id] = client
	}
	return errors.Join(errs...)
}

func (r *Registry) readPinned(id string, body []byte) (storage.Client, error) {
	switch why := r.documents.refusesID(id); {
	case !isDocument(id):
		return storage.Client{}, errors.New("client_id: it is not an https URL")
	case why != "":
		return storage.Client{}, errors.New("client_id: " + why)
	case r.documents.denies(hostOf(id)):
		return storage.Client{}, errors.New("its host is one of those that are denied")
	}
	return r.readDocument(id, body)
}

// Pinned are the clients whose documents the configuration pins, by client_id.
func (r *Registry) Pinned() []storage.Client {
	var clients []storage.Client
	for _, id := range slices.Sorted(maps.Keys(r.pinned)) {
		clients = append(clients, r.pinned[id])
	}
	return clients
}

// FetchesDocuments reports whether there are hosts from which documents are fetched.
func (r *Registry) FetchesDocuments() bool {
	return r.SupportsDocuments() && (r.documents.Trust != TrustDeny || len(r.documents.Allow) > 0)
}
