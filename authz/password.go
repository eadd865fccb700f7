package authz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/passwords"
)

// passwordTurns checks passwords, which takes a processor and 19 MiB for a while. One processor is
// left to everything else, and turns are given fairly, so a flood of sign-ins takes neither
// all memory, nor all processors, nor the turns of other networks.
type passwordTurns struct {
	turns   *fair.Queue
	dummy   string // what an unknown name is checked against, so that it takes as long
	matches func(hash, password string) bool
}

const (
	// passwordWait is how long a sign-in waits for its turn.
	passwordWait = 10 * time.Second
	// mostHashing bounds how many passwords are hashed at a time, each with 19 MiB.
	mostHashing = 8
	// mostWaiting bounds how many wait for that.
	mostWaiting = 192
)

// hashing is how many passwords are hashed at a time.
func hashing() int { return min(max(runtime.GOMAXPROCS(0)-1, 1), mostHashing) }

// newPasswords returns one that compares by the function check.
func newPasswords(random io.Reader, check func(hash, password string) bool) (*passwordTurns, error) {
	nobody, err := passwords.OfNobody(random)
	if err != nil {
		return nil, fmt.Errorf("authz: password: %w", err)
	}
	return &passwordTurns{turns: fair.NewQueue(hashing(), mostWaiting), matches: check, dummy: nobody}, nil
}

// errCrowded says that too many sign-ins are waiting for their turn.
var errCrowded = errors.New("authz: too many sign-ins at a time")

// check reports whether password belongs to hash, or returns errCrowded. It waits in a lane
// with others from the same network.
func (p *passwordTurns) check(ctx context.Context, lane string, from netip.Addr, hash, password string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, passwordWait)
	defer cancel()
	leave, err := p.turns.Enter(ctx, lane, from)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errCrowded, err)
	}
	defer leave()
	return p.matches(hash, password), nil
}
