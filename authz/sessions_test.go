package authz_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// sessions returns the sessions of the person of the tests, the oldest first.
func (h *harness) sessions() (all []storage.Session) {
	h.t.Helper()
	for session, err := range h.store.Sessions(h.t.Context(), h.subject()) {
		h.must(err)
		all = append(all, session)
	}
	return all
}

// TestSessionLimits: a session ends when it was not used for SessionIdle, and SessionMax after the
// sign-in however much it is used. Uses are recorded beside the requests.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	const idle, most = 2 * time.Hour, 5 * time.Hour
	c := testClients()["native"]
	for name, tt := range map[string]struct {
		waits  []time.Duration // between uses
		chores bool
		want   string
	}{
		"just before it is idle": {[]time.Duration{idle - time.Second}, true, "consent_required"},
		"idle":                   {[]time.Duration{idle}, true, "login_required"},
		"used in between":        {[]time.Duration{idle - time.Second, idle - time.Second}, true, "consent_required"},
		"used, then idle":        {[]time.Duration{idle - time.Second, idle}, true, "login_required"},
		"used, not recorded":     {[]time.Duration{idle - time.Second, idle - time.Second}, false, "login_required"},
		"just before its end":    {[]time.Duration{idle - time.Second, idle - time.Second, time.Hour + time.Second}, true, "consent_required"},
		"its end":                {[]time.Duration{idle - time.Second, idle - time.Second, time.Hour + 2*time.Second}, true, "login_required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, setup{config: func(c *authz.Config) { c.SessionIdle, c.SessionMax = idle, most }})
			b := h.newBrowser()
			b.code(asks(c))
			got := ""
			for _, wait := range tt.waits {
				h.clock.advance(wait)
				writes := h.meter.writes.Load()
				got = b.unasked(asks(c))
				if n := h.meter.writes.Load() - writes; n > 0 {
					t.Errorf("a use takes %d writes", n)
				}
				if tt.chores {
					h.handler.Load().DoChores(t.Context())
				}
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestSeenSeldom: of many uses within minutes none is written, and of those at once one.
func TestSeenSeldom(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	b.code(asks(c))
	server := h.handler.Load()
	server.DoChores(t.Context())
	h.clock.advance(5*time.Minute - time.Second)
	before := h.meter.writes.Load()
	b.unasked(asks(c))
	server.DoChores(t.Context())
	if n := h.meter.writes.Load() - before; n != 0 {
		t.Errorf("%d writes within five minutes", n)
	}
	h.clock.advance(time.Second)
	b.unasked(asks(c))
	b.unasked(asks(c))
	server.DoChores(t.Context())
	if n := h.meter.writes.Load() - before; n != 1 {
		t.Errorf("%d writes after five minutes, want 1", n)
	}
	if s := h.sessions()[0]; !s.Seen.Equal(h.clock.Now()) || s.IdleExpires.Sub(s.Seen) != 2*time.Hour {
		t.Errorf("%+v", s)
	}
}

// TestEndedSessionIsNotRevived: a use that is recorded late does not bring back a session that has
// ended meanwhile.
func TestEndedSessionIsNotRevived(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	b.code(asks(c))
	h.clock.advance(10 * time.Minute)
	b.unasked(asks(c))
	h.must(h.store.EndSession(t.Context(), h.sessions()[0].ID()))
	h.handler.Load().DoChores(t.Context())
	if got := b.unasked(asks(c)); got != "login_required" {
		t.Errorf("%s", got)
	}
}

// TestLoweredLimits: limits that the operator lowers hold for sessions from before.
func TestLoweredLimits(t *testing.T) {
	t.Parallel()
	for name, lower := range map[string]func(*authz.Config){
		"idle": func(c *authz.Config) { c.SessionIdle = 10 * time.Minute },
		"max":  func(c *authz.Config) { c.SessionMax = 10 * time.Minute },
	} {
		h, c := newHarness(t, setup{}), testClients()["native"]
		b := h.newBrowser()
		b.code(asks(c))
		h.clock.advance(10 * time.Minute)
		lower(&h.cfg)
		h.restart()
		if got := b.unasked(asks(c)); got != "login_required" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestSessionSaysFromWhere: the list for the person names the browser and its network in fixed
// words, whatever the headers contain, and the cookie does not outlive the session.
func TestSessionSaysFromWhere(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                                  "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Safari/537.36":                         "Chrome on Windows",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Safari/537.36 Edg/139.0":               "Edge on Windows",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15":                   "Safari on macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1": "Safari on iPhone",
		"Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Mobile Safari/537.36":                            "Chrome on Android",
		"<script>alert(1)</script>\u202e" + strings.Repeat("x", 2000):                                                                             "",
		"Firefox/<b>": "Firefox",
	} {
		h, c := newHarness(t, setup{config: behindProxy}), testClients()["native"]
		b := h.newBrowser()
		b.open(h.issuer + "/authorize?" + asks(c).Encode())
		b.follow()
		_, values := b.page.inputs(t)
		values.Set("username", personName)
		values.Set("password", personPassword)
		r := postForm(h, "/login", values)
		r.Header.Set("User-Agent", agent)
		r.Header.Set("X-Forwarded-For", "2001:db8:1:2:3:4:5:6")
		answer := h.with(b.jar, r)
		if answer.status != http.StatusSeeOther {
			t.Fatalf("%s: %s", agent, answer)
		}
		s := h.sessions()
		if len(s) != 1 || s[0].Browser != want || s[0].From != "2001:db8:1:2::/64" || s[0].Method != "password" {
			t.Errorf("%.60s: %+v, want %s", agent, s, want)
		}
		if cookie := cookiesOf(t, answer)[hostSession]; cookie == nil || time.Duration(cookie.MaxAge)*time.Second > s[0].Expires.Sub(h.clock.Now()) {
			t.Errorf("the cookie %v, the session %+v", cookie, s[0])
		}
	}
}

// TestSessionListAfterEpoch: a new password ends all sessions; they stay in the list until they are
// gone, with the epoch of their sign-in. The list is tidied at later sign-ins.
func TestSessionListAfterEpoch(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	for range 3 {
		h.newBrowser().code(asks(c))
		h.clock.advance(time.Second)
	}
	if n := len(h.sessions()); n != 3 {
		t.Fatalf("%d sessions", n)
	}
	h.clock.advance(3 * time.Hour) // all are idle
	entries := func() int {
		t.Helper()
		n, err := h.meter.IndexLen(t.Context(), "gatehouse:user-sessions:"+h.subject())
		h.must(err)
		return n
	}
	before := entries()
	b := h.newBrowser()
	b.code(asks(c))
	h.handler.Load().DoChores(t.Context())
	if after := entries(); before != 3 || after != 1 {
		t.Errorf("%d entries, and %d after another sign-in", before, after)
	}
	user, err := h.store.User(t.Context(), personName)
	h.must(err)
	user.SessionEpoch++
	h.must(h.store.UpdateUser(t.Context(), user))
	if got := b.unasked(asks(c)); got != "login_required" {
		t.Errorf("after the epoch: %s", got)
	}
	if s := h.sessions(); len(s) != 1 || s[0].Epoch == user.SessionEpoch {
		t.Errorf("%+v", s)
	}
	again := h.newBrowser()
	again.code(asks(c))
	if !slices.ContainsFunc(h.sessions(), func(s storage.Session) bool { return s.Epoch == user.SessionEpoch }) {
		t.Error("the session of the new epoch is not listed")
	}
}
