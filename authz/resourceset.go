package authz

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/authz/internal/uripattern"
	"gatehouse.example/storage"
)

// resourceSet is the resources of the configuration and of the store together, with their
// scopes. It never changes: a request takes one set at its start and decides everything by it.
type resourceSet struct {
	entries    []*resourceEntry // those of the configuration in their order, then those of the store by age
	exact      map[string]*resourceEntry
	patterns   uripattern.Tree[*resourceEntry]
	byClient   map[string]*resourceEntry // by client_id at /introspect, without those of patterns
	defaultURI string                    // the resource of requests without a resource parameter, or ""

	// ended is when an entry of the store was removed last, for its URI or pattern.
	ended         map[string]time.Time
	endedPatterns uripattern.Tree[time.Time]

	scopes     []string        // all scopes that a client may ask for, offline_access last
	known      map[string]bool // the same
	problems   []ResourceProblem
	introspect bool // there is a resource that may introspect

	groupsOf    map[string]bool // the providers whose groups a rule about people names
	tellsGroups bool            // a resource is told the groups of people
}

// resourceEntry is a resource, or a pattern for many. A disabled one still claims its URIs, so
// that no pattern opens them again.
type resourceEntry struct {
	Resource
	stored   bool
	disabled bool
	pattern  bool
	secret   storage.SecretHash // of the resource server at /introspect, if it is not a pattern
	key      string             // from which the secrets of the URIs of a pattern are derived
}

// ResourceProblem says why a resource of the store does not count, or not as it stands there.
type ResourceProblem struct {
	// URI is that of the resource, or the pattern.
	URI string
	// Why is a sentence for the operator, with what to do.
	Why string
}

// storedResource is a resource of the store as it was read.
type storedResource struct {
	storage.Resource
	key        string // IntrospectionKey, opened
	unreadable error
}

// newResourceSet returns the set of valid resources of a configuration and of those of a store,
// which are sorted by age. Where they contradict each other, those of the configuration count,
// and of two in the store the older one.
func newResourceSet(configured []Resource, stored []storedResource) *resourceSet {
	s := &resourceSet{exact: map[string]*resourceEntry{}, byClient: map[string]*resourceEntry{}, ended: map[string]time.Time{}, groupsOf: map[string]bool{}}
	for _, r := range configured {
		s.admit(configuredEntry(r))
		if r.Default || len(configured) == 1 && !uripattern.Is(r.URI) {
			s.defaultURI = r.URI
		}
	}
	meanings := s.meanings()
	for _, r := range stored {
		s.remember(r.Resource)
		if r.Removed {
			continue
		}
		e, why := s.storedEntry(r, meanings)
		if why != "" {
			s.problems = append(s.problems, ResourceProblem{URI: cmp.Or(r.URI, r.ID), Why: why})
		}
		if e != nil {
			s.admit(e)
		}
	}
	s.scopes = s.allScopes()
	s.known = make(map[string]bool, len(s.scopes))
	for _, name := range s.scopes {
		s.known[name] = true
	}
	return s
}

func configuredEntry(r Resource) *resourceEntry {
	e := &resourceEntry{Resource: r, pattern: uripattern.Is(r.URI)}
	switch i := r.Introspection; {
	case i == nil:
	case e.pattern:
		e.key = i.Secret
	default:
		e.secret = storage.HashSecret(i.Secret)
	}
	return e
}

// admit adds an entry that contradicts no other one.
func (s *resourceSet) admit(e *resourceEntry) {
	s.entries = append(s.entries, e)
	s.dependOnGroups(e)
	if e.pattern {
		if p, err := uripattern.Parse(e.URI); err == nil {
			s.patterns.Add(p, e)
		}
		s.introspect = s.introspect || e.key != "" && !e.disabled
		return
	}
	s.exact[e.URI] = e
	if len(e.secret) > 0 && !e.disabled {
		s.byClient[e.clientID()] = e
		s.introspect = true
	}
}

// dependOnGroups records which groups have to be known because of an entry that can be used.
func (s *resourceSet) dependOnGroups(e *resourceEntry) {
	if e.disabled {
		return
	}
	for _, group := range e.groups() {
		if provider, _, ok := account.OfProvider(group); ok {
			s.groupsOf[provider] = true
		}
	}
	s.tellsGroups = s.tellsGroups || slices.Contains(e.Claims, claimGroups)
}

// meanings returns the description of each scope.
func (s *resourceSet) meanings() map[string]string {
	m := map[string]string{}
	for _, e := range s.entries {
		for _, scope := range e.Scopes {
			m[scope.Name] = scope.Description
		}
	}
	return m
}

// remember keeps the time of the last removal.
func (s *resourceSet) remember(r storage.Resource) {
	if r.Ended.IsZero() {
		return
	}
	if p, err := uripattern.ParseShape(r.ID); err == nil {
		s.endedPatterns.Add(p, r.Ended)
		return
	}
	s.ended[r.ID] = r.Ended
}

// storedEntry returns the entry of a resource of the store, and a sentence if it does not count or
// not as it stands. Without an entry the resource is left out. One that cannot be read still
// claims its URIs.
func (s *resourceSet) storedEntry(r storedResource, meanings map[string]string) (*resourceEntry, string) {
	e := &resourceEntry{Resource: ResourceOf(r.Resource), stored: true, disabled: r.Disabled, pattern: uripattern.Is(r.ID), secret: r.Secret, key: r.key}
	why := ""
	if r.unreadable != nil {
		e.URI, e.disabled = r.ID, true
		why = fmt.Sprintf("its record cannot be read, so nobody can use it: %v; remove it with authz resource rm and add it again", r.unreadable)
	} else if mistakes := e.Resource.validate(map[string]bool{}, meanings); len(mistakes) > 0 {
		e.disabled = true
		why = fmt.Sprintf("nobody can use it: %v%s", mistakes[0], e.Resource.howToMend())
	}
	if e.pattern {
		p, err := uripattern.ParseShape(r.ID)
		if err != nil {
			return nil, "its pattern cannot be read: " + err.Error()
		}
		if other, ok := s.patterns.Ambiguous(p); ok {
			return nil, fmt.Sprintf("it does not count: one URI can match it and the pattern %s, and neither is more specific; remove one of them", other)
		}
		if e.URI == r.ID {
			e.URI = p.String()
		}
		return e, why
	}
	if s.exact[e.URI] != nil {
		return nil, "it does not count, because the configuration lists the same URI; remove it from one of them"
	}
	if len(e.secret) > 0 && s.byClient[e.URI] != nil {
		e.secret = nil
		why = cmp.Or(why, "it cannot introspect, because its URI is the introspection client_id of another resource; change that client_id")
	}
	return e, why
}

const addAgain = "; add it again in another form with authz resource add --replace"

// howToMend returns the end of a sentence about a resource of the store that has a mistake.
func (r Resource) howToMend() string {
	if r.uriFault() != nil {
		return "; remove it with authz resource rm"
	}
	return addAgain
}

// ResourceOf returns a resource of the store in the form of a configuration, without its
// introspection credential.
func ResourceOf(r storage.Resource) Resource {
	out := Resource{URI: r.URI, Name: r.Name, DefaultScopes: r.DefaultScopes, Allow: Allow(r.Allow), Claims: r.Claims}
	for _, s := range r.Scopes {
		out.Scopes = append(out.Scopes, Scope{Name: s.Name, Description: s.Description, Allow: Allow(s.Allow)})
	}
	return out
}

// entry returns the entry that a URI in canonical form belongs to, also a disabled one; nil for
// none. An exact entry counts before a pattern, and a more specific pattern before another.
func (s *resourceSet) entry(uri string) *resourceEntry {
	if e, ok := s.exact[uri]; ok {
		return e
	}
	e, _ := s.patterns.Find(uri)
	return e
}

// find returns the resource of a URI in canonical form. That of a pattern has the concrete URI:
// a pattern itself is never an audience.
func (s *resourceSet) find(uri string) (Resource, bool) {
	e := s.entry(uri)
	if e == nil || e.disabled {
		return Resource{}, false
	}
	r := e.Resource
	r.URI = uri
	return r, true
}

// endedSince reports whether an entry that the URI belonged to was removed at or after a time.
// What people allowed by then was for another entry. It does not count for one that came later.
// A resource of the configuration has no such end.
func (s *resourceSet) endedSince(uri string, allowed time.Time) bool {
	if len(s.ended) == 0 && s.endedPatterns.Empty() {
		return false
	}
	if e := s.exact[uri]; e != nil && !e.stored {
		return false
	}
	if at, ok := s.ended[uri]; ok && !allowed.After(at) {
		return true
	}
	over := false
	s.endedPatterns.Each(uri, func(at time.Time) bool {
		over = over || !allowed.After(at)
		return !over
	})
	return over
}

// allScopes returns the scopes of all resources, offline_access last.
func (s *resourceSet) allScopes() []string {
	var names []string
	seen := map[string]bool{}
	for _, e := range s.entries {
		for _, scope := range e.Scopes {
			if !e.disabled && !seen[scope.Name] {
				seen[scope.Name] = true
				names = append(names, scope.Name)
			}
		}
	}
	return append(names, offlineAccess)
}

// maxListed bounds the resources, and the scopes, that documents and errors list. Neither list
// has to be complete (RFC 8414 section 2, RFC 9728 section 4).
const maxListed = 100

// uris returns resources for the metadata: the first of those that are not patterns, nil for none.
func (s *resourceSet) uris() []string {
	var uris []string
	for _, e := range s.entries {
		if len(uris) == maxListed {
			break
		}
		if !e.pattern && !e.disabled {
			uris = append(uris, e.URI)
		}
	}
	return uris
}

// scopeNames returns scopes for the metadata, offline_access last.
func (s *resourceSet) scopeNames() []string {
	if len(s.scopes) <= maxListed {
		return s.scopes
	}
	return append(slices.Clone(s.scopes[:maxListed-1]), offlineAccess)
}
