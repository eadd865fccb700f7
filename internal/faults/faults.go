// Package faults contains only tests: real authz processes on real Redis, driven over HTTP while
// requests race and servers and networks fail.
//
// A fleet is several processes with one issuer, one store and the same master keys: one server. A
// process can be stopped, killed and started again with other flags. A party is a public client
// and a signed-in person; it gets codes, redeems, refreshes, revokes and introspects at the
// process that the test chooses, and every call returns an answer: the outcome, its values, and
// how long it took.
//
// The tests need redis-server and have the build tag e2e. Their numbers are small enough for
// every day; the flag -faults.long chooses the large ones.
//
// Example:
//
//	f := newFleet(t, fleetConfig{Store: redistest.StartServer(t)})
//	a, b := f.start(), f.start("--refresh-window", "1s")
//	p := f.newParty(a)
//	code := p.mustConsent(a)
//	if got := p.redeem(b, code); got.outcome() != granted {
//		t.Errorf("%s", got)
//	}
package faults
