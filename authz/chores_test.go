package authz_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
	"gatehouse.example/storage/storagetest"
)

// TestLastUseIsRecorded: a running server records the first use of a client and each use that
// is a day after the last recorded one. No request needs a round trip for it.
func TestLastUseIsRecorded(t *testing.T) {
	t.Parallel()
	inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
		_, token := s.granted(s.store, "registered")
		_, configured := s.granted(s.store, "configured")
		end := s.run()
		refresh := func(what, client string, token *string, most int64) {
			t.Helper()
			answer, n := s.refresh(client, *token)
			if answer.status != http.StatusOK || n != most {
				t.Errorf("%s: %d round trips; want %d\n%s", what, n, most, answer)
			}
			*token = answer.member(t, "refresh_token")
			time.Sleep(10 * time.Second)
		}
		time.Sleep(3 * time.Second) // between two runs of the chores, and of the look for resources
		begin := time.Now()
		refresh("for the first time", "registered", &token, 2) // the client with the grant, the swap
		if got := s.lastUsed("registered"); !got.Equal(begin) {
			t.Errorf("the first use is at %v; want %v", got, begin)
		}
		time.Sleep(storage.UseStep - 74*time.Second)
		refresh("within a day", "registered", &token, 2)
		if got := s.lastUsed("registered"); !got.Equal(begin) {
			t.Errorf("a use within a day was recorded, at %v", got)
		}
		if answer, _ := s.refresh("registered", configured); answer.status != http.StatusBadRequest {
			t.Errorf("the token of another client: %s", answer)
		}
		time.Sleep(time.Minute)
		if answer, _ := s.refresh("registered", configured); answer.status != http.StatusBadRequest {
			t.Errorf("the token of another client: %s", answer)
		}
		time.Sleep(10 * time.Second)
		if got := s.lastUsed("registered"); !got.Equal(begin) {
			t.Errorf("a use that was refused was recorded, at %v", got)
		}
		now := time.Now()
		refresh("after a day", "registered", &token, 2)
		if got := s.lastUsed("registered"); !got.Equal(now) {
			t.Errorf("the last use is at %v; want %v", got, now)
		}
		refresh("after a day, a configured client", "configured", &configured, 2)
		if got := s.lastUsed("configured"); !got.IsZero() {
			t.Errorf("the use of a configured client was recorded, at %v", got)
		}
		var listed []string
		for c, err := range s.store.Clients(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, c.ID)
		}
		if strings.Join(listed, " ") != "configured registered" {
			t.Errorf("the clients by last use are %q", listed)
		}
		// No work is needed for a client that was removed before its use is recorded.
		time.Sleep(storage.UseStep)
		if answer, _ := s.refresh("registered", token); answer.status != http.StatusOK {
			t.Errorf("%s", answer)
		}
		removed, err := s.store.Client(t.Context(), "registered")
		if err == nil {
			err = s.store.RemoveClient(t.Context(), removed, "its owner deleted it")
		}
		if err != nil {
			t.Fatal(err)
		}
		end()
		s.wantLogged("the last use of clients cannot be recorded", false)
	})
}

// TestLastUseIsCaughtUp: a use that could not be recorded is recorded with the next one, and
// a pending one when the server ends. Without Run nothing is recorded.
func TestLastUseIsCaughtUp(t *testing.T) {
	t.Parallel()
	inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
		const warning = "the last use of clients cannot be recorded"
		_, token := s.granted(s.store, "registered")
		begin := s.lastUsed("registered")
		use := func() time.Time {
			t.Helper()
			answer, _ := s.refresh("registered", token)
			if answer.status != http.StatusOK {
				t.Fatalf("%s", answer)
			}
			token = answer.member(t, "refresh_token")
			return time.Now()
		}
		time.Sleep(storage.UseStep)
		use()
		time.Sleep(time.Minute)
		if got := s.lastUsed("registered"); !got.Equal(begin) {
			t.Errorf("a server that does not run recorded a use, at %v", got)
		}
		s.start(s.store)
		end := s.run()
		time.Sleep(2 * time.Second)
		use()
		s.faults.SetDown(true)
		time.Sleep(5 * time.Second)
		s.wantLogged(warning, true)
		s.faults.SetDown(false)
		time.Sleep(time.Minute)
		if got := s.lastUsed("registered"); !got.Equal(begin) {
			t.Errorf("a use that was lost was recorded, at %v", got)
		}
		at := use()
		if took := end(); took != 0 {
			t.Errorf("with a store that answers, Run took %v to end", took)
		}
		if got := s.lastUsed("registered"); !got.Equal(at) {
			t.Errorf("when the server ended, the last use was recorded at %v; want %v", got, at)
		}
	})
}

// TestListsAreTidied: the lists of a person and a client that are never read stay short while
// the server runs, and grow while it does not.
func TestListsAreTidied(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	user, err := h.store.User(t.Context(), personName)
	if err != nil {
		t.Fatal(err)
	}
	consents := func(n int) {
		t.Helper()
		for range n {
			h.clock.advance(5 * time.Minute) // the grant before is over, its key is gone
			b.code(asks(c))
		}
	}
	run := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the pending work is still done
		if err := h.handler.Load().Run(ctx); err != nil {
			t.Error(err)
		}
	}
	wantEntries := func(what string, want int) {
		t.Helper()
		for _, index := range []string{"gatehouse:user-grants:" + user.Subject, "gatehouse:client-grants:" + c.ID} {
			entries, err := h.meter.Backend.IndexPage(t.Context(), index, "", 1000)
			if err != nil || len(entries) != want {
				t.Errorf("%s: %s has %d entries, %v; want %d", what, index, len(entries), err, want)
			}
		}
	}
	consents(10)
	wantEntries("without Run", 10)
	run()
	wantEntries("after a round", 6)
	run()
	wantEntries("after a round for which there was no grant", 6)
	for range 5 {
		consents(1)
		run()
	}
	wantEntries("after five more", 1)
	if strings.Contains(h.log.String(), "cannot be tidied") {
		t.Errorf("a complaint without a reason:\n%s", h.log)
	}
	consents(1)
	h.faults.SetDown(true)
	run()
	h.faults.SetDown(false)
	if !strings.Contains(h.log.String(), "lists of grants cannot be tidied") {
		t.Errorf("no line about lists that cannot be tidied:\n%s", h.log)
	}
}

const sealedAnew = "every record is sealed under the first master key"

// TestRunReseals: with two master keys a running server seals all records under the first
// one, logs that, and afterwards needs the second one no more.
func TestRunReseals(t *testing.T) {
	t.Parallel()
	inBubble(t, [][]byte{newKey, masterKey}, func(t *testing.T, s *bubble) {
		before := s.opened(masterKey)
		g, token := s.granted(before, "registered")
		alone := s.opened(newKey)
		if _, err := authz.New(t.Context(), authz.Config{Issuer: secureIssuer, Store: alone, Resources: bothResources()}); err == nil {
			t.Fatal("the new key alone opens the signing keys before they are resealed")
		}
		end := s.run()
		synctest.Wait()
		s.wantLogged(sealedAnew+`" records=5 sealed=5`, true)
		time.Sleep(time.Hour + time.Second)
		s.wantLogged(sealedAnew+`" records=5 sealed=0`, true)
		end()

		s.start(alone)
		answer, _ := s.refresh("registered", token)
		after, err := alone.Grant(t.Context(), g.ID)
		if err != nil {
			t.Fatal(err)
		}
		if next, err := alone.RefreshTokenOf(after, 1); answer.status != http.StatusOK || err != nil || answer.member(t, "refresh_token") != next {
			t.Errorf("with the new key alone: %s", answer)
		}
		if want, err := before.RefreshTokenOf(g, 1); err != nil || answer.member(t, "refresh_token") != want {
			t.Errorf("resealing changed a refresh token, %v", err)
		}
	})
}

// TestRunResealsAgain: after a failure the server tries again to reseal, and logs an error
// about records that it can never reseal. With one master key there is nothing to do.
func TestRunResealsAgain(t *testing.T) {
	t.Parallel()
	const postponed, unreadable = "not every record could be sealed", "records are sealed under none of the master keys"
	inBubble(t, [][]byte{newKey, masterKey}, func(t *testing.T, s *bubble) {
		s.granted(s.opened(masterKey), "registered")
		s.faults.SetDown(true)
		end := s.run()
		synctest.Wait()
		s.wantLogged(postponed, true)
		s.wantLogged(sealedAnew, false)
		s.faults.SetDown(false)
		time.Sleep(time.Hour + time.Second)
		s.wantLogged(sealedAnew, true)
		s.wantLogged(unreadable, false)
		s.granted(s.opened(bytes.Repeat([]byte{1}, 32), newKey), "registered")
		time.Sleep(time.Hour)
		s.wantLogged(unreadable+`" records=1`, true)
		end()
	})
	inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
		s.granted(s.opened(newKey, masterKey), "registered")
		end := s.run()
		time.Sleep(2 * time.Hour)
		s.wantLogged("seal", false)
		end()
	})
}

// TestRunSeals: once the operator has requested it, a running server seals the records that a version
// without seals wrote, and then refuses those without a seal.
func TestRunSeals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &bubble{t: t, log: &syncBuffer{}}
		backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
		if err != nil {
			t.Fatal(err)
		}
		s.faults = storagetest.NewFaults(backend)
		s.backend = &hangingBackend{Backend: s.faults}
		s.addFixtures(s.opened())
		s.store = s.opened(masterKey)
		defer func() { _ = s.store.Close() }()
		s.start(s.store)
		end := s.run()
		wantForm := func(what string, want storage.Form) {
			t.Helper()
			if form, _, err := s.store.Form(t.Context()); form != want || err != nil {
				t.Errorf("%s: the store is %s, %v; want %s", what, form, err, want)
			}
		}
		time.Sleep(5 * time.Minute)
		wantForm("nobody has requested it", storage.FormPlain)
		if _, err := s.opened(masterKey).SealRecords(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		wantForm("at once", storage.FormSealing)
		s.faults.SetDown(true)
		time.Sleep(5 * time.Minute)
		s.faults.SetDown(false)
		s.wantLogged("not every record could be sealed", true)
		time.Sleep(2 * time.Minute)
		wantForm("when the store answers again", storage.FormSealed)
		s.wantLogged(`"records are sealed" form=sealed`, true)
		end()
	})
}

// TestRunReaps: a running server removes, once an hour, clients that have not been used for long.
func TestRunReaps(t *testing.T) {
	t.Parallel()
	inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
		if err := s.store.UseClient(t.Context(), "registered", time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90*24*time.Hour - 10*time.Minute)
		end := s.run()
		there := func() bool {
			_, err := s.store.Client(t.Context(), "registered")
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Error(err)
			}
			return err == nil
		}
		time.Sleep(59 * time.Minute)
		if !there() {
			t.Error("it was removed before the hour was over")
		}
		s.faults.SetDown(true)
		time.Sleep(2 * time.Minute)
		s.faults.SetDown(false)
		s.wantLogged("idle clients cannot be removed", true)
		time.Sleep(time.Hour)
		if there() {
			t.Error("it is there two hours later")
		}
		end()
	})
}

// TestRunEndsWhileTheStoreHangs: Run returns within a second of the end of its context,
// whatever it was doing, and leaves no goroutine: a bubble does not end while one remains.
func TestRunEndsWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	for what, begin := range map[string]func(t *testing.T, s *bubble, hang func()){
		"at once":        func(_ *testing.T, _ *bubble, hang func()) { hang() },
		"when all rests": func(_ *testing.T, _ *bubble, hang func()) { time.Sleep(3 * time.Second); hang() },
		"with a chore left": func(t *testing.T, s *bubble, hang func()) {
			_, token := s.granted(s.store, "registered")
			time.Sleep(storage.UseStep + 2*time.Second)
			if answer, _ := s.refresh("registered", token); answer.status != http.StatusOK {
				t.Errorf("%s", answer)
			}
			hang()
		},
		"while it follows the keys": func(_ *testing.T, _ *bubble, hang func()) { hang(); time.Sleep(2 * time.Minute) },
		"while it reseals": func(t *testing.T, s *bubble, hang func()) {
			s.granted(s.opened(masterKey, newKey), "registered")
			hang()
			time.Sleep(time.Hour + 300*time.Millisecond)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inBubble(t, [][]byte{newKey, masterKey}, func(t *testing.T, s *bubble) {
				end := s.run()
				begin(t, s, func() { s.backend.hangs.Store(true) })
				if took := end(); took > time.Second {
					t.Errorf("Run ended after %v", took)
				}
				s.backend.hangs.Store(false)
			})
		})
	}
}
