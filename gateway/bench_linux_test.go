package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/gateway"
)

// BenchmarkBesideProxy sends the same message to a server directly, through a bare
// httputil.ReverseProxy and through the gateway, in turn. It reports medians of the processor time
// that the proxy and the gateway add to a request, in microseconds, and their ratio as "x-bare".
// The token was seen before; a message has the headers that clients send.
func BenchmarkBesideProxy(b *testing.B) {
	const events = 20
	upstream := serverOf(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Accept") == "application/json" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+strings.Repeat("note ", 100)+`"}]}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range events {
			fmt.Fprintf(w, "id: %d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n", n)
			_ = http.NewResponseController(w).Flush()
		}
	})
	at, _ := url.Parse(upstream)
	bare := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at); r.SetXForwarded() }, FlushInterval: -1,
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // an answer may begin before the message has been read
		bare.ServeHTTP(w, r)
	}))
	b.Cleanup(proxy.Close)
	for name, policy := range map[string]map[string][]string{"": nil, "-policy": {"list_notes": {"notes:read"}}} {
		g := newGate(b, upstream, func(c *gateway.Config) {
			c.Guard.Policy.Tools = policy
			c.Guard.InsecureUnboundSessions = true
		})
		token := g.token(b, nil)
		for kind, accept := range map[string]string{"json": "application/json", "events": "application/json, text/event-stream"} {
			b.Run(kind+name, func(b *testing.B) {
				besideProxy(b, [3]string{upstream, proxy.URL, g.server.URL}, token, accept)
			})
		}
	}
}

// besideProxy measures requests to a server, to a proxy in front of it and to a gateway in front of it.
func besideProxy(b *testing.B, targets [3]string, token, accept string) {
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_notes","arguments":{}}}`
	client := http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	var took [3][]time.Duration
	for b.Loop() {
		for i, target := range targets {
			const together = 40 // the clock of the process ticks in microseconds
			begin := processorTime(b)
			for range together {
				r, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, target+"/mcp", strings.NewReader(message))
				r.Header = http.Header{
					"Authorization": {"Bearer " + token}, "Accept": {accept}, "Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2025-11-25"},
					"Accept-Language": {"*"}, "Sec-Fetch-Mode": {"cors"}, "User-Agent": {"node"},
				}
				res, err := client.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, res.Body); n < 500 || err != nil || res.StatusCode != http.StatusOK {
					b.Fatal(res.StatusCode, n, err)
				}
				res.Body.Close()
			}
			took[i] = append(took[i], (processorTime(b)-begin)/together)
		}
	}
	var median [3]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2]) / 1e3
	}
	b.ReportMetric(0, "ns/op") // that of all together means nothing
	b.ReportMetric(median[0], "us-direct")
	b.ReportMetric(median[1]-median[0], "us-proxy")
	b.ReportMetric(median[2]-median[0], "us-gateway")
	b.ReportMetric((median[2]-median[0])/(median[1]-median[0]), "x-bare")
}

// processorTime returns the processor time of this process, user and system.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
