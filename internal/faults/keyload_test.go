//go:build e2e

package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis/redistest"
)

// keyLoad is the requests of clients and resources while keys come and go: every access token
// that was ever issued is sent again and again, to both processes and to resources of both.
type keyLoad struct {
	t         *testing.T
	fleet     *fleet
	at        [2]*process
	resources [2]*resourceServer
	store     *storage.Store

	stop    chan struct{}
	workers sync.WaitGroup
	asked   atomic.Int64
	wrongs  atomic.Int64

	mu      sync.Mutex
	tokens  []string
	signed  map[string]bool // keys that signed something
	known   map[string]bool // keys that were published before they signed; nil for all
	revoked string          // the key that is or is about to be revoked
	gone    time.Time       // when it is not accepted any more; zero before it is certainly revoked
}

func newKeyLoad(t *testing.T) *keyLoad {
	t.Helper()
	url := redistest.StartServer(t)
	l := &keyLoad{t: t, fleet: newFleet(t, fleetConfig{Store: url}), stop: make(chan struct{}), signed: map[string]bool{}}
	for i := range l.at {
		l.at[i] = l.fleet.start("--key-cache", keyCache.String(), "--key-rotation", keyRotation.String(), "--access-token-ttl", "30m")
		l.resources[i] = &resourceServer{at: l.at[i]}
	}
	l.store = openStore(t, l.fleet)
	return l
}

// begin starts all clients, each with a family.
func (l *keyLoad) begin() {
	pace := time.NewTicker(keyPace)
	l.t.Cleanup(pace.Stop)
	for range keyWorkers {
		p := l.fleet.newParty(l.at[0])
		first := p.mustTokens(l.at[1])
		l.issued(first.Access)
		l.workers.Go(func() {
			refresh := first.Refresh
			for {
				select {
				case <-l.stop:
					return
				case <-pace.C:
					refresh = l.step(p, refresh)
				}
			}
		})
	}
	l.workers.Go(l.watch)
	l.t.Cleanup(l.end)
}

// end stops the load and waits for it. It may have ended before.
func (l *keyLoad) end() {
	l.mu.Lock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.mu.Unlock()
	l.workers.Wait()
}

// wrong reports a wrong answer. Only the first ones are logged.
func (l *keyLoad) wrong(format string, args ...any) {
	if l.wrongs.Add(1) <= 10 {
		l.t.Errorf(format, args...)
	}
}

// step is one request, and requests of a resource with the same token.
func (l *keyLoad) step(p *party, refresh string) string {
	l.asked.Add(1)
	i := rand.IntN(2)
	if rand.IntN(4) > 0 {
		l.present(p, i, l.sample())
		return refresh
	}
	a := p.refresh(l.at[i], refresh)
	if a.outcome() != granted || a.Access == "" || a.Refresh == "" {
		l.wrong("%s", a)
		return refresh
	}
	l.issued(a.Access)
	l.present(p, 1-i, a.Access) // the other process must have the key
	return a.Refresh
}

// issued adds a token.
func (l *keyLoad) issued(access string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = append(l.tokens, access)
	l.signed[kidOf(access)] = true
}

// sample returns one of the tokens: an old one as often as a young one.
func (l *keyLoad) sample() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.tokens)
	if rand.IntN(2) > 0 {
		n = min(n, 100)
	}
	return l.tokens[len(l.tokens)-1-rand.IntN(n)]
}

// present sends a token to one process and to its resource.
func (l *keyLoad) present(p *party, i int, access string) {
	began := time.Now()
	a := p.introspect(l.at[i], access)
	if a.outcome() != granted {
		l.wrong("%s", a)
		return
	}
	said := refused
	if a.Active {
		said = granted
	}
	l.judge(a.At, access, began, said, false)
	began = time.Now()
	said, err := l.resources[i].ask(access)
	if err != nil {
		l.wrong("the resource of %s: %v", l.at[i].address, err)
		return
	}
	l.judge("the resource of "+l.at[i].address, access, began, said, true)
}

// judge compares an answer with the expected one. The token has not expired and its family is
// active, so only the key decides.
func (l *keyLoad) judge(where, access string, began time.Time, said outcome, atResource bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kid := kidOf(access)
	switch {
	case kid == l.revoked && said == granted && !l.gone.IsZero() && began.After(l.gone):
		l.wrong("%s accepts the revoked key %s", where, kid)
	case kid == l.revoked || said == granted:
	case atResource && l.known != nil && !l.known[kid]: // it replaced the revoked one, unpublished
	case said == unavailable:
		l.wrong("%s cannot judge a token of key %s", where, kid)
	default:
		l.wrong("%s refuses a token of key %s", where, kid)
	}
}

// watch reads the record of the keys all the time.
func (l *keyLoad) watch() {
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if _, err := l.active(); err != nil {
			l.wrong("%v", err)
		}
	}
}

// active returns the one key that signs.
func (l *keyLoad) active() (key storage.SigningKey, err error) {
	set, err := l.store.KeySet(l.t.Context())
	if err != nil {
		return key, err
	}
	count := map[storage.KeyState]int{}
	for _, k := range set.Keys {
		if count[k.State]++; k.State == storage.KeyActive {
			key = k
		}
	}
	if count[storage.KeyActive] != 1 || count[storage.KeyPending] > 1 {
		return key, fmt.Errorf("the states of the keys are %v", count)
	}
	return key, nil
}

func (l *keyLoad) mustActive() storage.SigningKey {
	l.t.Helper()
	key, err := l.active()
	if err != nil {
		l.t.Fatal(err)
	}
	return key
}

// verb runs a verb of the command on the store of the server.
func (l *keyLoad) verb(args ...string) string {
	l.t.Helper()
	cmd := exec.Command(authzBinary, append([]string{"key"}, args...)...)
	cmd.Env = l.fleet.environment()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			l.t.Fatalf("authz key %v: %v: %s", args, err, exit.Stderr)
		}
		l.t.Fatal(err)
	}
	return string(out)
}

// signs waits until a wanted key signs, and has signed a token.
func (l *keyLoad) signs(what string, wanted func(kid string) bool) storage.SigningKey {
	l.t.Helper()
	var key storage.SigningKey
	eventually(l.t, patience, func() error {
		var err error
		if key, err = l.active(); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if !wanted(key.ID) || !l.signed[key.ID] {
			return fmt.Errorf("%s: %s is active, it has signed: %t", what, key.ID, l.signed[key.ID])
		}
		return nil
	})
	return key
}

// rotate makes the next key with the verb, and returns when it signs.
func (l *keyLoad) rotate() {
	l.t.Helper()
	var next struct {
		KID   string `json:"kid"`
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(l.verb("rotate", "--json")), &next); err != nil || next.State != "pending" {
		l.t.Fatalf("key rotate: %+v, %v", next, err)
	}
	l.rotated(l.signs("after key rotate", func(kid string) bool { return kid == next.KID }))
}

// rotated checks a key that signs after it was published.
func (l *keyLoad) rotated(key storage.SigningKey) {
	l.t.Helper()
	if waited := key.Activated.Sub(key.Created); waited < 2*keyCache {
		l.t.Errorf("key %s signs %s after it was made, want %s", key.ID, waited, 2*keyCache)
	}
}

// revoke destroys the key that signs, and returns when no resource may accept it any more. The
// key that takes its place was not published before: processes read it all the same, resources
// when they fetch the keys again. Until then they cannot judge its tokens, or refuse them if
// their keys are younger.
func (l *keyLoad) revoke() {
	l.t.Helper()
	set, err := l.store.KeySet(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.known = map[string]bool{}
	for _, k := range set.Keys {
		l.known[k.ID] = true
		if k.State == storage.KeyActive {
			l.revoked = k.ID
		}
	}
	l.mu.Unlock()
	l.verb("revoke", l.revoked)
	gone := time.Now().Add(revokedWithin)
	l.mu.Lock()
	l.gone = gone
	l.mu.Unlock()
	if l.mustActive().ID == l.revoked {
		l.t.Fatal("the revoked key signs")
	}
	<-time.After(time.Until(gone))
	l.mu.Lock()
	l.known = nil
	l.mu.Unlock()
}

// of returns tokens of one key, the last ones.
func (l *keyLoad) of(kid string, most int) (tokens []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, access := range slices.Backward(l.tokens) {
		if len(tokens) < most && kidOf(access) == kid {
			tokens = append(tokens, access)
		}
	}
	return tokens
}

// published returns the ids of the keys that a process publishes.
func (l *keyLoad) published(at *process) map[string]bool {
	l.t.Helper()
	a, resp := at.send("keys", at.client, newRequest(http.MethodGet, l.fleet.issuer+"/jwks.json", ""))
	if a.outcome() != granted {
		l.t.Fatal(a)
	}
	if got, want := resp.Header.Get("Cache-Control"), fmt.Sprintf("public, max-age=%d", keyCache/time.Second); got != want {
		l.t.Errorf("/jwks.json at %s: Cache-Control %q, want %q", at.address, got, want)
	}
	var set struct {
		Keys []struct {
			KID string `json:"kid"`
		} `json:"keys"`
	}
	if err := json.Unmarshal([]byte(a.body), &set); err != nil {
		l.t.Fatal(err)
	}
	kids := map[string]bool{}
	for _, k := range set.Keys {
		kids[k.KID] = true
	}
	return kids
}
