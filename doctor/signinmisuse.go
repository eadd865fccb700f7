package doctor

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// quietly is how long a code may take for which nobody is asked.
const quietly = 10 * time.Second

// misuse is the record of the wrong ways to redeem a code that were tried.
type misuse struct {
	tried   map[string]*tokens // by the name of the way; what a code that was used up before told is left out
	untried string             // why the rest was not tried
	other   client             // which the code is not for
	asked   bool               // a person was asked, or could have been
	silent  bool               // codes come without a person
}

// wrongWays are the wrong ways to redeem a code, in this order. nil leaves a parameter out.
var wrongWays = []struct {
	name   string
	change func(s *signIn, challenge string) url.Values
}{
	{"verifier-wrong", func(s *signIn, _ string) url.Values { return url.Values{"code_verifier": {swapped(s.verifier)}} }},
	{"verifier-missing", func(*signIn, string) url.Values { return url.Values{"code_verifier": nil} }},
	{"verifier-plain", func(_ *signIn, challenge string) url.Values { return url.Values{"code_verifier": {challenge}} }},
	{"other-client", func(s *signIn, _ string) url.Values { return url.Values{"client_id": {s.misuse.other.id}} }},
	{"other-redirect", func(s *signIn, _ string) url.Values { return url.Values{"redirect_uri": {s.redirect + "/other"}} }},
}

// swapped returns another verifier of the same characters.
func swapped(verifier string) string { return verifier[1:] + verifier[:1] }

// misuse tries wrong ways to redeem a code, with codes of their own. What a code is good for after a
// refusal is seen at its correct redemption: where a refusal uses it up, each way needs another code.
// Codes after the first are asked for with prompt=none, and of a person once.
func (w *walker) misuse(parent context.Context) {
	s := w.signIn
	if s.first == nil || !s.first.ok {
		return
	}
	state, verifier, issued := s.state, s.verifier, len(s.issued)
	s.misuse = &misuse{tried: map[string]*tokens{}}
	w.within(parent, w.meetOther)
	one := false // a code is good for one way
	for left := w.possible(); len(left) > 0 && s.misuse.untried == ""; {
		answer := w.anotherCode(parent)
		if answer == nil {
			s.misuse.untried = "no further code came without a person"
			break
		}
		w.within(parent, func(ctx context.Context) { left, one = w.wrongly(ctx, answer, left, one) })
	}
	w.within(parent, func(ctx context.Context) { w.endMisuse(ctx, issued) })
	s.state, s.verifier = state, verifier
}

// wrongly redeems a code in wrong ways, and correctly in the end. It returns which ways are left, and
// whether a code is good for one way only.
func (w *walker) wrongly(ctx context.Context, answer url.Values, left []string, one bool) ([]string, bool) {
	s := w.signIn
	form := url.Values{"grant_type": {"authorization_code"}, "code": {answer.Get("code")}, "redirect_uri": {s.redirect}, "code_verifier": {s.verifier}}
	w.addResource(form)
	tries := left
	if one {
		tries = left[:1]
	}
	tried := map[string]*tokens{}
	for i, name := range tries {
		t := w.tryWay(ctx, name, form)
		if !t.answered() {
			s.misuse.untried = t.String()
			return left, one
		}
		if tried[name] = t; t.ok { // the code is used up now
			maps.Copy(s.misuse.tried, tried)
			return left[i+1:], one
		}
	}
	if one || !w.obtain(ctx, "sign-in.code-after", maps.Clone(form)).ok {
		s.misuse.tried[tries[0]] = tried[tries[0]] // the others may have been refused for the code
		return left[1:], true
	}
	maps.Copy(s.misuse.tried, tried)
	return nil, one
}

// tryWay redeems a code in a wrong way.
func (w *walker) tryWay(ctx context.Context, name string, form url.Values) *tokens {
	s := w.signIn
	form = maps.Clone(form)
	for _, way := range wrongWays {
		if way.name != name {
			continue
		}
		for key, values := range way.change(s, challengeFor(s.verifier)) {
			if form[key] = values; values == nil {
				form.Del(key)
			}
		}
	}
	own := s.client
	if name == "other-client" {
		s.client = s.misuse.other
	}
	t := w.obtain(ctx, "sign-in."+name, form)
	s.client = own
	return t
}

// anotherCode asks for another code: without a person if that works, else of the person, once. It
// returns nil if none comes.
func (w *walker) anotherCode(parent context.Context) url.Values {
	m := w.signIn.misuse
	if !m.asked || m.silent {
		if answer := w.comeBack(parent, quietly, true); answer != nil {
			m.silent = true
			return answer
		}
	}
	if m.asked {
		return nil
	}
	m.asked = true
	return w.comeBack(parent, MaxWait, false)
}

// comeBack opens the authorization endpoint anew and waits for a code. It returns nil if there is none.
func (w *walker) comeBack(parent context.Context, most time.Duration, silent bool) url.Values {
	s := w.signIn
	ctx, cancel := context.WithTimeout(parent, most)
	defer cancel()
	at := w.address()
	if silent {
		at = withPrompt(at, "none")
	}
	w.hide.add(s.verifier)
	if w.options.SignIn(ctx, at) != nil {
		return nil
	}
	for {
		select {
		case answer := <-w.back.answered:
			if answer.Get("state") != s.state { // a page that was opened before
				continue
			}
			w.hide.add(answer.Get("code"))
			if answer.Get("code") == "" {
				return nil
			}
			return answer
		case <-ctx.Done():
			return nil
		}
	}
}

// withPrompt sets the parameter prompt of an authorization request (OpenID Connect Core section
// 3.1.2.1).
func withPrompt(at, prompt string) string {
	u, err := url.Parse(at)
	if err != nil {
		return at
	}
	v := u.Query()
	v.Set("prompt", prompt)
	u.RawQuery = v.Encode()
	return u.String()
}

// meetOther registers the client that a code is not for, where the doctor may register.
func (w *walker) meetOther(ctx context.Context) {
	s := w.signIn
	at := w.endpoint(s.document, "registration_endpoint")
	if w.options.ClientID != "" || at == "" || !private(at) || w.full(ctx) != "" {
		return
	}
	e := w.ask(ctx, question{"sign-in.register-other", http.MethodPost, at, http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"},
	}, string(marshal(ownBody([]string{s.redirect})))})
	s.misuse.other = w.ownClient(e, at)
	if why := e.uncertain(s.misuse.other.id); why != "" {
		w.leftBehind("a client with the name authz doctor may have been registered at "+s.issuer, why)
	}
}

// possible returns the names of the ways that can be tried.
func (w *walker) possible() (names []string) {
	for _, way := range wrongWays {
		if way.name != "other-client" || w.signIn.misuse.other.id != "" {
			names = append(names, way.name)
		}
	}
	return names
}

// endMisuse revokes what the codes were redeemed for, and removes the other client.
func (w *walker) endMisuse(ctx context.Context, before int) {
	s := w.signIn
	for _, t := range s.issued[before:] {
		w.revokeToken(ctx, t)
	}
	s.issued = s.issued[:before] // the first grant is revoked in the end
	other := s.misuse.other
	if other.id == "" {
		return
	}
	what := "the registration of the client " + other.id + " at " + s.issuer
	if other.uri == "" {
		w.leftBehind(what, "the answer names nothing with which it can be removed")
		return
	}
	if e := w.removal(ctx, question{"sign-in.unregister-other", http.MethodDelete, other.uri, bearing(other.token), ""}); e.code()/100 != 2 {
		w.leftBehind(what, e.String())
	}
}

// revokeToken revokes one token of a grant, the refresh token if there is one (RFC 7009).
func (w *walker) revokeToken(ctx context.Context, t *tokens) {
	s := w.signIn
	at := w.endpoint(s.document, "revocation_endpoint")
	if at == "" || !private(at) {
		w.leftBehind("tokens of the client "+s.client.id, "the authorization server has no revocation_endpoint")
		return
	}
	token, kind := t.access, "access_token"
	if t.refresh != "" {
		token, kind = t.refresh, "refresh_token"
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	form := w.authenticate(header, url.Values{"token": {token}, "token_type_hint": {kind}})
	if e := w.removal(ctx, question{"sign-in.revoke-other", http.MethodPost, at, header, form.Encode()}); !e.ok() {
		w.leftBehind("tokens of the client "+s.client.id, e.String())
	}
}

// missed returns the ways that were not tried, for people.
func (m *misuse) missed(ways []string) string {
	var names []string
	for _, name := range ways {
		if m.tried[name] == nil {
			names = append(names, strings.ReplaceAll(name, "-", " "))
		}
	}
	return strings.Join(names, ", ")
}
