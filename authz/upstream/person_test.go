package upstream_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// The handle is what the provider proves as unique, in few characters; else the subject or a hash.
func TestHandles(t *testing.T) {
	for name, test := range map[string]struct {
		preset string
		person upstreamtest.Person
		want   string // empty: a hash
	}{
		"verified e-mail":             {upstream.OIDC, person("248", "email", "Ada@Example.com", "email_verified", true), "ada@example.com"},
		"e-mail not verified":         {upstream.OIDC, person("248", "email", "ada@example.com"), "248"},
		"verified as text":            {upstream.OIDC, person("248", "email", "ada@example.com", "email_verified", "true"), "248"},
		"verified as a number":        {upstream.OIDC, person("248", "email", "ada@example.com", "email_verified", 1), "248"},
		"user name":                   {upstream.OIDC, person("248", "preferred_username", "boss"), "248"},
		"user name at Keycloak":       {upstream.Keycloak, person("248", "preferred_username", "Ada", "email", "x@example.com", "email_verified", true), "ada"},
		"user name with a slash":      {upstream.Keycloak, person("248", "preferred_username", "other/ada"), "248"},
		"user name with a tilde":      {upstream.Keycloak, person("248", "preferred_username", "ada~2"), "248"},
		"Kelvin's sign":               {upstream.OIDC, person("248", "email", "\u212Aing@example.com", "email_verified", true), "248"},
		"subject with capitals":       {upstream.OIDC, person("ABC"), ""},
		"the same in lower case":      {upstream.OIDC, person("abc"), "abc"},
		"subject of another alphabet": {upstream.OIDC, person("ада"), ""},
		"subject too long":            {upstream.OIDC, person(strings.Repeat("a", 49)), ""},
		"address without a domain":    {upstream.OIDC, person("248", "email", "ada@localhost", "email_verified", true), "248"},
		"two addresses in one":        {upstream.OIDC, person("248", "email", "eve@example.org@example.com", "email_verified", true), "248"},
		"object ID at Entra":          {upstream.Entra, person("A_b", "oid", otherTenant, "email", "ada@example.com", "email_verified", true), otherTenant},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.preset)
			s.fake.SignIn(test.person)
			a := s.arrives()
			if test.want != "" && a.Handle != test.want {
				t.Errorf("handle %q, want %q", a.Handle, test.want)
			}
			if test.want == "" && len(a.Handle) != 16 {
				t.Errorf("handle %q, want a hash of 16 characters", a.Handle)
			}
		})
	}
}

func person(sub string, claims ...any) upstreamtest.Person {
	p := upstreamtest.Person{Subject: sub, Claims: map[string]any{}}
	for i := 0; i+1 < len(claims); i += 2 {
		p.Claims[claims[i].(string)] = claims[i+1]
	}
	return p
}

// The address and its proof come from one place, or speak of one address.
func TestAddressAndProof(t *testing.T) {
	s := start(t, upstream.OIDC)
	s.fake.SignIn(person("1", "email", "eve@example.org", "email_verified", true))
	s.fake.Change(func(a *upstreamtest.Answers) {
		a.Userinfo = func(m map[string]any) { m["email"] = "ada@example.com"; delete(m, "email_verified") }
	})
	if a := s.arrives(); a.EmailVerified || a.Domain != "" {
		t.Errorf("the proof of one address counts for another: %+v", a)
	}
	s.fake.Change(func(a *upstreamtest.Answers) { a.Userinfo = func(m map[string]any) { delete(m, "email_verified") } })
	if a := s.arrives(); !a.EmailVerified {
		t.Errorf("the proof in the ID token does not count for the same address: %+v", a)
	}
	s.fake.Change(func(a *upstreamtest.Answers) { a.Userinfo = func(m map[string]any) { m["email_verified"] = false } })
	if a := s.arrives(); a.EmailVerified {
		t.Errorf("an old proof counts: %+v", a)
	}
}

// Names of groups are the provider's own, bounded, and none can be mistaken for another.
func TestGroups(t *testing.T) {
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprint("g", i)
	}
	for name, test := range map[string]struct {
		groups any
		want   []string
		known  bool
		reason upstream.Reason
	}{
		"a list":           {[]string{"staff", "admins", "staff"}, []string{"admins", "staff"}, true, ""},
		"one":              {"staff", []string{"staff"}, true, ""},
		"none":             {[]string{}, nil, true, ""},
		"null":             {nil, nil, false, ""},
		"paths":            {[]string{"/staff", "a/b"}, []string{"/staff", "a/b"}, true, ""},
		"unfit names":      {[]string{"", " staff", "staff ", "a\nb", "a\u202eb", "a\u200bb", strings.Repeat("g", 257), "ok"}, []string{"ok"}, true, ""},
		"numbers":          {[]any{"staff", 1}, nil, false, upstream.ReasonNonsense},
		"null in the list": {[]any{"staff", nil}, nil, false, upstream.ReasonNonsense},
		"an object":        {map[string]any{"staff": true}, nil, false, upstream.ReasonNonsense},
		"1000":             {many[:1000], nil, true, ""},
		"1001, not needed": {many, []string{}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, upstream.OIDC)
			s.fake.SignIn(person("1", "groups", test.groups))
			a, err := s.signIn()
			switch {
			case test.reason != "":
				refuses(t, err, upstream.ErrInvalid, test.reason)
			case err != nil:
				t.Error(err)
			case name == "1000" && len(a.Groups) != 1000, test.want != nil && !slices.Equal(a.Groups, test.want), a.GroupsKnown != test.known:
				t.Errorf("groups %q, known %t", a.Groups, a.GroupsKnown)
			}
		})
	}
	s := start(t, upstream.OIDC, func(p *upstream.Provider) { p.Allow = upstream.Allow{Groups: []string{"g1"}} })
	s.fake.SignIn(person("1", "groups", many))
	_, err := s.signIn()
	refuses(t, err, upstream.ErrMisconfigured, upstream.ReasonGroups)
	log := &bytes.Buffer{}
	s = startWith(t, upstreamtest.New(t), upstream.OIDC, upstream.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	s.fake.SignIn(person("1", "groups", []string{"a\nb"}))
	s.arrives()
	if !strings.Contains(log.String(), "was left out") || !strings.Contains(log.String(), "a b") {
		t.Errorf("the log does not say which group was left out: %s", log)
	}
	s = start(t, upstream.OIDC, func(p *upstream.Provider) { p.Claims.Groups = "https://example.com/roles" })
	s.fake.SignIn(person("1", "groups", []string{"no"}, "https://example.com/roles", []string{"yes"}))
	if a := s.arrives(); !slices.Equal(a.Groups, []string{"yes"}) {
		t.Errorf("groups %q", a.Groups)
	}
}

// What cannot be shown or kept of a person is left out, and what is missing is made of what is there.
func TestWhatIsLeftOut(t *testing.T) {
	s := start(t, upstream.Keycloak)
	for _, claims := range [][]any{
		{"preferred_username", "a\nda", "sid", "a\nb", "email", "nonsense", "email_verified", true, "given_name", "Ada", "family_name", "L"},
		{"preferred_username", strings.Repeat("a", 256), "sid", strings.Repeat("s", 256), "email", "ada@localhost", "email_verified", true, "name", " ", "given_name", "Ada", "family_name", "L"},
	} {
		s.fake.SignIn(person("1", claims...))
		if a := s.arrives(); a.Login != "" || a.SID != "" || a.Email != "" || a.EmailVerified || a.Domain != "" || a.FullName != "Ada L" || a.Handle != "1" {
			t.Errorf("arrived %+v", a)
		}
	}
	s = start(t, upstream.Google)
	s.fake.SignIn(person("1", "hd", "example com", "", []string{"staff"}))
	if a := s.arrives(); a.Domain != "" || len(a.Groups) > 0 || a.GroupsKnown {
		t.Errorf("arrived %+v", a)
	}
}

// Groups that one place hides count from another one, and a claim that hides another says nothing of them.
func TestHiddenElsewhere(t *testing.T) {
	hide := func(claim string) func(map[string]any) {
		return func(m map[string]any) {
			m["_claim_names"], m["_claim_sources"] = map[string]any{claim: "src1"}, map[string]any{"src1": map[string]any{"endpoint": "https://graph.example.com"}}
			delete(m, "groups")
		}
	}
	for name, test := range map[string]struct {
		hides string
		both  bool
		fine  bool
	}{"in userinfo": {"groups", false, true}, "in neither": {"groups", true, false}, "another claim": {"roles", true, true}} {
		s := start(t, upstream.OIDC)
		s.fake.SignIn(person("1", "groups", []string{"staff"}))
		s.fake.Change(func(a *upstreamtest.Answers) {
			a.IDToken = hide(test.hides)
			if test.both {
				a.Userinfo = a.IDToken
			}
		})
		attempt := upstream.NewAttempt("state")
		attempt.NeedGroups = true
		a, err := s.finish(attempt)
		if !test.fine {
			refuses(t, err, upstream.ErrMisconfigured, upstream.ReasonGroups)
		} else if err != nil || a.GroupsKnown == test.both {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// In one tenant the address that Microsoft proves is the handle; of several, in several tenants, or
// in another form it is not.
func TestHandlesAtEntra(t *testing.T) {
	for name, test := range map[string]struct {
		tenant string
		proven any
		want   string
	}{
		"one tenant":      {upstreamtest.Tenant, []string{"Ada@example.com"}, "ada@example.com"},
		"several tenants": {"organizations", []string{"ada@example.com"}, otherTenant},
		"two addresses":   {upstreamtest.Tenant, []string{"ada@example.com", "b@example.com"}, otherTenant},
		"no address":      {upstreamtest.Tenant, []string{"boss"}, otherTenant},
	} {
		s := start(t, upstream.Entra, func(p *upstream.Provider) { p.Issuer = strings.Replace(p.Issuer, "organizations", test.tenant, 1) })
		s.fake.SignIn(person("S", "oid", otherTenant, "verified_primary_email", test.proven))
		if a := s.arrives(); a.Handle != test.want || a.EmailVerified {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// What a provider sends as an address, as the code of an error and as a text counts in one form only.
func TestTextOfOthers(t *testing.T) {
	host := strings.Repeat(strings.Repeat("a", 61)+".", 4) + "example" // 255 characters
	local := strings.Repeat("l", 254-len("@example.com"))
	for in, want := range map[string]string{
		"Ada.Z@Example.COM": "ada.z@example.com", "a'd+a@example.com": "a'd+a@example.com", "ada@a-b.example": "ada@a-b.example",
		"ada @example.com": "", "ada\u00a0@example.com": "", "ada\u200b@example.com": "", "ada\n@example.com": "", "ada\xff@example.com": "",
		"@example.com": "", "ada": "", "ada@": "", "ada@example": "", "ada@@example.com": "", "a@b@example.com": "",
		"ada@-a.example": "", "ada@a-.example": "", "ada@a..example": "", "ada@\u212aa.example": "", "ada@a_b.example": "",
		local + "@example.com": local + "@example.com", local + "l@example.com": "", "a@" + host[len(host)-252:]: "a@" + host[len(host)-252:], "a@" + host[len(host)-253:]: "",
	} {
		if got := upstream.Address(in); got != want {
			t.Errorf("address %q: %q, want %q", in, got, want)
		}
	}
	for in, fine := range map[string]bool{
		"azAZ09_-.": true, strings.Repeat("c", 64): true, strings.Repeat("c", 65): false, "": false, "a b": false, "a/b": false, "a:b": false, "a@b": false, "a[b": false, "a`b": false, "a{b": false, "\u00e9": false,
	} {
		if got := upstream.Code(in); (got == in && got != "") != fine || !fine && got != "" {
			t.Errorf("code %q: %q", in, got)
		}
	}
	for in, fine := range map[string]bool{"": true, "four": true, "fours": false, "\u00e9\u00e9": true, "a\xff": false, "a\x00": false, "a\u200b": false, "\u2028": false} {
		if got := upstream.Plain(in, 4); got != fine {
			t.Errorf("%q is plain: %t", in, got)
		}
	}
	for in, want := range map[string]string{
		"four": "four", "fives": "fiv\u2026", "\u00e9\u00e9\u00e9\u00e9": "\u00e9\u00e9\u00e9\u00e9", " a \n b ": "a b", "a\u202eb": "a b", "a\u200db": "a\u200db", "a\xffb": "a?b",
	} {
		if got := upstream.Shown(in, 4); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
