package middleware

import (
	"cmp"
	"slices"
)

// trusted is an issuer as one guard trusts it. The issuer itself may be shared with other guards
// (keys, headers, the endpoint for introspection): nothing in it depends on a resource. What does
// is here, so that no guard uses the verdict of another one.
type trusted struct {
	*issuer
	accepted     []string      // the accepted values of "aud": the resource, then further values
	introspector *introspector // nil for an issuer without introspection
	anywhere     bool          // whether tokens without "aud" are accepted, whatever their client
}

// trust makes the cache of tokens, and what this guard adds to each of its issuers.
func (g *Guard) trust(c *Config, from *Issuers) {
	accepted := append([]string{g.resource}, c.Audiences...)
	g.verified = newMemory[verified](cmp.Or(c.CachedTokens, defaultCachedTokens))
	g.issuers, g.plain = make(map[string]*trusted), true
	for _, one := range from.all {
		t := &trusted{issuer: one, accepted: slices.Concat(accepted, one.rules.audiences)}
		if asked, ok := c.Introspection[one.name]; ok {
			t.introspector = newIntrospector(asked, t, c.CachedTokens, g.maxToken)
			t.introspector.watch = c.ObserveIntrospection
			if asked.Opaque {
				g.opaque = t
			}
		}
		g.issuers[one.name] = t
		g.plain = g.plain && one.rules.plain
	}
	g.kinds = g.kindsOf(c)
}
