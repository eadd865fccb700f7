package doctor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/doctor"
)

// TestExpiry: with a wait, the first token is tried after its end; refreshes come after that, and
// nothing is left.
func TestExpiry(t *testing.T) {
	for name, c := range map[string]struct {
		wait   time.Duration
		change func(*clinic)
		slept  time.Duration
		want   string // the finding about the end
		saw    string
	}{
		"refused":   {15 * time.Minute, func(c *clinic) { c.mortal = true }, 11*time.Minute + 5*time.Second, "", ""},
		"accepted":  {15 * time.Minute, func(*clinic) {}, 11*time.Minute + 5*time.Second, "expired-token-accepted", "answers 200"},
		"too long":  {11 * time.Minute, func(c *clinic) { c.mortal = true }, 0, "expiry-not-tried", "lives for 10m0s, which with 1m5s of leeway is longer than 11m0s"},
		"not known": {15 * time.Minute, func(c *clinic) { c.opaque, c.tell = true, telling("expires_in", nil) }, 0, "expiry-not-tried", "not known"},
		"unwanted":  {0, func(*clinic) {}, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			clinic := newClinic(t)
			c.change(clinic)
			clinic.wait = c.wait
			report := clinic.examined(clinic.visit)
			if clinic.slept != c.slept || !clinic.deleted || !clinic.ended || len(report.Left) > 0 {
				t.Errorf("slept %s; deleted: %t, ended: %t, left %v", clinic.slept, clinic.deleted, clinic.ended, report.Left)
			}
			for _, id := range []string{"expired-token-accepted", "expiry-not-tried"} {
				f := found(report, id)
				if (f != nil) != (id == c.want) || f != nil && !strings.Contains(f.Saw, c.saw) {
					t.Errorf("%s: %+v", id, f)
				}
			}
			if found(report, "refresh-refused") != nil || found(report, "renewed-token-refused") != nil {
				t.Errorf("%+v", report.Findings)
			}
		})
	}
}

// TestExpiryGivenUp: who ends the examination while it waits has the grant ended too.
func TestExpiryGivenUp(t *testing.T) {
	c := newClinic(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := options(c.open())
	o.SignIn, o.Register, o.Token, o.Expiry = c.visit, false, "", time.Hour
	c.server["revocation_endpoint"] = issuer + "/revoke"
	waits := make(chan struct{})
	o.Progress = func(_, url string) {
		if strings.Contains(url, "access_token=") { // the last question before the wait
			close(waits)
		}
	}
	go func() {
		<-waits
		cancel()
	}()
	report, err := doctor.Check(ctx, c.target, o)
	if err != nil || !c.ended || !c.deleted || slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.ID == "expired-token-accepted" }) {
		t.Errorf("%v; ended: %t, deleted: %t, %+v", err, c.ended, c.deleted, report)
	}
}
