package middleware

import "reflect"

// goOn takes over what the guard before has learned and counted ([Config.Before]).
func (g *Guard) goOn(before *Guard) {
	if before == nil || before.resource != g.resource {
		return
	}
	for name, t := range g.issuers {
		other := before.issuers[name]
		if other == nil {
			continue
		}
		t.issuer.goOn(other.issuer)
		if t.introspector != nil && other.introspector != nil {
			t.introspector.goOn(other.introspector)
		}
	}
}

// usedProofs returns the memory of proofs: that of the configuration, or that of the guard before. It
// is kept while no proofs are accepted, for when they are again. nil if none were.
func (g *Guard) usedProofs(c *Config) *Proofs {
	switch {
	case c.DPoP.Proofs != nil:
		return c.DPoP.Proofs
	case c.Before != nil && c.Before.resource == g.resource && c.Before.proofs != nil:
		return c.Before.proofs
	case c.DPoP.Use == DPoPOff:
		return nil
	}
	return NewProofs(DefaultProofs)
}

// goOn takes over the keys of an issuer with the same rules, unless there are some already, and when
// they may be fetched again.
func (i *issuer) goOn(before *issuer) {
	if i == before || i.fixed || !reflect.DeepEqual(i.as, before.as) {
		return
	}
	before.mu.Lock()
	failed, pause, early := before.failed, before.pause, before.early
	before.mu.Unlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current.CompareAndSwap(nil, before.current.Load()) {
		i.failed, i.pause, i.early = failed, pause, early
	}
}

// goOn counts on from what was asked of a provider that counts the questions.
func (i *introspector) goOn(before *introspector) {
	if i.budget != nil && before.budget != nil && i.Budget == nil {
		i.budget.Budget = before.budget.Budget
	}
}
