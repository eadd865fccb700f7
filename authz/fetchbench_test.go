package authz_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/safefetch"
)

// BenchmarkBesideSilentHosts measures the sign-in of a client that was not seen before, and a
// refresh: without load, and while another address starts sign-ins of clients at hosts that
// never answer, as fast as it can with 160 connections. The timeouts are the default ones.
func BenchmarkBesideSilentHosts(b *testing.B) {
	h, web := newSilentWeb(b, func(c *safefetch.Config) { c.Floor = 200 * time.Millisecond })
	b.Cleanup(func() { close(web.release) })
	c := testClients()["native"]
	refresh := h.tokens(c).refresh
	var n atomic.Int64
	honest := func() {
		id := web.URL(fmt.Sprintf("honest%d.example.org", n.Add(1)), "/client.json")
		web.Document(id, fmt.Sprintf(plainDocument, id))
		h.clock.advance(time.Second)
		if got := h.authorizeFrom(fmt.Sprintf("198.51.%d.1", n.Load()%250), id); got.Code != http.StatusSeeOther {
			b.Fatalf("the honest sign-in: %d", got.Code)
		}
	}
	token := func() {
		answer := h.toToken(c, refreshing(c, refresh))
		if answer.status != http.StatusOK {
			b.Fatal(answer)
		}
		refresh = answer.member(b, "refresh_token")
	}
	measure := func(b *testing.B, what string, do func()) {
		took := make([]time.Duration, 200)
		for i := range took {
			begin := time.Now()
			do()
			took[i] = time.Since(begin)
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[100].Microseconds())/1000, what+"-p50-ms")
		b.ReportMetric(float64(took[198].Microseconds())/1000, what+"-p99-ms")
	}
	run := func(b *testing.B) {
		for b.Loop() {
			measure(b, "fresh", honest)
			measure(b, "refresh", token)
		}
	}
	b.Run("calm", run)
	var over atomic.Bool
	for i := range 160 {
		go func() {
			for k := 0; !over.Load(); k++ {
				h.authorizeFrom("192.0.2.1", web.URL(fmt.Sprintf("h%d-%d.example.com", i, k), "/client.json"))
				time.Sleep(100 * time.Millisecond) // refused requests are repeated at once
			}
		}()
	}
	b.Run("flood", run)
	over.Store(true)
}
