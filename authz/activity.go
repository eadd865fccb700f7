package authz

import (
	"context"
	"sync"
	"time"

	"gatehouse.example/storage"
)

// The kinds of events that people see on their page, [storage.Event.What]. They are stored, so a
// word keeps its meaning for good.
const (
	eventSignedIn             = storage.EventSignedIn // About: the method, and the provider if there is one
	eventPasswordChanged      = "password-changed"
	eventPasskeyAdded         = "passkey-added"   // About: its name
	eventPasskeyRemoved       = "passkey-removed" // About: its name
	eventFactorOn             = "second-factor-on"
	eventFactorOff            = "second-factor-off"
	eventRecoveryCodeUsed     = "recovery-code-used"
	eventRecoveryCodesRenewed = "recovery-codes-renewed"
	eventProviderConnected    = "provider-connected"    // About: the provider
	eventProviderDisconnected = "provider-disconnected" // About: the provider
	eventApplicationAllowed   = "application-allowed"   // About: the name of the client
	eventApplicationUnasked   = "application-unasked"
	eventApplicationEnded     = "application-ended" // About: the name of the client
	eventApplicationsEnded    = "applications-ended"
	eventTokenReused          = "refresh-token-reused" // About: the client; its grant ended
	eventSessionEnded         = "session-ended"        // About: the browser
	eventSessionsEnded        = "other-sessions-ended"
	eventProviderEnded        = "ended-by-provider"      // About: the provider, whose check did not succeed
	eventProviderSignedOut    = "signed-out-at-provider" // About: the provider
	eventProviderLogoutEnded  = "ended-by-logout"        // About: the provider, where the person signed out
)

// activity keeps what happened to people until it is written beside the requests, so that no
// request waits for it. A crash loses what is not written yet.
type activity struct {
	store *storage.Store
	now   func() time.Time

	mu      sync.Mutex
	pending map[string]storage.Activity // by subject
}

func newActivity(cfg Config) *activity {
	return &activity{store: cfg.Store, now: cfg.Now, pending: map[string]storage.Activity{}}
}

// noteRefused counts a sign-in that failed for a person who exists, with whatever they sign in. It is
// never listed by itself: whoever guesses must not remove what happened from the list.
func (s *Server) noteRefused(ctx context.Context, subject string) {
	r := storage.Refused{Count: 1, Last: s.cfg.Now(), From: shownNetwork(ctx)}
	s.activity.change(subject, func(a *storage.Activity) { a.Refuse(r) })
}

// change changes what is not written yet. Beyond maxChores people it forgets.
func (a *activity) change(subject string, change func(*storage.Activity)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting, there := a.pending[subject]
	if !there && len(a.pending) >= maxChores {
		return
	}
	change(&waiting)
	a.pending[subject] = waiting
}

// of returns what happened lately to a person, with what this process has not written yet.
func (a *activity) of(ctx context.Context, subject string) (storage.Activity, error) {
	written, err := a.store.Activity(ctx, subject)
	if err != nil {
		return storage.Activity{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if waiting, there := a.pending[subject]; there {
		written.Merge(waiting)
	}
	return written, nil
}

// write writes what waits. What cannot be written waits on.
func (a *activity) write(ctx context.Context) (left error) {
	a.mu.Lock()
	waiting := a.pending
	a.pending = map[string]storage.Activity{}
	a.mu.Unlock()
	for subject, later := range waiting {
		err := left
		if err == nil {
			err = a.store.AddActivity(ctx, subject, func(there *storage.Activity) { there.Merge(later) })
		}
		if err != nil {
			left = err
			a.change(subject, func(there *storage.Activity) { newer := *there; *there = later; there.Merge(newer) })
		}
	}
	return left
}
