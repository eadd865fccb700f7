package authz_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

// family is one grant, with the codes and tokens that its client and thieves hold.
type family struct {
	mu       sync.Mutex
	code     string
	access   []string
	refresh  []string
	redeemed int
	ended    bool // a revocation was confirmed
}

// TestMonkeys: eight clients act at random on three grants while replies of the store get
// lost and the store fails and recovers. A code gives tokens once, a confirmed revocation is
// permanent, and no answer is a 500.
func TestMonkeys(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			h, c := newHarness(t, setup{}), testClients()["native"]
			b := h.newBrowser()
			families := make([]*family, 3)
			for i := range families {
				families[i] = &family{code: b.code(asks(c))}
			}
			calm := chaos(h, rand.New(rand.NewPCG(seed, 99)))
			var wg sync.WaitGroup
			for monkey := range uint64(8) {
				wg.Go(func() {
					m := randomClient{h: h, c: c, random: rand.New(rand.NewPCG(seed, monkey))}
					for range 60 {
						m.act(t, families[m.random.IntN(len(families))])
					}
				})
			}
			wg.Wait()
			calm()
			for _, f := range families {
				f.mustHold(t, h, c)
			}
		})
	}
}

// chaos makes the store fail in various ways until the returned function is called.
func chaos(h *harness, random *rand.Rand) (calm func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				h.faults.SetDown(false)
				h.faults.LoseReplies(0)
				h.faults.LoseRequests(0)
				return
			case <-time.After(time.Millisecond):
			}
			switch random.IntN(6) {
			case 0:
				h.faults.LoseReplies(1)
			case 1:
				h.faults.LoseRequests(1)
			case 2:
				h.faults.SetDown(true)
			default:
				h.faults.SetDown(false)
			}
		}
	}()
	return func() { close(stop); <-done }
}

// randomClient acts at random.
type randomClient struct {
	h      *harness
	c      testClient
	random *rand.Rand
}

func (m randomClient) act(t *testing.T, f *family) {
	f.mu.Lock()
	ended, code, redeemed := f.ended, f.code, f.redeemed > 0
	refresh, access := m.pick(f.refresh), m.pick(f.access)
	if len(f.refresh) > 0 && m.random.IntN(50) > 0 {
		refresh = f.refresh[len(f.refresh)-1] // seldom an older one: that ends the family
	}
	f.mu.Unlock()
	var r reply
	switch kind := m.random.IntN(10); {
	case kind < 3 && (!redeemed || m.random.IntN(40) == 0):
		r = m.h.toToken(m.c, redemption(m.c, code))
		f.learn(t, r, true)
	case kind < 7 && refresh != "":
		r = m.h.toToken(m.c, refreshing(m.c, refresh))
		f.learn(t, r, false)
	case kind < 8 && refresh != "" && m.random.IntN(20) == 0:
		if r = m.h.post("/revoke", "token", refresh, "client_id", m.c.ID); r.status == http.StatusOK {
			f.mu.Lock()
			f.ended = true
			f.mu.Unlock()
		}
		return
	case access != "":
		if r = m.h.introspect(access); ended && r.status == http.StatusOK && r.json(t)["active"] != false {
			t.Errorf("revoked, and then active: %s", r)
		}
		return
	default:
		r = m.h.toToken(testClients()["other"], redemption(testClients()["other"], code))
	}
	if ended && r.status == http.StatusOK {
		t.Errorf("revoked, and then tokens: %s", r)
	}
	if r.status != http.StatusOK && r.status != http.StatusBadRequest && r.status != http.StatusServiceUnavailable {
		t.Errorf("%s", r)
	}
}

func (m randomClient) pick(from []string) string {
	if len(from) == 0 {
		return ""
	}
	return from[m.random.IntN(len(from))]
}

// learn keeps the tokens of an answer.
func (f *family) learn(t *testing.T, r reply, redeemed bool) {
	if r.status != http.StatusOK {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if redeemed {
		f.redeemed++
	}
	f.access = append(f.access, r.member(t, "access_token"))
	f.refresh = append(f.refresh, r.member(t, "refresh_token"))
}

// mustHold checks the state after the faults have ended.
func (f *family) mustHold(t *testing.T, h *harness, c testClient) {
	t.Helper()
	t.Logf("redeemed %d times, %d answers with tokens, revoked %t", f.redeemed, len(f.refresh), f.ended)
	if f.redeemed > 1 {
		t.Errorf("one code gave tokens %d times", f.redeemed)
	}
	if !f.ended {
		return
	}
	for _, token := range f.refresh {
		mustRefuse(t, h.toToken(c, refreshing(c, token)), http.StatusBadRequest, "invalid_grant")
	}
	for _, token := range f.access {
		if h.active(token) {
			t.Error("revoked, and still active")
		}
	}
}
