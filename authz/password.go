package authz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"time"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/passwords"
)

// passwordChecker checks passwords. A check uses a processor and 19 MiB for some
// milliseconds. One processor is left to all other work, and the places are given out fairly,
// so a flood of sign-ins cannot use up the memory, the processors or the places of other
// networks.
type passwordChecker struct {
	queue   *fair.Queue
	wait    time.Duration // for a place in the queue
	dummy   string        // the hash for unknown names, so that their check takes as long
	matches func(hash, password string) bool
	// outdated reports whether a hash took less work than new ones do.
	outdated func(hash string) bool
}

const (
	// passwordWait is the time that a sign-in waits for a place.
	passwordWait = 10 * time.Second
	// maxHashing is the greatest number of passwords that are hashed at a time, each with 19
	// MiB.
	maxHashing = 8
	// maxWaiting is the greatest number of sign-ins that wait for a place.
	maxWaiting = 192
)

// hashing returns the number of passwords that may be hashed at a time.
func hashing() int { return min(max(runtime.GOMAXPROCS(0)-1, 1), maxHashing) }

// newPasswordChecker returns a passwordChecker that compares with the function check.
func newPasswordChecker(random io.Reader, check func(hash, password string) bool) (*passwordChecker, error) {
	dummy, err := passwords.Unmatchable(random)
	if err != nil {
		return nil, fmt.Errorf("authz: password: %w", err)
	}
	return &passwordChecker{
		queue: fair.NewQueue(hashing(), maxWaiting), wait: passwordWait,
		matches: check, dummy: dummy, outdated: passwords.NeedsRehash,
	}, nil
}

// errTooManySignIns means that a sign-in did not get a place in time.
var errTooManySignIns = errors.New("authz: too many sign-ins at a time")

// check reports whether password matches hash. It waits in a lane with other sign-ins from
// the same network, and returns errTooManySignIns if it gets no place.
func (p *passwordChecker) check(ctx context.Context, lane string, from netip.Addr, hash, password string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	leave, err := p.queue.Enter(ctx, lane, from)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errTooManySignIns, err)
	}
	defer leave()
	return p.matches(hash, password), nil
}

// replacement returns a new hash of a right password whose hash took less work than new ones do,
// and "" if none is needed. It waits for a place as a check does.
func (p *passwordChecker) replacement(ctx context.Context, lane string, from netip.Addr, hash, password string) (string, error) {
	if !p.outdated(hash) {
		return "", nil
	}
	return p.hash(ctx, lane, from, password)
}

// hash hashes a password. It waits for a place as a check does.
func (p *passwordChecker) hash(ctx context.Context, lane string, from netip.Addr, password string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	leave, err := p.queue.Enter(ctx, lane, from)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errTooManySignIns, err)
	}
	defer leave()
	return account.HashPassword(password)
}
