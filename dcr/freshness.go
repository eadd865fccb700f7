package dcr

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Documents and key sets are cached for as long as their HTTP headers allow, within these
// bounds (draft-ietf-oauth-client-id-metadata-document section 5.2 allows both).
const (
	// shortestLife applies even to a response that must not be stored. The steps of one
	// sign-in should use the same document, and requests to this server must not each cause
	// one to another server.
	shortestLife = time.Minute
	// usualLife applies to a response without freshness information.
	usualLife = 5 * time.Minute
	// longestDocument bounds how long a redirect URI or key is accepted after its client has
	// withdrawn it.
	longestDocument = 24 * time.Hour
	// longestKeys is the same for key sets by reference, where the loss of a key is urgent.
	longestKeys = time.Hour
)

// lifetime returns how long a response is cached, counted from when it was received.
func lifetime(h http.Header, longest time.Duration) time.Duration {
	life, named := announced(h)
	if !named {
		life = usualLife
	}
	// RFC 9111 section 4.2.3: the time in caches on the way counts.
	if age, ok := seconds(h.Get("Age")); ok {
		life -= age
	}
	return min(max(life, shortestLife), longest)
}

// announced returns the freshness lifetime that the headers name (RFC 9111 section 4.2.1), and
// whether they name one. Of contradictory values the shortest applies.
func announced(h http.Header) (life time.Duration, named bool) {
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
			named = true
		}
	}
	if named {
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

// seconds parses delta-seconds (RFC 9111 section 1.2.2). Values above 1<<31-1 become that
// value.
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
