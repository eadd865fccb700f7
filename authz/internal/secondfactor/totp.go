// Package secondfactor has the one-time codes of an app (TOTP, RFC 6238) and the recovery codes
// that stand in for the app. It stores nothing and knows no requests.
//
// The codes have six digits, are made with HMAC-SHA-1 and change every 30 seconds: every app
// supports that, and some ignore other values.
package secondfactor

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// SecretLength is the length of the secret that the app and the server share, in bytes: that of
// the HMAC's output (RFC 4226 section 4, R6).
const SecretLength = 20

const (
	period  = 30 // seconds (RFC 6238 section 5.2)
	digits  = 6
	modulus = 1_000_000
	// drift is the number of steps before and after the current one whose codes are accepted,
	// because clocks differ (RFC 6238 section 6).
	drift = 1
)

// NewSecret returns a new secret from random. Its error is that of random.
func NewSecret(random io.Reader) ([]byte, error) {
	secret := make([]byte, SecretLength)
	if _, err := io.ReadFull(random, secret); err != nil {
		return nil, fmt.Errorf("secondfactor: %w", err)
	}
	return secret, nil
}

// Accept reports whether code is the code of the current time step, of the one before or of the
// one after, and returns its step. A step up to last, which is the step of the last accepted code,
// is refused: a code MUST NOT be accepted twice (RFC 6238 section 5.2). Spaces in the code are
// ignored. It takes the same time for every code of six digits.
func Accept(secret []byte, code string, now time.Time, last int64) (step int64, ok bool) {
	code = strings.ReplaceAll(code, " ", "")
	if len(code) != digits || len(secret) == 0 {
		return 0, false
	}
	current := now.Unix() / period
	for s := current - drift; s <= current+drift; s++ {
		if subtle.ConstantTimeCompare([]byte(code), []byte(codeAt(secret, s))) == 1 && s > last {
			step, ok = s, true
		}
	}
	return step, ok
}

// codeAt returns the code of a step (RFC 4226 section 5.3, with the step as counter).
func codeAt(secret []byte, step int64) string {
	mac := hmac.New(sha1.New, secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
	sum := mac.Sum(nil)
	truncated := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&0xf:]) & 0x7fffffff
	return fmt.Sprintf("%0*d", digits, truncated%modulus)
}

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// Text returns the secret as people type it into an app: base32 in groups of four.
func Text(secret []byte) string { return grouped(base32Text.EncodeToString(secret), " ") }

// URI returns the address that an app reads from the picture (otpauth, in the form of the "Key URI
// Format" that apps share). The app shows issuer and account; neither may contain a colon, which
// separates them there, so colons are left out.
func URI(issuer, account string, secret []byte) string {
	issuer, account = strings.ReplaceAll(issuer, ":", ""), strings.ReplaceAll(account, ":", "")
	query := "secret=" + base32Text.EncodeToString(secret) + "&issuer=" + strings.ReplaceAll(url.QueryEscape(issuer), "+", "%20") +
		fmt.Sprintf("&algorithm=SHA1&digits=%d&period=%d", digits, period)
	return "otpauth://totp/" + url.PathEscape(issuer) + ":" + url.PathEscape(account) + "?" + query
}

// grouped puts separator between groups of four characters.
func grouped(s, separator string) string {
	var groups []string
	for len(s) > 4 {
		groups, s = append(groups, s[:4]), s[4:]
	}
	return strings.Join(append(groups, s), separator)
}

// Code returns the code of a time, as an app shows it. It is for tests.
func Code(secret []byte, at time.Time) string { return codeAt(secret, at.Unix()/period) }
