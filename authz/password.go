package authz

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"

	"gatehouse.example/internal/fair"
)

// maxPassword bounds a password, in bytes.
const maxPassword = 1024

// The argon2id parameters of new hashes: 19 MiB, two passes, one lane.
const (
	argonMemory  = 19 << 10 // KiB
	argonTime    = 2
	argonThreads = 1
	argonKey     = 32
	argonSalt    = 16
)

// passwords hashes and checks passwords with argon2id (RFC 9106). One processor is left to
// everything else, and turns are given fairly, so a flood of sign-ins takes neither all
// memory, nor all processors, nor the turns of other networks.
type passwords struct {
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

// newPasswords makes up the dummy, the hash of no password that anybody knows: nothing has to
// be hashed for it.
func newPasswords(random io.Reader) (*passwords, error) {
	drawn := make([]byte, argonSalt+argonKey)
	if _, err := io.ReadFull(random, drawn); err != nil {
		return nil, fmt.Errorf("authz: password: %w", err)
	}
	return &passwords{
		turns: fair.NewQueue(hashing(), mostWaiting), matches: checkPassword,
		dummy: phcString(drawn[:argonSalt], drawn[argonSalt:]),
	}, nil
}

// errCrowded says that too many sign-ins are waiting for their turn.
var errCrowded = errors.New("authz: too many sign-ins at a time")

// check reports whether password belongs to hash, or returns errCrowded. It waits in a lane
// with others from the same network.
func (p *passwords) check(ctx context.Context, lane string, from netip.Addr, hash, password string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, passwordWait)
	defer cancel()
	leave, err := p.turns.Enter(ctx, lane, from)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errCrowded, err)
	}
	defer leave()
	return p.matches(hash, password), nil
}

// hashPassword returns a PHC string: $argon2id$v=19$m=…,t=…,p=…$salt$hash.
func hashPassword(random io.Reader, password string) (string, error) {
	salt := make([]byte, argonSalt)
	if _, err := io.ReadFull(random, salt); err != nil {
		return "", fmt.Errorf("authz: password: %w", err)
	}
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	return phcString(salt, key), nil
}

func phcString(salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key))
}

// checkPassword compares in constant time. A hash that cannot be read, or asks for more
// memory than any that we make, matches nothing.
func checkPassword(phc, password string) bool {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return false
	}
	var memory, passes uint32
	var threads uint8
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads); err != nil {
		return false
	}
	salt, saltErr := base64.RawStdEncoding.DecodeString(parts[4])
	key, keyErr := base64.RawStdEncoding.DecodeString(parts[5])
	if saltErr != nil || keyErr != nil || len(key) == 0 || memory > 256<<10 || passes == 0 || passes > 16 || threads == 0 {
		return false
	}
	got := argon2.IDKey([]byte(password), salt, passes, memory, threads, uint32(len(key)))
	return subtle.ConstantTimeCompare(got, key) == 1
}

// ErrPassword says that a password cannot be used.
var ErrPassword = errors.New("authz: a password must have 1 to 1024 bytes")

// newPassword hashes a password. How long it must at least be is for those to say who
// let people choose one.
func newPassword(password string) (string, error) {
	if password == "" || len(password) > maxPassword {
		return "", ErrPassword
	}
	return hashPassword(rand.Reader, password)
}
