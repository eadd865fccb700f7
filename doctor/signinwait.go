package doctor

import (
	"context"
	"fmt"
	"time"
)

// leeway is how long after its end a token may still be accepted, and a little more.
const leeway = time.Minute + 5*time.Second

// expire waits until the first token has ended, as far as [Options].Expiry permits, and calls the
// target with it.
func (w *walker) expire(parent context.Context) {
	s := w.signIn
	if w.options.Expiry <= 0 || w.alone || s.first == nil || !s.first.ok {
		return
	}
	life := s.first.life()
	if life <= 0 {
		s.unexpired = "it is not known when the token ends"
		return
	}
	left := life + leeway - w.options.Now().Sub(s.first.asked)
	if left > w.options.Expiry {
		s.unexpired = fmt.Sprintf("the token lives for %s, which with %s of leeway is longer than %s", life, leeway, w.options.Expiry)
		return
	}
	if err := w.sleep(parent, left); err != nil {
		s.unexpired = err.Error()
		return
	}
	w.within(parent, func(ctx context.Context) { w.present(ctx, "use.expired", s.first.access) })
}

func (w *walker) sleep(ctx context.Context, d time.Duration) error {
	if w.options.Sleep != nil {
		return w.options.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// expiryChecks are about the end of a token of the doctor's own.
var expiryChecks = []check{
	{Entry{
		ID: "expired-token-accepted", Severity: Error, Rule: "RFC 9068 section 4; RFC 6749 section 5.1",
		Title:    "The server accepts a token more than a minute after its end",
		Symptoms: []string{"still connected after the token expired"},
		Mend:     "Compare exp with the clock at each request, also within a session, with a minute of leeway at most.",
	}, acceptedWrong("use.expired")},
	{Entry{
		ID: "expiry-not-tried", Severity: Note, Rule: "this project",
		Title:    "Whether the token ends was not tried",
		Symptoms: []string{"the doctor did not wait for the token to expire"},
		Mend:     "Wait longer (--wait), or have the authorization server issue shorter tokens for the time of the examination.",
	}, onGrant(func(_ *walk, s *signIn) string { return s.unexpired })},
}
