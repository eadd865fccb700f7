package dcr

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"gatehouse.example/storage"
)

// pin reads pinned documents by the same rules as fetched ones, and returns every mistake.
func (cs *Clients) pin(documents map[string][]byte) error {
	cs.pinned = make(map[string]storage.Client, len(documents))
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(documents)) {
		client, err := cs.readPinned(id, documents[id])
		if err != nil {
			errs = append(errs, fmt.Errorf("dcr: documents: pinned %q: %w", id, err))
		}
		cs.pinned[id] = client
	}
	return errors.Join(errs...)
}

func (cs *Clients) readPinned(id string, body []byte) (storage.Client, error) {
	switch why := cs.documents.refusesID(id); {
	case !isDocument(id):
		return storage.Client{}, errors.New("client_id: it is not an https URL")
	case why != "":
		return storage.Client{}, errors.New("client_id: " + why)
	case cs.documents.denies(hostOf(id)):
		return storage.Client{}, errors.New("its host is one of those that are denied")
	}
	return cs.readDocument(id, body)
}

// Pinned returns the clients of pinned documents, sorted by client_id.
func (cs *Clients) Pinned() []storage.Client {
	var clients []storage.Client
	for _, id := range slices.Sorted(maps.Keys(cs.pinned)) {
		clients = append(clients, cs.pinned[id])
	}
	return clients
}

// FetchesDocuments reports whether the policy allows documents of any host to be fetched.
func (cs *Clients) FetchesDocuments() bool {
	return cs.SupportsDocuments() && (cs.documents.Trust != TrustDeny || len(cs.documents.Allow) > 0)
}
