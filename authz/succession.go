package authz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/authz/internal/passkey"
	"gatehouse.example/authz/internal/throttle"
	"gatehouse.example/internal/fair"
)

// lasting is what outlives a configuration: what was counted, what waits, and what was learned. A new
// configuration resets no limit and loses no work, because it has the same one.
type lasting struct {
	keys              *keyring.Ring
	passwords         *passwordChecker
	throttle          *throttle.Throttle
	logKey            []byte // keys the hash of user names that are not logged in the clear
	chores            *chores
	activity          *activity
	largeTransactions *fair.Limiter // bounds the transactions that are too large for a cookie
	unaskedRate       *fair.Limiter // bounds the grants of a person without a page
	registrations     *fair.Shared  // bounds registrations and their sizes
	requests          *requestLimiter
	census            census
	holders           holders
	// unproven bounds by network what was sent to a provider and came to nothing: made-up codes
	// and logout tokens use up the sender's share and not the quota of this server there.
	unproven *fair.Limiter
	alarm    *alarm
	party    *passkey.Party // nil: browsers have no passkeys for the issuer

	latest   atomic.Pointer[Server] // the configuration in force
	changing sync.Mutex             // held while another one is made
}

// newLasting returns the state of a server that begins. It creates the signing keys in the store if
// there are none.
func newLasting(ctx context.Context, cfg Config, keyChanged func(kid, state string)) (*lasting, error) {
	k := &lasting{
		throttle: throttle.New(cfg.Now, counter(cfg.Store, "sign-in")), logKey: make([]byte, 32), alarm: &alarm{log: cfg.Logger, now: cfg.Now},
		largeTransactions: fair.NewLimiter(cfg.Now), unaskedRate: fair.NewLimiter(cfg.Now),
		registrations: fair.NewShared(counter(cfg.Store, "registration"), fair.NewLimiter(cfg.Now)), unproven: fair.NewLimiter(cfg.Now), activity: newActivity(cfg),
		requests: newRequestLimiter(cfg.Now), census: census{store: cfg.Store},
	}
	k.chores = newChores(cfg, k)
	var err error
	if k.passwords, err = newPasswordChecker(cfg.Rand, cfg.CheckPassword); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(cfg.Rand, k.logKey); err != nil {
		return nil, fmt.Errorf("authz: log key: %w", err)
	}
	if k.party, err = newParty(cfg); err != nil {
		return nil, err
	}
	if k.keys, err = keyring.Open(ctx, keysOf(cfg, keyChanged)); err != nil {
		return nil, fmt.Errorf("authz: %w", err)
	}
	cfg.Store.OnForged(k.alarm.raise)
	return k, nil
}

// Reload puts another configuration in force while the server runs. A request that has begun is
// answered by the configuration with which it began, the next one by the new one; what people and
// clients have is judged by the new one, as after a restart. What was counted against limits, what
// waits to be written, caches, queues and keys stay as they are. After an error nothing has changed.
//
// Issuer, SigningAlgorithm, KeyRotation and KeyCache cannot change: another value is an error. Store,
// Fetcher, Egress, CheckPassword, Observe, Audit, Trace, Logger, Now and Rand stay those of [New], whatever cfg
// says. Reload reads the store, and records no event: its caller knows what has changed, and by whom.
// Concurrent calls take turns.
func (s *Server) Reload(ctx context.Context, cfg Config) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.latest.Load()
	cfg.Store, cfg.Fetcher, cfg.Egress, cfg.CheckPassword = before.cfg.Store, before.cfg.Fetcher, before.cfg.Egress, before.cfg.CheckPassword
	cfg.Observe, cfg.Audit, cfg.Trace = before.cfg.Observe, before.cfg.Audit, before.cfg.Trace
	cfg.Logger, cfg.Now, cfg.Rand = before.cfg.Logger, before.cfg.Now, before.cfg.Rand
	cfg, err := cfg.withDefaults()
	if err := errors.Join(err, cfg.fixed(before.cfg)); err != nil {
		return err
	}
	next, err := prepare(cfg, before)
	if err != nil {
		return err
	}
	next.lasting = before.lasting
	if err := next.configure(ctx, before); err != nil {
		return err
	}
	s.latest.Store(next)
	return nil
}

// fixed returns an error for each field that differs and cannot.
func (c Config) fixed(before Config) error {
	var errs []error
	keep := func(name string, same bool) {
		if !same {
			errs = append(errs, fmt.Errorf("authz: %s cannot change while the server runs", name))
		}
	}
	keep("Issuer", c.Issuer == before.Issuer)
	keep("SigningAlgorithm", c.SigningAlgorithm == before.SigningAlgorithm)
	keep("KeyRotation", c.KeyRotation == before.KeyRotation)
	keep("KeyCache", c.KeyCache == before.KeyCache)
	return errors.Join(errs...)
}

// succeeding returns the check that goes on under a new configuration: the one before, unless there
// was none. Its hosts cannot change.
func (e *egress) succeeding(before *Server) *egress {
	if e == nil || before == nil || before.egress == nil {
		return e
	}
	return before.egress
}
