package upstream_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

func writeJSON(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

// answerWith lets a path answer a status and a body.
func answerWith(path string, status int, body string) func(*upstreamtest.Answers) {
	return func(a *upstreamtest.Answers) {
		a.First = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			w.Write([]byte(body))
			return true
		}
	}
}

func held(a upstream.Arrival) upstream.Held {
	return upstream.Held{Issuer: a.Issuer, Subject: a.Subject, RefreshToken: a.RefreshToken}
}

func rechecking(p *upstream.Provider) { p.Recheck = time.Hour }

// Only invalid_grant is a no. Everything else is not known.
func TestRecheckErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*upstreamtest.Answers)
		kind   error
		reason upstream.Reason
	}{
		"invalid_grant":          {answerWith("/token", 400, `{"error":"invalid_grant","error_description":"gone"}`), upstream.ErrGone, upstream.ReasonGone},
		"invalid_grant with 500": {answerWith("/token", 500, `{"error":"invalid_grant"}`), upstream.ErrUnknown, upstream.ReasonDown},
		"invalid_grant with 401": {answerWith("/token", 401, `{"error":"invalid_grant"}`), upstream.ErrUnknown, upstream.ReasonNonsense},
		"invalid_grant with 200": {answerWith("/token", 200, `{"error":"invalid_grant"}`), upstream.ErrUnknown, upstream.ReasonNonsense},
		"twice":                  {answerWith("/token", 400, `{"error":"invalid_grant","error":"slow_down"}`), upstream.ErrUnknown, upstream.ReasonNonsense},
		"in capitals":            {answerWith("/token", 400, `{"ERROR":"invalid_grant"}`), upstream.ErrUnknown, upstream.ReasonNonsense},
		"invalid_client":         {answerWith("/token", 401, `{"error":"invalid_client"}`), upstream.ErrUnknown, upstream.ReasonClient},
		"invalid_request":        {answerWith("/token", 400, `{"error":"invalid_request"}`), upstream.ErrUnknown, upstream.ReasonSettings},
		"503":                    {answerWith("/token", 503, `down`), upstream.ErrUnknown, upstream.ReasonDown},
		"429":                    {answerWith("/token", 429, `{"error":"invalid_grant"}`), upstream.ErrUnknown, upstream.ReasonDown},
		"a page":                 {answerWith("/token", 200, `<html>`), upstream.ErrUnknown, upstream.ReasonNonsense},
		"a page with 400":        {answerWith("/token", 400, `invalid_grant`), upstream.ErrUnknown, upstream.ReasonNonsense},
		"a redirect":             {answerWith("/token", 302, ``), upstream.ErrUnknown, upstream.ReasonNonsense},
		"tokens with 400":        {answerWith("/token", 400, `{"access_token":"a","token_type":"Bearer"}`), upstream.ErrUnknown, upstream.ReasonNonsense},
		"userinfo is null":       {answerWith("/userinfo", 200, `null`), upstream.ErrUnknown, upstream.ReasonNonsense},
		"userinfo of nobody":     {func(a *upstreamtest.Answers) { a.Userinfo = func(m map[string]any) { delete(m, "sub") } }, upstream.ErrUnknown, upstream.ReasonPerson},
		"token for another":      {func(a *upstreamtest.Answers) { a.IDToken = func(m map[string]any) { m["aud"] = "another" } }, upstream.ErrUnknown, upstream.ReasonToken},
		"token of another":       {func(a *upstreamtest.Answers) { a.IDToken = func(m map[string]any) { m["sub"] = "2" } }, upstream.ErrUnknown, upstream.ReasonPerson},
		"userinfo refuses":       {answerWith("/userinfo", 401, `{"sub":"1"}`), upstream.ErrUnknown, upstream.ReasonPerson},
		"userinfo of another":    {func(a *upstreamtest.Answers) { a.Userinfo = func(m map[string]any) { m["sub"] = "2" } }, upstream.ErrUnknown, upstream.ReasonPerson},
		"both of another": {func(a *upstreamtest.Answers) {
			a.Userinfo = func(m map[string]any) { m["sub"] = "2" }
			a.IDToken = a.Userinfo
		}, upstream.ErrUnknown, upstream.ReasonPerson},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC, rechecking)
			a := s.arrives()
			s.fake.Change(test.change)
			again, err := s.client.Recheck(t.Context(), held(a))
			refuses(t, err, test.kind, test.reason)
			if again.Subject != "" {
				t.Errorf("somebody came with the error: %+v", again)
			}
			if gone, unknown := errors.Is(err, upstream.ErrGone), errors.Is(err, upstream.ErrUnknown); gone == unknown {
				t.Errorf("gone %t, unknown %t", gone, unknown)
			}
		})
	}
	t.Run("no answer", func(t *testing.T) {
		s := start(t, upstream.OIDC, rechecking)
		a := s.arrives()
		s.fake.Server.CloseClientConnections()
		s.fake.Server.Close()
		_, err := s.client.Recheck(t.Context(), held(a))
		refuses(t, err, upstream.ErrUnknown, upstream.ReasonDown)
	})
}

// Whether the provider can have used the refresh token is known where there was no connection, and
// where not even its metadata came.
func TestRecheckUnsent(t *testing.T) {
	const whole = ""
	for name, fault := range map[string]struct {
		path   string // where the provider ends the connection; whole is that it does not listen
		again  bool   // with a client that does not know the metadata
		reset  bool   // the connection is reset, and not closed
		unsent bool
	}{
		"it does not listen":              {whole, false, false, true},
		"it does not listen, at a start":  {whole, true, false, true},
		"no metadata, at a start":         {"/.well-known/openid-configuration", true, false, true},
		"no answer to the token":          {"/token", false, false, false},
		"a reset instead of the token":    {"/token", false, true, false},
		"no answer after it took a token": {"/userinfo", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC, rechecking)
			s.fake.Server.Config.SetKeepAlivesEnabled(false) // a kept connection may look open for a moment
			a, client := s.arrives(), s.client
			if fault.again {
				client = start(t, upstream.OIDC, rechecking, func(p *upstream.Provider) { p.Issuer = s.fake.URL() }).client
			}
			if fault.path == whole {
				s.fake.Server.Close()
			}
			s.fake.Change(func(a *upstreamtest.Answers) {
				a.First = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != fault.path {
						return false
					}
					if !fault.reset {
						panic(http.ErrAbortHandler)
					}
					conn, _, err := http.NewResponseController(w).Hijack()
					if err == nil {
						err = errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close())
					}
					if err != nil {
						t.Error(err)
					}
					return true
				}
			})
			_, err := client.Recheck(t.Context(), held(a))
			refuses(t, err, upstream.ErrUnknown, upstream.ReasonDown)
			if e := err.(*upstream.Error); e.Unsent != fault.unsent {
				t.Errorf("unsent is %t: %v", e.Unsent, err)
			}
		})
	}
}

// A question that reached the token endpoint was sent, wherever it ends.
func TestRecheckSent(t *testing.T) {
	s := start(t, upstream.OIDC, rechecking)
	a, closed := s.arrives(), upstreamtest.New(t)
	closed.Server.Close()
	s.fake.Change(func(a *upstreamtest.Answers) {
		a.Rotates = true
		a.Metadata = func(m map[string]any) { m["userinfo_endpoint"] = closed.URL() + "/userinfo" }
	})
	client := start(t, upstream.OIDC, rechecking, func(p *upstream.Provider) { p.Issuer = s.fake.URL() }).client
	again, err := client.Recheck(t.Context(), held(a))
	refuses(t, err, upstream.ErrUnknown, upstream.ReasonDown)
	if err.(*upstream.Error).Unsent || again.RefreshToken == "" || again.RefreshToken == a.RefreshToken {
		t.Errorf("%+v, %v", again, err)
	}
}

// The answer must speak of the identity that is asked about, whose issuer is a part of it.
func TestRecheckOfAnother(t *testing.T) {
	s := start(t, upstream.OIDC, rechecking)
	a := s.arrives()
	other := held(a)
	other.Issuer = "https://other.example.com"
	_, err := s.client.Recheck(t.Context(), other)
	refuses(t, err, upstream.ErrUnknown, upstream.ReasonPerson)
	asked := s.fake.Requests("/token")
	for _, nobody := range []upstream.Held{{Issuer: a.Issuer, RefreshToken: a.RefreshToken}, {Issuer: a.Issuer, Subject: "1"}} {
		_, err = s.client.Recheck(t.Context(), nobody)
		refuses(t, err, upstream.ErrUnknown, upstream.ReasonNoRecheck)
	}
	if s.fake.Requests("/token") != asked {
		t.Error("the provider was asked about nobody")
	}
}

// A refresh without an ID token is answered by userinfo, also where a sign-in needs none; without
// either nobody is known. Entra's userinfo knows no tenants, so it does not count.
func TestRecheckWithoutIDToken(t *testing.T) {
	for preset, known := range map[string]bool{upstream.Google: true, upstream.Entra: false} {
		s := start(t, preset, rechecking)
		s.fake.SignIn(person("1"))
		s.fake.Change(func(a *upstreamtest.Answers) { a.NoIDToken = true })
		a := s.arrives()
		if s.fake.Requests("/userinfo") != 0 {
			t.Errorf("%s: userinfo was asked, which says nothing more", preset)
		}
		again, err := s.client.Recheck(t.Context(), held(a))
		if known && (err != nil || again.Subject != "1") {
			t.Errorf("%s: %+v, %v", preset, again, err)
		}
		if !known {
			refuses(t, err, upstream.ErrUnknown, upstream.ReasonPerson)
		}
	}
	s := start(t, upstream.OIDC)
	s.fake.Change(func(a *upstreamtest.Answers) { a.Metadata = func(m map[string]any) { delete(m, "userinfo_endpoint") } })
	if a := s.arrives(); a.Subject != "1" {
		t.Errorf("without userinfo: %+v", a)
	}
}

// What the provider says now is what counts: groups, address, and the newest refresh token, also
// when the answer after it is lost.
func TestRecheckReadsAnew(t *testing.T) {
	s := start(t, upstream.OIDC, rechecking)
	s.fake.Change(func(a *upstreamtest.Answers) { a.Rotates = true })
	groups := []string{"staff", "admins"}
	s.fake.SignIn(upstreamtest.Person{Subject: "1", Claims: map[string]any{"groups": groups}})
	a := s.arrives()
	s.fake.Change(func(a *upstreamtest.Answers) {
		a.NoIDToken = true
		a.Userinfo = func(m map[string]any) { m["groups"] = []string{"staff"} }
	})
	again, err := s.client.Recheck(t.Context(), held(a))
	if err != nil || len(again.Groups) != 1 || again.RefreshToken == a.RefreshToken || again.RefreshToken == "" {
		t.Fatalf("rechecked %+v, %v", again, err)
	}
	_, err = s.client.Recheck(t.Context(), held(a))
	refuses(t, err, upstream.ErrGone, upstream.ReasonGone)
	s.fake.Change(answerWith("/userinfo", 503, ""))
	lost, err := s.client.Recheck(t.Context(), held(again))
	refuses(t, err, upstream.ErrUnknown, upstream.ReasonDown)
	if lost.RefreshToken == "" || lost.RefreshToken == again.RefreshToken {
		t.Fatal("the new refresh token was lost with the answer of userinfo")
	}
	s.fake.Change(func(a *upstreamtest.Answers) { a.First = nil })
	again.RefreshToken = lost.RefreshToken
	if _, err = s.client.Recheck(t.Context(), held(again)); err != nil {
		t.Fatal(err)
	}
	s.fake.Forget()
	_, err = s.client.Recheck(t.Context(), held(again))
	refuses(t, err, upstream.ErrGone, upstream.ReasonGone)
}

// Without recheck no refresh token is kept, whatever the provider gives.
func TestNoRecheck(t *testing.T) {
	s := start(t, upstream.OIDC)
	if a := s.arrives(); a.RefreshToken != "" {
		t.Error("a refresh token came out although recheck is off")
	}
	_, err := s.client.Recheck(t.Context(), upstream.Held{Issuer: s.fake.URL(), Subject: "1"})
	refuses(t, err, upstream.ErrUnknown, upstream.ReasonNoRecheck)
}

// The start can say which providers give nothing to ask again with.
func TestCanRecheck(t *testing.T) {
	lists := func(scopes, grants []string) func(*upstreamtest.Answers) {
		return func(a *upstreamtest.Answers) {
			a.Metadata = func(m map[string]any) { m["scopes_supported"], m["grant_types_supported"] = scopes, grants }
		}
	}
	for name, test := range map[string]struct {
		preset string
		change func(*upstreamtest.Answers)
		want   bool
	}{
		"scope":   {upstream.OIDC, lists([]string{"openid", "offline_access"}, nil), true},
		"grant":   {upstream.Keycloak, lists(nil, []string{"refresh_token"}), true},
		"neither": {upstream.OIDC, lists([]string{"openid"}, []string{"authorization_code"}), false},
		"google":  {upstream.Google, lists(nil, nil), true},
		"github":  {upstream.GitHub, lists(nil, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.preset)
			s.fake.Change(test.change)
			ok, why, err := s.client.CanRecheck(t.Context())
			if err != nil || ok != test.want || (why == "") != ok {
				t.Errorf("can recheck: %t, %q, %v", ok, why, err)
			}
		})
	}
	s := start(t, upstream.OIDC)
	s.fake.Server.Close()
	_, _, err := s.client.CanRecheck(t.Context())
	refuses(t, err, upstream.ErrUnavailable, upstream.ReasonDown)
}
