//go:build e2e

package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// floodEnv is the environment of a process that floods: the address of the server, the first
// registration, how many there are, how many a minute, and whether all are of one software.
const floodEnv = "GATEHOUSE_FLOOD"

// floodWorkers is how many registrations are in flight at most: more than wait at the server.
const floodWorkers = 3000

// giveWay lets the process, which is a session of its own, give way to that of those who are measured: a
// real flood comes from other machines. Linux divides the processors between sessions (sched(7),
// autogroup); elsewhere, or without the right, it changes nothing.
func giveWay(t *testing.T) {
	var group string
	var nice int
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", os.Getppid()))
	if err != nil {
		return
	}
	if _, err := fmt.Sscanf(string(text), "%s nice %d", &group, &nice); err != nil {
		t.Log(err)
	}
	_ = os.WriteFile("/proc/self/autogroup", fmt.Append(nil, min(nice+floodNice, 19)), 0)
}

// floodNice is by how much the flood gives way.
const floodNice = 6

// TestFlooder is the process that sends registrations, each as from another network, at an even pace
// whatever the answers are.
func TestFlooder(t *testing.T) {
	var address string
	var from, n, inAll int
	var same bool
	if _, err := fmt.Sscan(os.Getenv(floodEnv), &address, &from, &n, &inAll, &same); err != nil {
		t.Skip("TestRegistrationFlood runs it")
	}
	giveWay(t)
	transport := &http.Transport{MaxIdleConnsPerHost: floodWorkers}
	client := &http.Client{Transport: transport, Timeout: answerTime}
	var statuses [600]atomic.Int64
	var untimed atomic.Int64
	p := poured{Status: map[int]int64{}}
	free := make(chan struct{}, floodWorkers)
	var flying sync.WaitGroup
	begin := time.Now()
	for i := range n {
		due := begin.Add(time.Duration(i) * floodTime / time.Duration(inAll))
		time.Sleep(time.Until(due))
		free <- struct{}{}
		if time.Since(due) > time.Second {
			p.Late++
		}
		p.Offered++
		flying.Go(func() {
			defer func() { <-free }()
			status, timed := registerAt(client, address, from+i, same)
			statuses[status].Add(1)
			if !timed && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
				untimed.Add(1)
			}
		})
	}
	p.Lasted = time.Since(begin)
	flying.Wait()
	p.Untimed = untimed.Load()
	for status := range statuses {
		if n := statuses[status].Load(); n > 0 {
			p.Status[status] = n
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(p); err != nil {
		t.Fatal(err)
	}
}

// registerAt sends a registration, and reports its status, 0 without an answer, and whether it says
// when to come back.
func registerAt(client *http.Client, address string, i int, same bool) (status int, timed bool) {
	software := i
	if same {
		software = 0
	}
	r := newRequest(http.MethodPost, "http://"+address+"/register",
		fmt.Sprintf(`{"redirect_uris":["https://client-%d.example.org/callback"],"token_endpoint_auth_method":"none","client_name":"Flood %d"}`, software, software))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("%d.%d.%d.1", 20+i>>16, i>>8&255, i&255))
	resp, err := client.Do(r)
	if err != nil {
		return 0, false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After") != ""
}
