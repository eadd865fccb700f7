package authz

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"gatehouse.example/metadata"
)

// changingAge is the time for which caches may keep server metadata that may change.
const changingAge = 30 * time.Second

// servedDocuments are the metadata documents that describe one resource set.
type servedDocuments struct {
	of      *resourceSet
	without http.Handler // client metadata documents are not offered
	with    http.Handler
}

// serverMetadata returns a handler that serves the current metadata; it is the same at all
// its addresses.
func (s *Server) serverMetadata() (http.Handler, error) {
	first, err := s.describe(s.resources.current.Load())
	if err != nil {
		return nil, err
	}
	var served atomic.Pointer[servedDocuments]
	served.Store(first)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := served.Load()
		if set := s.resources.take(r.Context()); set != now.of {
			next, err := s.describe(set)
			if err != nil {
				s.cfg.Logger.ErrorContext(r.Context(), "the metadata cannot be written", "error", err)
			} else {
				served.Store(next)
				now = next
			}
		}
		if s.offersDocuments(r.Context()) {
			now.with.ServeHTTP(w, r)
			return
		}
		now.without.ServeHTTP(w, r)
	}), nil
}

// describe returns the documents for a resource set.
func (s *Server) describe(set *resourceSet) (*servedDocuments, error) {
	age := metadata.MaxAge
	if s.egress != nil || set.changes() {
		age = changingAge
	}
	out := &servedDocuments{of: set}
	for documents, to := range map[bool]*http.Handler{false: &out.without, true: &out.with} {
		doc := s.document(set, documents)
		handler, err := metadata.ServeFor(doc, age)
		if err := errors.Join(doc.Validate(), err); err != nil {
			return nil, err
		}
		*to = handler
	}
	return out, nil
}

// changes reports whether the set has resources of the store, which may come and go.
func (s *resourceSet) changes() bool {
	return len(s.entries) > 0 && s.entries[len(s.entries)-1].stored || len(s.ended) > 0 || !s.endedPatterns.Empty()
}

// ifIntrospected returns a handler that calls next while there is a resource that may
// introspect. Otherwise there is no such endpoint.
func (s *Server) ifIntrospected(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.resources.current.Load().introspect {
			notFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
