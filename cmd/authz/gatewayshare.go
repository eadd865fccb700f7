package main

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"gatehouse.example/gateway"
	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
)

// shareIssuers lets gateways share their issuers, so that the keys of each are fetched once, and
// returns their configurations. A gateway keeps its own if one of them has other rules elsewhere, or
// audiences that would hold for other issuers too.
func shareIssuers(configs []gateway.Config, log *slog.Logger) ([]gateway.Config, error) {
	out := slices.Clone(configs)
	rules := map[string]middleware.Issuer{} // by the names in tokens
	var all []middleware.Issuer
	var sharing []int
	for i := range out {
		own, ok := withoutAudiences(out[i].Guard.Issuers)
		if !ok || slices.ContainsFunc(own, func(one middleware.Issuer) bool { return differs(rules, one) }) {
			continue
		}
		sharing = append(sharing, i)
		for _, one := range own {
			if _, known := rules[names(one)[0]]; !known {
				all = append(all, one)
			}
			for _, name := range names(one) {
				rules[name] = one
			}
		}
	}
	if len(sharing) < 2 {
		return out, nil
	}
	shared, err := middleware.NewIssuers(middleware.IssuersConfig{
		Issuers: all, StaleKeys: out[sharing[0]].Guard.StaleKeys, Client: out[sharing[0]].Guard.Client, Logger: log,
		ObserveKeyFetch: out[sharing[0]].Guard.ObserveKeyFetch})
	if err != nil {
		return nil, err
	}
	for _, i := range sharing {
		if err := adoptIssuers(&out[i].Guard, shared); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// withoutAudiences returns issuers without their audiences, which the guard has instead. It returns
// false if they would then hold for other issuers, or are no audiences.
func withoutAudiences(issuers []middleware.Issuer) ([]middleware.Issuer, bool) {
	out := slices.Clone(issuers)
	for i := range out {
		if out[i].InsecureNoAudience || len(out[i].Audiences) > 0 && len(out) > 1 {
			return nil, false
		}
		out[i].Audiences = nil
	}
	return out, true
}

// differs reports whether a name of an issuer is known with other rules.
func differs(rules map[string]middleware.Issuer, one middleware.Issuer) bool {
	return slices.ContainsFunc(names(one), func(name string) bool {
		known, ok := rules[name]
		return ok && !reflect.DeepEqual(known, one)
	})
}

// names returns the names of an issuer in tokens, at least one: that of each tenant, or its URL.
func names(one middleware.Issuer) []string {
	if one.Profile != middleware.Entra || len(one.Tenants) == 0 {
		return []string{one.URL}
	}
	var out []string
	for _, tenant := range one.Tenants {
		out = append(out, strings.Replace(one.URL, "{tenantid}", tenant, 1))
	}
	return out
}

// adoptIssuers puts shared issuers in the place of those of a guard.
func adoptIssuers(c *middleware.Config, shared *middleware.Issuers) (err error) {
	var own []string
	for _, one := range c.Issuers {
		c.Audiences = append(slices.Clone(c.Audiences), one.Audiences...)
		own = append(own, names(one)...)
	}
	c.Issuers, c.StaleKeys, c.Client, c.ObserveKeyFetch = nil, 0, nil, nil
	c.SharedIssuers, err = shared.Only(own...)
	return err
}

// application is one for which an issuer is asked about tokens.
type application struct{ issuer, client string }

// countTogether lets the guards that ask for one application count their questions together. It goes on
// with the counts of plans before, and adds those that are missing.
func (plan *gatewayPlan) countTogether(all map[application]*middleware.Budget) {
	for i := range plan.configs {
		asked := maps.Clone(plan.configs[i].Guard.Introspection)
		for issuer, one := range asked {
			of := application{issuer, one.ClientID}
			if all[of] == nil {
				all[of] = middleware.NewBudget()
			}
			one.Budget = all[of]
			asked[issuer] = one
		}
		plan.configs[i].Guard.Introspection = asked
	}
}

// proofsKept is how long a memory of proofs is kept whose resource is guarded no more: longer than access
// tokens live, without which a proof is worth nothing.
const proofsKept = 24 * time.Hour

// usedProofs are the memories of proofs that were used, by resource in canonical form.
type usedProofs map[string]*proofsOf

type proofsOf struct {
	proofs *middleware.Proofs
	gone   time.Time // when the resource was guarded last; zero while it is
}

// remember gives each guard the memory of its resource, also where a plan without that resource was in
// force in between. Nothing is forgotten: the plan may still be refused.
func (plan *gatewayPlan) remember(all usedProofs) {
	for i := range plan.configs {
		c := &plan.configs[i].Guard
		name, err := metadata.Canonical(c.Resource)
		if err != nil {
			continue // no guard can be made for it
		}
		if all[name] == nil && c.DPoP.Use != middleware.DPoPOff {
			all[name] = &proofsOf{proofs: middleware.NewProofs(middleware.DefaultProofs)}
		}
		if one := all[name]; one != nil {
			c.DPoP.Proofs = one.proofs
		}
	}
}

// inForce notes which resources a plan guards, now that it is in force, and forgets the memories of those
// that have been without a guard for long.
func (all usedProofs) inForce(plan *gatewayPlan, now time.Time) {
	guarded := map[*middleware.Proofs]bool{}
	for i := range plan.configs {
		guarded[plan.configs[i].Guard.DPoP.Proofs] = true
	}
	for name, one := range all {
		switch {
		case guarded[one.proofs]:
			one.gone = time.Time{}
		case one.gone.IsZero():
			one.gone = now
		case now.Sub(one.gone) > proofsKept:
			delete(all, name)
		}
	}
}
