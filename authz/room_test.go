package authz_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// TestTightStoreKeepsAReserve: while the store is short of room, unknown clients cannot
// store anything more, and all other requests succeed: people sign in and decide, clients
// redeem, refresh and revoke. The server is ready.
func TestTightStoreKeepsAReserve(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	held := h.tokens(c)
	h.faults.SetRoom(storage.RoomTight)
	if answer := h.registerFrom("192.0.2.1", "one"); answer.status != http.StatusServiceUnavailable || answer.header.Get("Retry-After") == "" ||
		!strings.Contains(answer.member(t, "error_description"), "nearly full") {
		t.Errorf("a registration: %s", answer)
	}
	large := h.newBrowser().open(h.issuer + "/authorize?" + replaced(asks(c), "state", strings.Repeat("l", 4096)).Encode())
	mustShow(t, large, http.StatusServiceUnavailable, "temporarily_unavailable")
	b := h.newBrowser()
	tokens := b.tokens(c, asks(c)) // a new session, a decision, a code and its redemption
	if answer := h.toToken(c, refreshing(c, held.refresh)); answer.status != http.StatusOK {
		t.Errorf("a refresh: %s", answer)
	}
	if answer := h.post("/revoke", "token", tokens.refresh, "client_id", c.ID); answer.status != http.StatusOK || h.active(tokens.access) {
		t.Errorf("a revocation: %s", answer)
	}
	if err := h.handler.Load().Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}

	h.faults.SetRoom(storage.RoomNone)
	if err := h.handler.Load().Ready(t.Context()); !errors.Is(err, storage.ErrFull) || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Ready of a full store: %v", err)
	}
	if b.open(h.issuer + "/authorize?" + asks(c).Encode()); b.last.status != http.StatusSeeOther {
		t.Errorf("a request in a full store: %s", b.last)
	}
	b.follow()
	mustShow(t, b.submit("decision", "allow"), http.StatusServiceUnavailable, "temporarily_unavailable")
	h.faults.SetRoom(storage.RoomEnough)
	if b.submit("decision", "allow").location(t).Query().Get("code") == "" {
		t.Errorf("the same page with room again: %s", b.last)
	}
	if answer := h.registerFrom("192.0.2.1", "one"); answer.status != http.StatusCreated {
		t.Errorf("with room again: %s", answer)
	}
}

// TestLogTellsRoom: the log names a shortage of room and its end: at once when it gets
// worse, and otherwise once a minute, however often it changes.
func TestLogTellsRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
		end := s.run()
		defer end()
		said := func(what string) int { return strings.Count(s.log.String(), what) }
		time.Sleep(10 * time.Second)
		if said("the store") != 0 {
			t.Errorf("with room the log says\n%s", s.log)
		}
		for i := range 5 * 12 { // five minutes on the edge
			s.faults.SetRoom([]storage.Room{storage.RoomTight, storage.RoomEnough}[i%2])
			time.Sleep(5 * time.Second)
		}
		if n := said("the store is nearly full"); n < 1 || n > 6 {
			t.Errorf("in five minutes the log said %d times that the store is nearly full", n)
		}
		if n := said("give it more memory, or its disk more space"); n != said("the store is nearly full") {
			t.Errorf("%d lines name what a store in a file needs too\n%s", n, s.log)
		}
		s.faults.SetRoom(storage.RoomNone)
		time.Sleep(6 * time.Second)
		if said(`level=ERROR msg="the store is full`) != 1 {
			t.Errorf("the log does not say that the store is full\n%s", s.log)
		}
		s.faults.SetRoom(storage.RoomEnough)
		time.Sleep(2 * time.Minute)
		if !strings.HasSuffix(strings.TrimSpace(s.log.String()), `"the store has room again"`) {
			t.Errorf("the log does not say that there is room again\n%s", s.log)
		}
	})
}

// TestPersonOnTheSignInPage: a flood of registrations of the same software, from other
// networks and at another process, does not remove the client of a person who is on the
// sign-in page.
func TestPersonOnTheSignInPage(t *testing.T) {
	t.Parallel()
	inBubble(t, [][]byte{masterKey}, func(t *testing.T, s *bubble) {
		s.startWith(s.store, authz.RegistrationOpen)
		end := s.run()
		defer end()
		send := func(method, target, from, body string) reply {
			r := httptest.NewRequestWithContext(t.Context(), method, secureIssuer+target, strings.NewReader(body))
			r.RemoteAddr = from + ":4711"
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, r)
			return reply{status: w.Code, header: w.Header(), body: w.Body.String()}
		}
		register := func(from string) reply {
			return send(http.MethodPost, "/register", from,
				`{"redirect_uris":["http://127.0.0.1/callback"],"token_endpoint_auth_method":"none","client_name":"Editor"}`)
		}
		id := register("198.51.100.1").member(t, "client_id")
		time.Sleep(time.Hour)
		request := asks(testClients()["native"])
		request.Set("client_id", id)
		ask := func() int { return send(http.MethodGet, "/authorize?"+request.Encode(), "198.51.100.1", "").status }
		if ask() != http.StatusSeeOther {
			t.Fatal("the client is not there")
		}
		time.Sleep(6 * time.Second)
		s.startWith(s.store, authz.RegistrationOpen) // another process, without that in its memory
		end2 := s.run()
		defer end2()
		registered := 0
		for i := range 1200 { // of one software 1000 are kept
			if register(fmt.Sprintf("192.0.%d.%d", i%3, i%200)).status == http.StatusCreated {
				registered++
			}
			if i%100 == 0 {
				time.Sleep(30 * time.Second)
			}
		}
		time.Sleep(8 * time.Minute)
		if registered < 1100 {
			t.Fatalf("only %d of the flood registered", registered)
		}
		if ask() != http.StatusSeeOther {
			t.Error("a flood removed the client of a person who is signing in")
		}
	})
}
