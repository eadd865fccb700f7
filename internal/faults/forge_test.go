//go:build e2e

package faults

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// genuine is the secrets of a family that a forger has seen. An empty one it has not seen.
type genuine struct{ code, refresh, access string }

// forge begins to send the processes forgeries of secrets, and the secrets in the name of another
// client. The returned function ends that, and expects that all of it was refused.
type forge func(t *testing.T, d *pair, seen genuine) (calm func())

// noForgeries leaves a race alone.
func noForgeries(*testing.T, *pair, genuine) (calm func()) { return func() {} }

// forgeries is a forge with a few forgers at each process.
func forgeries(t *testing.T, d *pair, seen genuine) (calm func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	forgers := make([]forger, 4*len(d.at))
	for i := range forgers {
		forgers[i] = forger{pair: d, at: d.at[i%len(d.at)], seen: seen}
		wg.Go(func() {
			for forgers[i].attempt(); ; {
				select {
				case <-stop:
					return
				default:
					forgers[i].attempt()
				}
			}
		})
	}
	return func() {
		t.Helper()
		close(stop)
		wg.Wait()
		attempts := 0
		for _, f := range forgers {
			attempts += f.attempts
			mustAll(t, f.accepted, "refused as a forgery", func(answer) bool { return false })
		}
		t.Logf("%d forgeries were refused meanwhile", attempts)
	}
}

// forger tries one forgery after the other at one process.
type forger struct {
	*pair
	at       *process
	seen     genuine
	attempts int
	accepted []answer // answers that should have been refusals
}

// attempt tries every forgery once.
func (f *forger) attempt() {
	if f.seen.code != "" {
		f.expect(answer.invalidGrant, f.party.redeem(f.at, forgery(f.seen.code)))
		f.expect(answer.invalidGrant, f.foreign.redeem(f.at, f.seen.code))
	}
	if f.seen.refresh != "" {
		f.expect(answer.invalidGrant, f.party.refresh(f.at, forgery(f.seen.refresh)))
		f.expect(answer.invalidGrant, f.foreign.refresh(f.at, f.seen.refresh))
		f.expect(answer.invalidGrant, f.foreign.revoke(f.at, f.seen.refresh))
		f.expect(succeeded, f.party.revoke(f.at, forgery(f.seen.refresh))) // a revocation of an invalid token succeeds
	}
	if f.seen.access != "" {
		f.expect(answer.invalidGrant, f.foreign.revoke(f.at, f.seen.access))
		f.expect(succeeded, f.party.revoke(f.at, forgery(f.seen.access)))
		f.expect(func(a answer) bool { return succeeded(a) && !a.Active }, f.party.introspect(f.at, forgery(f.seen.access)))
	}
}

func (f *forger) expect(ok func(answer) bool, got answer) {
	f.attempts++
	if !ok(got) {
		f.accepted = append(f.accepted, got)
	}
}

// forgery returns a genuine code or token with one character changed: in the id of the grant, in
// the generation, in the claims or in the proof. The last character is kept, because not all of
// its bits count.
func forgery(token string) string {
	const prefix, alphabet = len("gate_xx_"), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for {
		i := prefix + rand.IntN(len(token)-1-prefix)
		at := strings.IndexByte(alphabet, token[i])
		if at >= 0 { // not a dot
			other := alphabet[(at+1+rand.IntN(len(alphabet)-1))%len(alphabet)]
			return token[:i] + string(other) + token[i+1:]
		}
	}
}
