package dcr

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// What is published may be used for as long as its headers say, within bounds of our own
// (draft-ietf-oauth-client-id-metadata-document section 5.2 allows both).
const (
	// shortestLife is how long an answer counts even if it says that it must not be
	// stored. One sign-in asks for it at several steps, which should see the same
	// document, and a stranger must not turn each request to us into one to somebody else.
	shortestLife = time.Minute
	// usualLife is for answers that say nothing.
	usualLife = 5 * time.Minute
	// longestDocument is how long a redirect URI or a key may still be accepted that its
	// client has withdrawn, whatever it said before.
	longestDocument = 24 * time.Hour
	// longestKeys is the same for key sets by reference, where the loss of a key is urgent.
	longestKeys = time.Hour
)

// lifetime is how long an answer counts from the moment when it was received.
func lifetime(h http.Header, longest time.Duration) time.Duration {
	life, said := announced(h)
	if !said {
		life = usualLife
	}
	// RFC 9111 section 4.2.3: what caches on the way have used up is gone.
	if age, ok := seconds(h.Get("Age")); ok {
		life -= age
	}
	return min(max(life, shortestLife), longest)
}

// announced is the freshness lifetime that the answer names (RFC 9111 section 4.2.1). Of
// values that contradict each other the shorter counts.
func announced(h http.Header) (life time.Duration, said bool) {
	life = time.Duration(math.MaxInt64)
	shared := false
	for directive := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name = strings.ToLower(name); name {
		case "no-store", "no-cache", "private":
			return 0, true
		case "max-age", "s-maxage":
			age, ok := seconds(strings.Trim(value, `"`))
			if !ok {
				return 0, true
			}
			// RFC 9111 section 5.2.2.10: s-maxage overrides max-age in a shared cache.
			if name == "s-maxage" && !shared {
				life, shared = age, true
			} else if (name == "s-maxage") == shared {
				life = min(life, age)
			}
			said = true
		}
	}
	if said {
		return life, true
	}
	return expires(h)
}

func expires(h http.Header) (time.Duration, bool) {
	raw := h.Get("Expires")
	if raw == "" {
		return 0, false
	}
	end, err := http.ParseTime(raw)
	if err != nil {
		return 0, true // RFC 9111 section 5.3: an invalid date is in the past
	}
	sent, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0, true
	}
	return end.Sub(sent), true
}

// seconds reads delta-seconds (RFC 9111 section 1.2.2). More than can be represented is
// as much as can be.
func seconds(raw string) (time.Duration, bool) {
	if raw == "" || strings.Trim(raw, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(raw, 10, 32)
	if err != nil {
		n = math.MaxInt32
	}
	return time.Duration(n) * time.Second, true
}
