// Package passwords hashes and checks passwords, in this process or in separate ones.
//
// A check takes some 20 ms of processor time and 19 MiB. In a process that answers other
// requests, every check causes a garbage collection and keeps a processor busy for milliseconds.
// [Processes] avoids both.
package passwords

import (
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Longest is the greatest length of a password in bytes.
const Longest = 1024

// The argon2id parameters of new hashes (RFC 9106): 19 MiB, two passes, one lane.
const (
	argonMemory  = 19 << 10 // KiB
	argonTime    = 2
	argonThreads = 1
	argonKey     = 32
	argonSalt    = 16
)

// Hash returns the hash of a password with a salt from random, as a PHC string:
// $argon2id$v=19$m=…,t=…,p=…$salt$hash. Its error is that of random.
func Hash(random io.Reader, password string) (string, error) {
	salt := make([]byte, argonSalt)
	if _, err := io.ReadFull(random, salt); err != nil {
		return "", fmt.Errorf("passwords: %w", err)
	}
	return hashWith(password, salt, argonMemory, argonTime), nil
}

// HashDrawn returns the hash of a password that a program drew, of at least 112 random bits, in the
// form of [Hash]. It takes no time: work makes guessing slower, and nobody guesses such a password.
// [NeedsRehash] is true for it, so the first sign-in replaces it by one like all others. Its error
// is that of random.
func HashDrawn(random io.Reader, password string) (string, error) {
	salt := make([]byte, argonSalt)
	if _, err := io.ReadFull(random, salt); err != nil {
		return "", fmt.Errorf("passwords: %w", err)
	}
	return hashWith(password, salt, 8*argonThreads, 1), nil
}

// hashWith returns a hash that costs this memory, in KiB, and as many passes.
func hashWith(password string, salt []byte, memory, passes uint32) string {
	return phcString(memory, passes, salt, argon2.IDKey([]byte(password), salt, passes, memory, argonThreads, argonKey))
}

// Unmatchable returns a random string in the form of a hash, which no known password matches.
// Checking a password against it takes as long as against a real hash, and making it takes no
// time.
func Unmatchable(random io.Reader) (string, error) {
	drawn := make([]byte, argonSalt+argonKey)
	if _, err := io.ReadFull(random, drawn); err != nil {
		return "", fmt.Errorf("passwords: %w", err)
	}
	return phcString(argonMemory, argonTime, drawn[:argonSalt], drawn[argonSalt:]), nil
}

func phcString(memory, passes uint32, salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, passes, argonThreads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key))
}

// NeedsRehash reports whether hash was made with less work than [Hash] uses today, by an earlier
// release. Whoever learns its password should replace it. It is false for what is not a hash.
func NeedsRehash(hash string) bool {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false
	}
	var memory, passes, threads uint32
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads); err != nil {
		return false
	}
	return memory < argonMemory || passes < argonTime
}

// Check reports whether password matches hash, in constant time. It returns false for a hash
// that cannot be parsed or that requires much more memory than those of [Hash].
func Check(hash, password string) bool {
	parts := strings.Split(hash, "$")
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
