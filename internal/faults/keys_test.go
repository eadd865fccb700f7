//go:build e2e

package faults

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/middleware"
)

const (
	// keyCache is how long others may keep the published keys. A new key is published for twice
	// as long before it signs.
	keyCache = 2 * time.Second
	// keyRotation is when the server rotates by itself, without the verb.
	keyRotation = 8 * time.Second
	// revokedWithin is the time after which a revoked key is not accepted any more: a process
	// reads the keys after a quarter of keyCache at most, and others may keep what it published
	// then for keyCache. The rest is for a busy machine.
	revokedWithin = keyCache + keyCache/4 + 3*time.Second
	// keyPace is the time between two requests, keyWorkers how many may be under way.
	keyPace    = 5 * time.Millisecond
	keyWorkers = 8
)

// kidOf returns the id of the key that signed a token.
func kidOf(access string) string {
	head, _, _ := strings.Cut(access, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		KID string `json:"kid"`
	}
	_ = json.Unmarshal(raw, &header) // an unreadable token has no key
	return header.KID
}

// resourceServer is a protected server that fetches the keys from one process and keeps them for
// as long as it may. The middleware would keep them for longer than a test can wait, and fetch
// them again for an unknown key; this one is replaced by a new one when the time is over, and
// fetches nothing before: no resource has older keys.
type resourceServer struct {
	at *process

	mu      sync.Mutex
	handler http.Handler
	since   time.Time
}

func (r *resourceServer) guard() (http.Handler, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.since) < keyCache {
		return r.handler, nil
	}
	guard, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{r.at.fleet.issuer}, Client: r.at.client})
	if err != nil {
		return nil, err
	}
	r.since = time.Now()
	r.handler = guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	return r.handler, nil
}

// ask sends a request with a token to the resource. It is unavailable when the key may be younger
// than those that can be fetched.
func (r *resourceServer) ask(access string) (outcome, error) {
	handler, err := r.guard()
	if err != nil {
		return broken, err
	}
	request := httptest.NewRequest(http.MethodPost, resource, nil)
	request.Header.Set("Authorization", "Bearer "+access)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request)
	switch w.Code {
	case http.StatusNoContent:
		return granted, nil
	case http.StatusUnauthorized:
		return refused, nil
	case http.StatusServiceUnavailable:
		return unavailable, nil
	}
	return broken, fmt.Errorf("%d %s", w.Code, w.Body)
}

// TestKeysUnderLoad: keys rotate, by the verb and by themselves, and one is revoked, while
// clients refresh and resources ask. No process and no resource ever refuses a valid token, none
// accepts the revoked key when its time is over, and the retired keys stay published, because
// tokens with their signatures may be valid for an hour.
func TestKeysUnderLoad(t *testing.T) {
	l := newKeyLoad(t)
	began := time.Now()
	l.begin()
	byVerb := amount(1, 10)
	for range byVerb {
		l.rotate()
	}
	last := l.mustActive().ID
	l.rotated(l.signs("by itself", func(kid string) bool { return kid != last }))
	l.revoke()
	l.signs("in place of the revoked key", func(kid string) bool { return kid != l.revoked })
	p := l.fleet.newParty(l.at[0])
	for _, access := range l.of(l.revoked, 20) {
		l.present(p, 0, access)
		l.present(p, 1, access)
	}
	l.end()
	t.Logf("%d requests in %s, %d tokens of %d keys", l.asked.Load(), time.Since(began).Round(time.Second), len(l.tokens), len(l.signed))
	if want := byVerb + 3; len(l.signed) < want {
		t.Errorf("%d keys signed, want %d", len(l.signed), want)
	}
	for _, at := range l.at {
		kids := l.published(at)
		for kid := range l.signed {
			if kids[kid] == (kid == l.revoked) {
				t.Errorf("%s publishes key %s: %t; it is the revoked one: %t", at.address, kid, kids[kid], kid == l.revoked)
			}
		}
	}
	if n := l.wrongs.Load(); n > 10 {
		t.Errorf("%d wrong answers in all", n)
	}
}
