package upstream_test

import (
	"errors"
	"testing"
	"time"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

const redirect = "https://auth.example.com/login/company/callback"

// signer is a provider and the client under test.
type signer struct {
	*testing.T
	fake   *upstreamtest.Provider
	client *upstream.Client
}

// start makes a client of a fake provider, with changes to the configuration.
func start(t *testing.T, preset string, change ...func(*upstream.Provider)) signer {
	t.Helper()
	return startWith(t, upstreamtest.New(t), preset, upstream.Options{}, change...)
}

func startWith(t *testing.T, fake *upstreamtest.Provider, preset string, o upstream.Options, change ...func(*upstream.Provider)) signer {
	t.Helper()
	p := fake.Provider("company", preset)
	for _, f := range change {
		f(&p)
	}
	o.Redirect, o.Dev = redirect, true
	client, err := upstream.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, fake, client}
}

// signIn goes through a sign-in.
func (s signer) signIn() (upstream.Arrival, error) {
	s.Helper()
	return s.finish(upstream.NewAttempt("state"))
}

func (s signer) finish(a upstream.Attempt) (upstream.Arrival, error) {
	s.Helper()
	address, err := s.client.Begin(s.Context(), a)
	if err != nil {
		return upstream.Arrival{}, err
	}
	return s.client.Finish(s.Context(), a, s.fake.Visit(s, address))
}

// arrives signs in and must succeed.
func (s signer) arrives() upstream.Arrival {
	s.Helper()
	a, err := s.signIn()
	if err != nil {
		s.Fatal(err)
	}
	return a
}

// refuses checks the error of something that must fail.
func refuses(t *testing.T, err error, kind error, reason upstream.Reason) {
	t.Helper()
	var e *upstream.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Reason != reason {
		t.Fatalf("error %v, want kind %v and reason %q", err, kind, reason)
	}
	if e.Provider != "company" || e.Title == "" || e.Sentence() == "" {
		t.Errorf("the error names no provider: %+v", e)
	}
}

func TestSignIn(t *testing.T) {
	s := start(t, upstream.OIDC, func(p *upstream.Provider) { p.Recheck = time.Hour })
	a := s.arrives()
	if a.Issuer != s.fake.URL() || a.Subject != "1" || a.Handle != "ada@example.com" || a.FullName != "Ada" ||
		!a.EmailVerified || a.Domain != "example.com" || a.SID == "" || a.AuthTime.IsZero() || a.RefreshToken == "" {
		t.Errorf("arrived %+v", a)
	}
	again, err := s.client.Recheck(t.Context(), upstream.Held{Issuer: a.Issuer, Subject: a.Subject, RefreshToken: a.RefreshToken})
	if err != nil || again.Subject != "1" || again.RefreshToken != a.RefreshToken {
		t.Errorf("rechecked %+v, %v", again, err)
	}
}
