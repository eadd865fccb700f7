package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.example/doctor"
)

// redeem is the token endpoint for the client that register registers: the code and the refresh
// token "one" are for the token, a code once.
func (s *stable) redeem(w http.ResponseWriter, r *http.Request) {
	status, body := http.StatusBadRequest, map[string]any{"error": "invalid_grant"}
	switch {
	case r.PostFormValue("client_id") != "client-of-this-test":
		status, body = http.StatusUnauthorized, map[string]any{"error": "invalid_client"}
	case r.PostFormValue("code") == "code-of-this-test" && !s.redeemed, r.PostFormValue("refresh_token") == "refresh-one":
		refresh := "refresh-one"
		if s.redeemed {
			refresh = "refresh-two"
		}
		s.redeemed = true
		status, body = http.StatusOK, map[string]any{"access_token": s.token, "token_type": "Bearer", "expires_in": 600, "refresh_token": refresh}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	answer(status, "application/json", string(raw), "Access-Control-Allow-Origin", "*", "Cache-Control", "no-store")(w, r)
}

// signer brings back a person who signed in, with parameters that change adds.
func signer(s *stable, change url.Values) func(context.Context, string) error {
	return func(ctx context.Context, at string) error {
		u, err := url.Parse(at)
		if err != nil {
			return err
		}
		v := url.Values{"code": {"code-of-this-test"}, "state": {u.Query().Get("state")}, "iss": {s.issuer}}
		for key, values := range change {
			v[key] = values
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Query().Get("redirect_uri")+"?"+v.Encode(), http.NoBody)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
}

// redeeming returns a change of some answers of the token endpoint.
func redeeming(fits func(r *http.Request, count int) bool, handler http.HandlerFunc) func(*stable) {
	return func(s *stable) {
		count := 0
		var mu sync.Mutex
		s.with("POST "+issuer+"/token", func(w http.ResponseWriter, r *http.Request) {
			if r.PostFormValue("client_id") != "client-of-this-test" {
				s.redeem(w, r)
				return
			}
			mu.Lock()
			count++
			now := count
			mu.Unlock()
			if fits(r, now) {
				handler(w, r)
				return
			}
			s.redeem(w, r)
		})
	}
}

func refreshing(r *http.Request, _ int) bool { return r.PostFormValue("grant_type") == "refresh_token" }

var refused = answer(400, "application/json", `{"error":"invalid_grant"}`, "Cache-Control", "no-store")

// granted is an answer of the token endpoint with some members.
func granted(members string) http.HandlerFunc {
	return answer(200, "application/json", `{`+members+`}`, "Cache-Control", "no-store")
}

// signInAnimal is a server with a fault that shows after a sign-in.
type signInAnimal struct {
	name, id string
	change   func(*stable)
	back     url.Values
	also     string
}

var signInZoo = []signInAnimal{
	{"no code for the person", "sign-in-failed", func(*stable) {}, url.Values{"code": nil, "error": {"server_error"}}, ""},
	{"no token for the code", "sign-in-failed", redeeming(func(*http.Request, int) bool { return true }, refused), nil, ""},
	{"no registration", "sign-in-failed", route("POST "+issuer+"/register", refused), nil, ""},
	{"another iss", "iss-wrong", func(*stable) {}, url.Values{"iss": {"https://other.example.org"}}, ""},
	{"no iss", "iss-wrong", func(*stable) {}, url.Values{"iss": nil}, ""},
	{"an iss that is not promised", "iss-wrong", server("authorization_response_iss_parameter_supported", nil), nil, "iss-missing"},
	{"no lifetime", "token-answer", redeeming(func(_ *http.Request, n int) bool { return n == 1 },
		granted(`"access_token":"opaque","token_type":"Bearer","refresh_token":"refresh-one"`)), nil, "token-refused refresh-not-rotated"},
	{"no refresh token", "no-refresh-token", redeeming(func(_ *http.Request, n int) bool { return n == 1 },
		granted(`"access_token":"opaque","token_type":"Bearer","expires_in":600`)), nil, "token-refused code-twice"},
	{"a refresh needs the resource", "refresh-refused", redeeming(refreshing, refused), nil, ""},
	{"a refreshed token for nobody", "refreshed-token-refused", redeeming(refreshing, granted(`"access_token":"other","refresh_token":"refresh-two"`)), nil, ""},
	{"a refresh token for ever", "refresh-not-rotated", func(s *stable) {
		redeeming(refreshing, func(w http.ResponseWriter, r *http.Request) { granted(`"access_token":"`+s.token+`"`)(w, r) })(s)
	}, nil, ""},
	{"a refresh token for one", "refresh-once", redeeming(func(_ *http.Request, n int) bool { return n == 3 }, refused), nil, ""},
	{"tokens in the query", "token-in-query", func(s *stable) {
		s.with("POST "+notes, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("access_token") == s.token {
				s.serve(w, r)
				return
			}
			s.guard(w, r)
		})
	}, nil, ""},
	{"a code for everybody", "code-twice", func(s *stable) {
		redeeming(func(r *http.Request, _ int) bool { return r.PostFormValue("code") != "" }, func(w http.ResponseWriter, r *http.Request) {
			granted(`"access_token":"`+s.token+`","token_type":"Bearer","expires_in":600,"refresh_token":"refresh-one"`)(w, r)
			s.redeemed = true
		})(s)
	}, nil, ""},
}

// signedIn examines a description with a sign-in.
func signedIn(t *testing.T, s *stable, back url.Values) *doctor.Report {
	t.Helper()
	o := options(s.open())
	o.Register, o.Token, o.SignIn = false, "", signer(s, back)
	report, err := doctor.Check(t.Context(), s.target, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestSignIn plays sign-ins: at a healthy server nothing above a note is found and nothing is left
// behind, and each animal is named.
func TestSignIn(t *testing.T) {
	report := signedIn(t, healthy(notes, issuer), nil)
	if got := above(report); len(got) > 0 || len(report.Left) > 0 {
		t.Errorf("healthy: %v, left %q", got, report.Left)
	}
	for _, a := range signInZoo {
		t.Run(a.name, func(t *testing.T) {
			s := healthy(notes, issuer)
			a.change(s)
			expectNamed(t, animal{id: a.id, also: a.also}, signedIn(t, s, a.back))
		})
	}
}

// TestSignInLeaves: what cannot be removed after a sign-in is listed, and no report has a token or
// a code.
func TestSignInLeaves(t *testing.T) {
	s := healthy(notes, issuer)
	s.with("POST "+issuer+"/revoke", answer(503, "text/plain", ""))
	s.with("DELETE "+issuer+"/register/client-of-this-test", answer(405, "", ""))
	report := signedIn(t, s, nil)
	if len(report.Left) != 2 {
		t.Errorf("left %q", report.Left)
	}
	var out strings.Builder
	if err := report.WriteText(&out, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "left behind: the grant") || strings.Contains(out.String(), "refresh-one") || strings.Contains(out.String(), s.token) {
		t.Errorf("the report:\n%s", out.String())
	}
}

// TestSignInForged: a response with another state is nobody's, and the browser that does not open
// is a finding.
func TestSignInForged(t *testing.T) {
	s := healthy(notes, issuer)
	o := options(s.open())
	o.SignIn = func(ctx context.Context, at string) error {
		if err := signer(s, url.Values{"state": {"forged"}})(ctx, at); err != nil {
			return err
		}
		return errors.New("the browser is gone")
	}
	report, err := doctor.Check(t.Context(), s.target, o)
	if err != nil || !slices.Contains(above(report), "sign-in-failed") || !strings.Contains(found(report, "sign-in-failed").Saw, "the browser is gone") {
		t.Errorf("%v, %+v", err, report.Findings)
	}
}
