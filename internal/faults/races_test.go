//go:build e2e

package faults

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage/redis/redistest"
)

// workers is how many requests of a race are under way at once, over all processes.
const workers = 2 * connections

// pair is two processes of one server, a party, and a party with another client.
type pair struct {
	at      [2]*process
	party   *party
	foreign *party
}

func newPair(t *testing.T, flags ...string) *pair {
	t.Helper()
	f := newFleet(t, fleetConfig{Store: redistest.StartServer(t)})
	return f.pair([2]*process{f.start(flags...), f.start(flags...)})
}

// newUnequalPair returns a pair whose second process has a latency of some milliseconds to Redis.
// Between its read and its write the first one makes many requests.
func newUnequalPair(t *testing.T) *pair {
	t.Helper()
	server := redistest.Start(t, redistest.Config{})
	proxy := redistest.StartProxy(t, server.Addr)
	f := newFleet(t, fleetConfig{Store: server.URL()})
	d := f.pair([2]*process{f.start(), f.start("--store", "redis://"+proxy.Addr)})
	proxy.Latency(redistest.Requests, 5*time.Millisecond, 5*time.Millisecond)
	return d
}

func (f *fleet) pair(at [2]*process) *pair {
	f.t.Helper()
	d := &pair{at: at}
	d.party = f.newParty(d.at[0])
	d.foreign = d.party.another(d.at[1])
	return d
}

// race makes n calls at once, at both processes in turn.
func (d *pair) race(n int, call func(i int, at *process) answer) []answer {
	answers := make([]answer, n)
	crowd(workers, n, func(i int) { answers[i] = call(i, d.at[i%len(d.at)]) })
	return answers
}

// races runs a race twice: alone, and while the processes are asked for forgeries.
func races(t *testing.T, run func(t *testing.T, meanwhile forge)) {
	t.Run("alone", func(t *testing.T) { run(t, noForgeries) })
	t.Run("among forgeries", func(t *testing.T) { run(t, forgeries) })
}

// mustAll expects that ok holds for every answer. It shows the first ones that differ.
func mustAll(t *testing.T, answers []answer, what string, ok func(answer) bool) {
	t.Helper()
	wrong := slices.DeleteFunc(slices.Clone(answers), ok)
	for _, a := range wrong[:min(3, len(wrong))] {
		t.Errorf("not %s: %s", what, a)
	}
	if len(wrong) > 3 {
		t.Errorf("%d of %d answers are not %s", len(wrong), len(answers), what)
	}
}

func only(answers []answer, o outcome) []answer {
	return slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return a.outcome() != o })
}

func succeeded(a answer) bool { return a.outcome() == granted }

func tokensOrInvalidGrant(a answer) bool { return succeeded(a) || a.invalidGrant() }

// mustLive expects that the tokens of an answer work at both processes. It rotates.
func (d *pair) mustLive(t *testing.T, tokens answer) (next answer) {
	t.Helper()
	for _, at := range d.at {
		if got := d.party.introspect(at, tokens.Access); !got.Active {
			t.Errorf("the access token should live: %s", got)
		}
		if next = d.party.refresh(at, tokens.Refresh); next.outcome() != granted {
			t.Errorf("the refresh token should work: %s", next)
		}
	}
	return next
}

// mustBeDead expects that no token of any of the answers works at any process.
func (d *pair) mustBeDead(t *testing.T, handedOut []answer) {
	t.Helper()
	refresh := map[string]bool{}
	for _, a := range handedOut {
		refresh[a.Refresh] = true
	}
	for _, at := range d.at {
		seen := make([]answer, len(handedOut))
		crowd(workers, len(handedOut), func(i int) { seen[i] = d.party.introspect(at, handedOut[i].Access) })
		mustAll(t, seen, "inactive", func(a answer) bool { return a.outcome() == granted && !a.Active })
		for token := range refresh {
			if got := d.party.refresh(at, token); !got.invalidGrant() {
				t.Errorf("a refresh token of an ended family: %s", got)
			}
		}
	}
}

// mistakes redeems code wrongly in every way, and expects that all of it is refused.
func (d *pair) mistakes(t *testing.T, code string, spent bool) {
	t.Helper()
	right := d.party.redemption(code)
	verifier, client, redirect, target := right, right, right, right
	verifier.Verifier = "a" + right.Verifier[1:]
	client.Client = d.foreign.id
	redirect.Redirect += "/elsewhere"
	target.Resource = "https://elsewhere.example.com/mcp"
	wrong := []exchange{verifier, client, redirect, target}
	answers := d.race(amount(400, 2000), func(i int, at *process) answer { return d.party.exchange(at, wrong[i/2%len(wrong)]) })
	for i, a := range answers {
		want := "invalid_grant"
		if wrong[i/2%len(wrong)] == target && !spent {
			want = "invalid_target"
		}
		if a.Status != 400 || a.Error != want {
			t.Fatalf("a redemption that is wrong, want %s: %s", want, a)
		}
	}
}

// TestOneCodeGivesTokensOnce: however many redeem one code at two processes, one of them gets
// tokens. A request that finds it spent ends the family. An incorrect request, before or
// afterwards, has no effect.
func TestOneCodeGivesTokensOnce(t *testing.T) {
	races(t, func(t *testing.T, meanwhile forge) {
		d := newPair(t, "--code-ttl", "10m")
		code := d.party.mustConsent(d.at[0])
		d.mistakes(t, code, false)
		calm := meanwhile(t, d, genuine{code: code})
		answers := d.race(amount(1000, 10000), func(_ int, at *process) answer { return d.party.redeem(at, code) })
		calm()
		winners := only(answers, granted)
		if len(winners) != 1 {
			t.Fatalf("%d redemptions of one code succeeded: %v", len(winners), winners)
		}
		mustAll(t, answers, "tokens or invalid_grant", tokensOrInvalidGrant)
		won := winners[0].Began.Add(winners[0].Took)
		if !slices.ContainsFunc(answers, func(a answer) bool { return a.Began.After(won) }) {
			t.Fatal("nobody came after the winner: the race is too small")
		}
		d.mustBeDead(t, winners)
	})
}

// TestMistakesEndNothing: a code that was redeemed once is presented again, wrongly.
func TestMistakesEndNothing(t *testing.T) {
	d := newPair(t)
	code := d.party.mustConsent(d.at[0])
	tokens := d.party.redeem(d.at[1], code)
	d.mistakes(t, code, true)
	next := d.mustLive(t, tokens)
	if got := d.party.redeem(d.at[0], code); !got.invalidGrant() {
		t.Errorf("a replay: %s", got)
	}
	d.mustBeDead(t, []answer{tokens, next})
}

// TestManyCodesGiveTokensOnce races a few redemptions of each of many codes, so that more of them
// meet at the moment in which a code is spent.
func TestManyCodesGiveTokensOnce(t *testing.T) {
	const each = 8
	d := newPair(t, "--code-ttl", "10m")
	codes := d.party.mustCodes(d.at[0], amount(100, 1000))
	answers := d.race(each*len(codes), func(i int, at *process) answer { return d.party.redeem(at, codes[i/each]) })
	mustAll(t, answers, "tokens or invalid_grant", tokensOrInvalidGrant)
	for i, code := range codes {
		if n := len(only(answers[i*each:(i+1)*each], granted)); n != 1 {
			t.Errorf("%d of %d redemptions of code %s succeeded", n, each, code)
		}
	}
}

// mustAgree expects that all answers carry one and the same new refresh token.
func mustAgree(t *testing.T, answers []answer, old string) (successor string) {
	t.Helper()
	if len(answers) == 0 {
		t.Fatal("nobody got tokens")
	}
	successor = answers[0].Refresh
	mustAll(t, answers, "the same successor", func(a answer) bool { return a.Refresh == successor && a.Refresh != old })
	return successor
}

// TestRefreshesAgree: however many use one refresh token at two processes, all get the same
// successor, which works. When the window is over, the old one ends the family.
func TestRefreshesAgree(t *testing.T) {
	races(t, func(t *testing.T, meanwhile forge) {
		d := newPair(t, "--refresh-window", "10m")
		first := d.party.mustTokens(d.at[0])
		calm := meanwhile(t, d, genuine{refresh: first.Refresh, access: first.Access})
		answers := d.race(amount(300, 1000), func(_ int, at *process) answer { return d.party.refresh(at, first.Refresh) })
		calm()
		mustAll(t, answers, "tokens", succeeded)
		old := mustAgree(t, answers, first.Refresh)
		last := d.mustLive(t, answers[0])
		for _, at := range d.at {
			at.restart(t, "--refresh-window", "1s")
		}
		d.mustEndAfterWindow(t, old, last.Refresh)
		d.mustBeDead(t, append(answers, first, last))
	})
}

// mustEndAfterWindow uses a refresh token that has a successor until its window is over,
// which ends the family. Inside the window it gets the successor again.
func (d *pair) mustEndAfterWindow(t *testing.T, old, successor string) {
	t.Helper()
	eventually(t, patience, func() error {
		got := d.party.refresh(d.at[0], old)
		switch {
		case got.invalidGrant():
			return nil
		case got.outcome() != granted || got.Refresh != successor:
			t.Fatalf("an old refresh token inside its window: %s", got)
		}
		return fmt.Errorf("the window is not over")
	})
}

// TestMasterKeysChangeInBetween: while many requests use one refresh token, the processes are
// restarted one by one to add a master key, then to seal with it, then to drop the old one. The
// answers do not change.
func TestMasterKeysChangeInBetween(t *testing.T) {
	idle, old, added := masterKey(1), masterKey(2), masterKey(3)
	d := newPair(t, "--refresh-window", "10m", "--master-keys", old+","+idle)
	first := d.party.mustTokens(d.at[0])
	var done atomic.Bool
	var answers []answer
	var wg sync.WaitGroup
	wg.Go(func() { answers = d.refreshUntil(&done, amount(300, 1000), first.Refresh) })
	for _, keys := range []string{old + "," + idle + "," + added, added + "," + old + "," + idle, added + "," + old} {
		for _, at := range d.at {
			at.restart(t, "--refresh-window", "10m", "--master-keys", keys)
		}
	}
	done.Store(true)
	wg.Wait()
	interrupted := func(a answer) bool { return a.outcome() == unsent || a.outcome() == unknown }
	mustAll(t, answers, "tokens, or interrupted by a restart", func(a answer) bool { return succeeded(a) || interrupted(a) })
	winners := only(answers, granted)
	t.Logf("%d refreshes, %d of them interrupted by a restart", len(answers), len(answers)-len(winners))
	mustAgree(t, winners, first.Refresh)
	for _, at := range d.at {
		seen := make([]answer, len(winners))
		crowd(workers, len(winners), func(i int) { seen[i] = d.party.introspect(at, winners[i].Access) })
		mustAll(t, seen, "active", func(a answer) bool { return a.Active })
	}
	d.mustLive(t, winners[0])
	fresh := d.party.redeem(d.at[1], d.party.mustConsent(d.at[0]))
	d.mustLive(t, fresh)
}

// refreshUntil uses one refresh token at both processes, n times at least and until done.
func (d *pair) refreshUntil(done *atomic.Bool, n int, token string) (all []answer) {
	begin := time.Now()
	for (len(only(all, granted)) < n || !done.Load()) && time.Since(begin) < patience {
		batch := make([]answer, 16)
		crowd(len(batch), len(batch), func(i int) { batch[i] = d.party.refresh(d.at[i%len(d.at)], token) })
		all = append(all, batch...)
	}
	return all
}

// TestRevocationsWin: refreshes race revocations of their family. Every revocation is
// acknowledged, no request gets tokens after the first acknowledgement, and at the end no token
// of the family works, whichever request got it.
func TestRevocationsWin(t *testing.T) {
	races(t, func(t *testing.T, meanwhile forge) {
		d := newUnequalPair(t)
		first := d.party.mustTokens(d.at[0])
		calm := meanwhile(t, d, genuine{refresh: first.Refresh, access: first.Access})
		answers := d.race(2*amount(300, 1000), func(i int, at *process) answer {
			switch i / 2 % 4 {
			case 1:
				return d.party.revoke(at, first.Refresh)
			case 3:
				return d.party.revoke(at, first.Access)
			}
			return d.party.refresh(at, first.Refresh)
		})
		calm()
		d.mustBeRevoked(t, append(answers, first))
	})
}

// TestRevocationsWinAgainstRotations: in each of many families one client rotates as fast as the
// server allows, and a few revoke at once.
func TestRevocationsWinAgainstRotations(t *testing.T) {
	d := newUnequalPair(t)
	for round := range amount(20, 200) {
		first := d.party.mustTokens(d.at[0])
		started := make(chan struct{})
		var rotations []answer
		var wg sync.WaitGroup
		wg.Go(func() { rotations = d.rotate(first, round%7, started) })
		<-started
		revocations := d.race(6, func(_ int, at *process) answer { return d.party.revoke(at, first.Access) })
		wg.Wait()
		if d.mustBeRevoked(t, append(append(rotations, revocations...), first)); t.Failed() {
			return
		}
	}
}

// rotate uses every refresh token once, until one is refused or patience is over. It
// closes started after some rotations, or when it has ended.
func (d *pair) rotate(tokens answer, after int, started chan struct{}) (all []answer) {
	begun := sync.OnceFunc(func() { close(started) })
	defer begun()
	begin := time.Now()
	for i := 0; succeeded(tokens) && time.Since(begin) < patience; i++ {
		if i == after {
			begun()
		}
		tokens = d.party.refresh(d.at[i%len(d.at)], tokens.Refresh)
		all = append(all, tokens)
	}
	return all
}

// mustBeRevoked checks all answers about one family, including acknowledged revocations.
func (d *pair) mustBeRevoked(t *testing.T, answers []answer) {
	t.Helper()
	mustAll(t, answers, "an answer", func(a answer) bool { return succeeded(a) || a.Op == "refresh" && a.invalidGrant() })
	var acknowledged time.Time
	for _, a := range answers {
		if end := a.Began.Add(a.Took); a.Op == "revoke" && (acknowledged.IsZero() || end.Before(acknowledged)) {
			acknowledged = end
		}
	}
	tokens := slices.DeleteFunc(only(answers, granted), func(a answer) bool { return a.Access == "" })
	mustAll(t, tokens, "before the family was revoked", func(a answer) bool { return a.Began.Before(acknowledged) })
	d.mustBeDead(t, tokens)
}
