package doctor

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// The bounds of how far the times in a token may be off.
const (
	strayClock = 5 * time.Second // worth knowing
	agree      = time.Minute     // the lifetime that is said, and that of the claims
)

// clockChecks compare the times in a token with the clock of this machine, and with the header Date of
// the answer that brought it.
var clockChecks = []check{
	{Entry{
		ID: "token-clock", Severity: Warning, Rule: "RFC 7519 section 4.1.5; RFC 7519 section 4.1.6; RFC 9068 section 4",
		Title:    "The times in a token are off by more than a minute",
		Symptoms: []string{"token used before issued", "token is not active yet", "iat in the future", "nbf in the future"},
		Mend:     "Synchronize the clocks of the machine that issues tokens and of those that verify them (NTP). Verifiers should bear a minute, and no more.",
	}, strays(wrongClock, 1<<62)},
	{Entry{
		ID: "token-skew", Severity: Note, Rule: "RFC 7519 section 4.1.5; RFC 7519 section 4.1.6",
		Title:    "The times in a token are off by some seconds",
		Symptoms: []string{"token is not active yet, for a moment"},
		Mend:     "Synchronize the clocks (NTP). A server without leeway refuses a token that begins in its future.",
	}, strays(strayClock, wrongClock)},
	{Entry{
		ID: "token-expiry-differs", Severity: Warning, Rule: "RFC 6749 section 5.1; RFC 9068 section 2.2",
		Title:    "The token ends at another time than the answer says",
		Symptoms: []string{"client refreshes too late", "401 before expires_in is over"},
		Mend:     "Compute expires_in from exp, when the answer is made: clients refresh by expires_in, and servers refuse by exp.",
	}, onGrant(func(_ *walk, s *signIn) string {
		end, ok := numeric(s.first.claims, "exp")
		said := s.first.lifetime
		if !ok || said <= 0 {
			return ""
		}
		held := end.Sub(answeredAt(s.first.exchange))
		return when((held-said).Abs() > agree, fmt.Sprintf("expires_in is %s, and exp comes after %s", said, held.Round(time.Second)))
	})},
}

// strays reports a token whose times are off by more than one bound, and not by more than another.
func strays(least, most time.Duration) func(*walk) []string {
	return func(w *walk) []string {
		if s := w.signIn; s != nil && s.first != nil && s.first.ok {
			at := answeredAt(s.first.exchange)
			off := max(ahead(s.first.claims, at), behind(s.first.claims, at))
			return saw(off > least && off <= most, fmt.Sprintf("%s; %s", timesOf(s.first.claims, at), dated(s.first.exchange)))
		}
		all := claims(w.token)
		off := ahead(all, w.now) // of a token that was issued before, only the future tells
		return saw(off > least && off <= most, timesOf(all, w.now))
	}
}

// answeredAt returns when an answer came, by the clock of this machine.
func answeredAt(e *exchange) time.Time { return e.asked.Add(e.took) }

// numeric returns a claim that is a time (RFC 7519 section 2).
func numeric(claims map[string]any, name string) (time.Time, bool) {
	seconds, ok := claims[name].(float64)
	if !ok || seconds <= 0 || seconds > 1e11 {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}

// ahead returns how far in the future a token begins.
func ahead(claims map[string]any, at time.Time) (off time.Duration) {
	for _, name := range []string{"iat", "nbf"} {
		if begin, ok := numeric(claims, name); ok {
			off = max(off, begin.Sub(at))
		}
	}
	return off
}

// behind returns how far in the past a token was issued.
func behind(claims map[string]any, at time.Time) time.Duration {
	begin, ok := numeric(claims, "iat")
	if !ok {
		return 0
	}
	return at.Sub(begin) - sharedSecond // iat has no fractions
}

// timesOf describes the times in a token.
func timesOf(claims map[string]any, at time.Time) string {
	text := ""
	for _, name := range []string{"iat", "nbf"} {
		if begin, ok := numeric(claims, name); ok {
			text += fmt.Sprintf("%s is %s off, ", name, begin.Sub(at).Round(time.Second))
		}
	}
	return text + "by the clock of this machine at " + at.UTC().Format(time.RFC3339)
}

// dated tells what the header Date of an answer says of the clock of its server.
func dated(e *exchange) string {
	off, ok := e.clock()
	if !ok {
		return "the answer has no Date"
	}
	return fmt.Sprintf("the header Date of the answer is %s off", off.Round(time.Second))
}

// clock returns how far the clock of the server is off at least, by the header Date of an answer; ok is
// false without one. A cache says in Age for how many seconds it has kept an answer (RFC 9111 section
// 5.1; a number above 2147483648 counts as that one, section 1.2.2). Date is of the moment when the
// answer was made; some caches write their own time there.
func (e *exchange) clock() (off time.Duration, ok bool) {
	date, err := http.ParseTime(e.get("Date"))
	if err != nil {
		return 0, false
	}
	off = date.Sub(answeredAt(e))
	const most = 1 << 31
	if age, err := strconv.ParseUint(e.get("Age"), 10, 64); off < 0 && (err == nil || errors.Is(err, strconv.ErrRange)) {
		off = min(off+time.Duration(min(age, most))*time.Second, 0)
	}
	return off, true
}
