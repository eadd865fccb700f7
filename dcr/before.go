package dcr

import "reflect"

// goOn takes over what outlives a configuration ([Config.Before]). Documents are judged when they
// are read, so those that were read under other rules are not taken over.
func (cs *Clients) goOn(before *Clients) {
	if before == nil {
		return
	}
	cs.cache, cs.unused, cs.fetches = before.cache, before.unused, before.fetches
	if cs.logos != nil && before.logos != nil {
		cs.logos = before.logos
	}
	if cs.published == nil || before.published == nil {
		return
	}
	cs.keySets, cs.published.limiter = before.keySets, before.fetches
	if cs.judgesAs(before) {
		cs.published = before.published
	}
}

// judgesAs reports whether documents are judged by the same rules. The pinned ones are not among
// those that are fetched.
func (cs *Clients) judgesAs(before *Clients) bool {
	own, other := cs.documents, before.documents
	own.Pinned, other.Pinned = nil, nil
	return reflect.DeepEqual(own, other) && reflect.DeepEqual(cs.policy, before.policy)
}
