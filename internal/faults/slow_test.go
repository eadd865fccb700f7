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
	"net/url"
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

// slowTarget is a listener that is attacked, and what good clients do there meanwhile: one in another
// network, one with another address in the network of the attack, and one with the address of the
// attack whose connection is older. To a new connection from that address nothing is promised: an
// address has an eighth of the places, and the attack holds them.
type slowTarget struct {
	name, url string
	clients   map[string]func() error
}

// slowSources are the addresses of the good clients. That of the attack is 127.0.0.1.
var slowSources = map[string]net.IP{
	"another network": net.IPv4(127, 0, 9, 9), "the same network": net.IPv4(127, 0, 0, 9), "the same address, connected before": net.IPv4(127, 0, 0, 1),
}

// clientFrom is a client with an address of its own, which keeps its connection.
func clientFrom(source net.IP, to string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: source}}
	return &http.Client{Timeout: answerTime, Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, to)
	}}}
}

// slowServer is an authorization server with a client that refreshes.
func slowServer(t *testing.T) slowTarget {
	f := newFleet(t, fleetConfig{Store: redistest.StartServer(t)})
	at := f.start()
	p := f.newParty(at)
	target := slowTarget{"serve", "http://" + at.address + "/token", map[string]func() error{}}
	for name, source := range slowSources {
		token, client := p.mustTokens(at).Refresh, clientFrom(source, at.address)
		target.clients[name] = func() error {
			form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {p.id}}
			a, _ := at.send("refresh", client, newForm(p.issuer+"/token", form))
			if a.outcome() != granted {
				return errors.New(a.String())
			}
			token = a.Refresh
			return nil
		}
	}
	return target
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
	good := func(client *http.Client) error {
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
	target := slowTarget{"gateway", "http://" + address + "/mcp", map[string]func() error{}}
	for name, source := range slowSources {
		client := clientFrom(source, address)
		target.clients[name] = func() error { return good(client) }
		eventually(t, patience, target.clients[name])
	}
	return target
}

// during has the good clients work until done is closed, and says how long their requests took.
func (s slowTarget) during(t *testing.T, done <-chan struct{}) string {
	t.Helper()
	said := make(chan string, len(s.clients))
	for name, good := range s.clients {
		go func() { said <- name + ": " + s.works(t, name, good, done) }()
	}
	var all []string
	for range s.clients {
		all = append(all, <-said)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// works has one client work.
func (s slowTarget) works(t *testing.T, name string, good func() error, done <-chan struct{}) string {
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
			if err := good(); err != nil {
				t.Errorf("%s: a good client in %s is refused: %v", s.name, name, err)
			}
			took = append(took, time.Since(began))
		}
	}
}

var slowStatus = regexp.MustCompile(`(connected|error|closed):\s+(\d+)`)

// TestSlowClients: while slowhttptest holds connections by slow headers, slow bodies, slow reading and
// requests for many ranges, clients in other networks and in the same one get every answer, and so does
// one at the same address that is connected already. What a quiet reader may not do is in
// internal/listener: the time there is 30 s, longer than an attack of this test.
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
