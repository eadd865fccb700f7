package upstream_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
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

// Each request says who asks and which form of answer it takes: without that GitHub answers with a
// form. Each answer is counted with its status, and a provider that gives none with 0.
func TestRequests(t *testing.T) {
	for preset, want := range map[string][]int{upstream.OIDC: {200, 200, 200, 200}, upstream.GitHub: {200, 200, 200}} {
		var counted []int
		s := startWith(t, upstreamtest.New(t), preset, upstream.Options{Observe: func(status int, took time.Duration) { counted = append(counted, status) }})
		s.fake.Change(func(a *upstreamtest.Answers) {
			a.First = func(_ http.ResponseWriter, r *http.Request) bool {
				accepts := "application/json"
				if strings.HasPrefix(r.URL.Path, "/api/") {
					accepts = "application/vnd.github+json"
				}
				if h := r.Header; !strings.HasSuffix(r.URL.Path, "/authorize") && (h.Get("User-Agent") != "Gatehouse" || h.Get("Accept") != accepts) {
					t.Errorf("%s is asked with %v", r.URL.Path, h)
				}
				return false
			}
		})
		s.arrives()
		if !slices.Equal(counted, want) {
			t.Errorf("%s: the answers %v were counted, want %v", preset, counted, want)
		}
		s.fake.Server.Close()
		counted = nil
		attempt := upstream.NewAttempt("state")
		_, err := s.client.Finish(t.Context(), attempt, upstream.Callback{Code: "code", Issuer: s.fake.URL()})
		refuses(t, err, upstream.ErrUnavailable, upstream.ReasonDown)
		gone, leave := context.WithCancel(t.Context())
		leave()
		_, err = s.client.Finish(gone, attempt, upstream.Callback{Code: "code", Issuer: s.fake.URL()})
		refuses(t, err, upstream.ErrUnavailable, upstream.ReasonInterrupted)
		if !slices.Equal(counted, []int{0}) {
			t.Errorf("%s: the answers %v were counted, want one that did not come", preset, counted)
		}
	}
}

// A check of the settings asks for the keys too, where there are some.
func TestCheck(t *testing.T) {
	for preset, keys := range map[string]int{upstream.OIDC: 1, upstream.GitHub: 0} {
		s := start(t, preset)
		if err := s.client.Check(t.Context()); err != nil || s.fake.Requests("/jwks") != keys {
			t.Errorf("%s: %v, keys were fetched %d times", preset, err, s.fake.Requests("/jwks"))
		}
	}
	s := start(t, upstream.OIDC)
	s.fake.Change(answerWith("/jwks", 503, ""))
	refuses(t, s.client.Check(t.Context()), upstream.ErrUnavailable, upstream.ReasonDown)
}

// What pages and logs say of an error: its status, the provider's code, and the detail.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		kind   error
		reason upstream.Reason
		status int
	}{
		{upstream.ErrInvalid, upstream.ReasonCallback, 400},
		{upstream.ErrInvalid, upstream.ReasonCode, 400},
		{upstream.ErrInvalid, upstream.ReasonLogoutToken, 400},
		{upstream.ErrInvalid, upstream.ReasonNoLogout, 400},
		{upstream.ErrInvalid, upstream.ReasonToken, 502},
		{upstream.ErrMisconfigured, upstream.ReasonClient, 502},
		{upstream.ErrDenied, upstream.ReasonDenied, 403},
		{upstream.ErrNotAllowed, upstream.ReasonNotAllowed, 403},
		{upstream.ErrGone, upstream.ReasonGone, 403},
		{upstream.ErrUnavailable, upstream.ReasonDown, 503},
		{upstream.ErrUnknown, upstream.ReasonGone, 503},
		{upstream.ErrUnavailable, upstream.ReasonInterrupted, 503},
	} {
		e := &upstream.Error{Provider: "company", Kind: tt.kind, Reason: tt.reason, Code: "a_code"}
		if e.Status() != tt.status || errors.Is(e, context.Canceled) != (tt.reason == upstream.ReasonInterrupted) || errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("%v: status %d, want %d; canceled: %t", e, e.Status(), tt.status, errors.Is(e, context.Canceled))
		}
		without, with := "provider company: "+string(tt.reason), "provider company: "+string(tt.reason)+" (a_code): why"
		whole := *e
		whole.Detail, e.Code = "why", ""
		if e.Error() != without || whole.Error() != with {
			t.Errorf("%q and %q, want %q and %q", e.Error(), whole.Error(), without, with)
		}
	}
}
