package secondfactor

import (
	"encoding/base32"
	"fmt"
	"io"
	"strings"
)

// RecoveryCodes is the number of recovery codes of a person.
const RecoveryCodes = 10

const (
	recoveryBytes      = 10 // 80 bits: a stolen hash of one cannot be searched
	recoveryCharacters = recoveryBytes * 8 / 5
)

// legible has no i, l, o and u, which are mistaken for other characters (Crockford's base32).
var legible = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewRecoveryCodes returns recovery codes from random, as they are shown. Store the hash of their
// [CanonicalRecovery] only. The error is that of random.
func NewRecoveryCodes(random io.Reader) ([]string, error) {
	codes := make([]string, RecoveryCodes)
	for i := range codes {
		drawn := make([]byte, recoveryBytes)
		if _, err := io.ReadFull(random, drawn); err != nil {
			return nil, fmt.Errorf("secondfactor: %w", err)
		}
		codes[i] = grouped(legible.EncodeToString(drawn), "-")
	}
	return codes, nil
}

// CanonicalRecovery returns the form of a typed recovery code that is compared: without dashes and
// spaces, in lowercase, with mistaken characters corrected. It returns "" for what cannot be one.
func CanonicalRecovery(typed string) string {
	var b strings.Builder
	for _, c := range typed {
		switch {
		case c == '-' || c == ' ':
			continue
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		switch c {
		case 'o':
			c = '0'
		case 'i', 'l':
			c = '1'
		}
		if b.Len() == recoveryCharacters {
			return ""
		}
		b.WriteRune(c)
	}
	code := b.String()
	if raw, err := legible.DecodeString(code); err != nil || len(raw) != recoveryBytes {
		return ""
	}
	return code
}
