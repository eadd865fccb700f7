//go:build e2e

package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/middleware/middlewaretest"
	"gatehouse.example/storage/redis/redistest"
)

// slowHTTP runs TestSlowClients, which takes four minutes: go test -tags e2e ./internal/faults -run
// SlowClients -v -faults.slowhttptest /usr/bin/slowhttptest
var slowHTTP = flag.String("faults.slowhttptest", "", "the program slowhttptest, which attacks a server and a gateway")

const (
	slowConnections = 2000 // more than the 1250 that one address may have
	slowTime        = 20 * time.Second
	slowPace        = 20 * time.Millisecond
)

// slowAttacks are the modes of slowhttptest.
var slowAttacks = []struct {
	name string
	args []string
}{
	{"slow headers", []string{"-H", "-i", "3"}},
	{"slow bodies", []string{"-B", "-i", "3", "-s", "8192", "-f", "application/x-www-form-urlencoded"}},
	{"slow reading", []string{"-X", "-k", "10", "-w", "10", "-y", "20", "-n", "5", "-z", "32"}},
	{"ranges", []string{"-R", "-t", "GET"}},
}

// slowTarget is a listener that is attacked, and what a good client does there meanwhile.
type slowTarget struct {
	name, url string
	good      func() error
}

// fromElsewhere is a client with another address than that of the attack, in another network.
func fromElsewhere(to string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 9, 9)}}
	return &http.Client{Timeout: answerTime, Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, to)
	}}}
}

// slowServer is an authorization server with a client that refreshes.
func slowServer(t *testing.T) slowTarget {
	f := newFleet(t, fleetConfig{Store: redistest.StartServer(t)})
	at := f.start()
	at.client.Transport = fromElsewhere(at.address).Transport
	p := f.newParty(at)
	token := p.mustTokens(at).Refresh
	return slowTarget{"serve", "http://" + at.address + "/token", func() error {
		a := p.refresh(at, token)
		if a.outcome() != granted {
			return errors.New(a.String())
		}
		token = a.Refresh
		return nil
	}}
}

// slowGateway is a gateway with a client that calls the server behind it.
func slowGateway(t *testing.T) slowTarget {
	issuer := middlewaretest.NewIssuer(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(upstream.Close)
	address := redistest.FreeAddress(t)
	w := &watch{t: t}
	w.run(authzBinary, nil, "gateway", "--listen", address, "--resource", "https://notes.example.com/mcp", "--upstream", upstream.URL, "--issuer", issuer.URL())
	token := issuer.Mint(middlewaretest.Claims{"aud": "https://notes.example.com/mcp", "exp": time.Now().Add(time.Hour).Unix()})
	client := fromElsewhere(address)
	good := func() error {
		r := newRequest(http.MethodPost, "http://"+address+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			return errors.New(resp.Status)
		}
		return nil
	}
	eventually(t, patience, good)
	return slowTarget{"gateway", "http://" + address + "/mcp", good}
}

// during has the good client work until done is closed, and says how long its requests took.
func (s slowTarget) during(t *testing.T, done <-chan struct{}) string {
	t.Helper()
	var took []time.Duration
	tick := time.NewTicker(slowPace)
	defer tick.Stop()
	for {
		select {
		case <-done:
			if len(took) == 0 {
				return "it was over at once"
			}
			slices.Sort(took)
			at := func(part float64) time.Duration {
				return took[int(part*float64(len(took)-1))].Round(time.Millisecond / 10)
			}
			return fmt.Sprintf("%d requests, half took %s, 99%% %s, all %s", len(took), at(0.5), at(0.99), at(1))
		case <-tick.C:
			began := time.Now()
			if err := s.good(); err != nil {
				t.Errorf("%s: a good client is refused: %v", s.name, err)
			}
			took = append(took, time.Since(began))
		}
	}
}

var slowStatus = regexp.MustCompile(`(connected|error|closed):\s+(\d+)`)

// TestSlowClients: while slowhttptest holds connections by slow headers, slow bodies, slow reading and
// requests for many ranges, a client in another network gets every answer.
func TestSlowClients(t *testing.T) {
	if *slowHTTP == "" {
		t.Skip("it takes four minutes: -faults.slowhttptest")
	}
	for _, target := range []slowTarget{slowServer(t), slowGateway(t)} {
		calm := make(chan struct{})
		time.AfterFunc(slowTime/2, func() { close(calm) })
		t.Logf("%s, calm: %s", target.name, target.during(t, calm))
		for _, attack := range slowAttacks {
			args := append([]string{"-c", fmt.Sprint(slowConnections), "-r", "500", "-l", fmt.Sprint(slowTime.Seconds()), "-u", target.url, "-v", "1"}, attack.args...)
			done := make(chan struct{})
			var out []byte
			var err error
			go func() {
				defer close(done)
				out, err = exec.Command(*slowHTTP, args...).CombinedOutput()
			}()
			t.Logf("%s, %s: %s", target.name, attack.name, target.during(t, done))
			if len(out) == 0 {
				t.Errorf("slowhttptest %v: %v", args, err)
			}
			t.Logf("slowhttptest %s: %s", strings.Join(args, " "), slowEnd(string(out)))
		}
	}
}

// slowEnd returns the most connections that slowhttptest had at a time, and its last line.
func slowEnd(out string) string {
	out = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`).ReplaceAllString(out, "")
	most, last := map[string]int{}, map[string]string{}
	for _, found := range slowStatus.FindAllStringSubmatch(out, -1) {
		var n int
		_, _ = fmt.Sscan(found[2], &n)
		most[found[1]], last[found[1]] = max(most[found[1]], n), found[2]
	}
	return fmt.Sprintf("%d connections at most; at the end %v", most["connected"], last)
}
