package authz

import (
	"context"
	"errors"
	"strings"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

// over reports whether a session has ended: by its absolute end, or because it was not used for
// long. It compares with the present limits too, so that lowering them ends old sessions at once. The
// end counts from the beginning here: at a provider the person may have signed in long before.
func (s *Server) over(session storage.Session) bool {
	now, used, began := s.cfg.Now(), session.Seen, session.Begun
	if used.IsZero() {
		used = session.AuthTime // it was not used since, or is from before uses were recorded
	}
	if began.IsZero() {
		began = session.AuthTime // it is from an earlier release
	}
	return !now.Before(session.Expires) || !now.Before(began.Add(s.cfg.SessionMax)) || !now.Before(used.Add(s.cfg.SessionIdle))
}

// seenStep is how old the recorded last use of a session must be before it is recorded again.
func (s *Server) seenStep() time.Duration { return min(5*time.Minute, s.cfg.SessionIdle/10) }

// sessionUsed schedules the recording of a session's use, if the last recorded one is old enough.
// No request waits for it.
func (s *Server) sessionUsed(session storage.Session) {
	now := s.cfg.Now()
	if now.Sub(session.Seen) < s.seenStep() {
		return
	}
	session.Seen, session.IdleExpires = now, s.idleEnd(now, session.Expires)
	s.chores.sessionUsed(session)
}

// idleEnd is when a session ends that is used now and not again.
func (s *Server) idleEnd(now, expires time.Time) time.Time {
	if end := now.Add(s.cfg.SessionIdle); end.Before(expires) {
		return end
	}
	return expires
}

// sessionUsed schedules the writing of a session whose last use has changed.
func (c *chores) sessionUsed(session storage.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) < maxChores {
		c.seen[session.ID()] = session
	}
}

// recordSeen writes the last uses of sessions. One that was changed or has ended meanwhile stays
// as it is: the next use tries again.
func (c *chores) recordSeen(ctx context.Context, seen map[string]storage.Session) error {
	for _, session := range seen {
		if err := c.store.UpdateSession(ctx, session); err != nil && !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
	return nil
}

// shownNetwork is the network of the requester as pages show it to people: an IPv4 address, or
// the /64 of an IPv6 address; empty if it is unknown.
func shownNetwork(ctx context.Context) string {
	addr := fair.Requester(ctx)
	if !addr.IsValid() {
		return ""
	}
	if addr = canonicalAddr(addr); addr.Is4() {
		return addr.String()
	}
	return fair.Networks(addr)[0]
}

// named is a word in a User-Agent header, and what it stands for.
type namedAgent struct{ word, name string }

// The words by which browsers and systems are recognised, in order: browsers and systems name
// others too, for compatibility.
var (
	browserNames = []namedAgent{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Vivaldi/", "Vivaldi"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chromium/", "Chromium"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
	}
	systemNames = []namedAgent{
		{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"CrOS", "ChromeOS"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"},
	}
)

// describeBrowser returns a short description of a browser for the person whose it is, such as
// "Firefox on Linux". It consists of words of this file only, whatever the header has. It is empty
// for a browser that is not known.
func describeBrowser(userAgent string) string {
	browser, system := firstNamed(browserNames, userAgent), firstNamed(systemNames, userAgent)
	switch {
	case browser == "":
		return system
	case system == "":
		return browser
	}
	return browser + " on " + system
}

func firstNamed(names []namedAgent, userAgent string) string {
	for _, n := range names {
		if strings.Contains(userAgent, n.word) {
			return n.name
		}
	}
	return ""
}
