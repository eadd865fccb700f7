package upstream_test

import (
	"strings"
	"testing"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// Values within a key are alternatives, different keys must all match, and only what is proven
// counts.
func TestAdmits(t *testing.T) {
	type allow = upstream.Allow
	staff := person("1", "email", "Ada@Example.com", "email_verified", true, "groups", []string{"staff"})
	for name, test := range map[string]struct {
		preset string
		allow  allow
		person upstreamtest.Person
		want   bool
	}{
		"domain":                  {upstream.OIDC, allow{Domains: []string{"example.org", "EXAMPLE.com"}}, staff, true},
		"another domain":          {upstream.OIDC, allow{Domains: []string{"example.org"}}, staff, false},
		"a domain below":          {upstream.OIDC, allow{Domains: []string{"example.com"}}, person("1", "email", "ada@sub.example.com", "email_verified", true), false},
		"a domain that ends so":   {upstream.OIDC, allow{Domains: []string{"example.com"}}, person("1", "email", "ada@notexample.com", "email_verified", true), false},
		"domain not verified":     {upstream.OIDC, allow{Domains: []string{"example.com"}}, person("1", "email", "ada@example.com", "email_verified", false), false},
		"domain, no word of it":   {upstream.OIDC, allow{Domains: []string{"example.com"}}, person("1", "email", "ada@example.com"), false},
		"domain, verified text":   {upstream.OIDC, allow{Domains: []string{"example.com"}}, person("1", "email", "ada@example.com", "email_verified", "true"), false},
		"tid at another preset":   {upstream.OIDC, allow{Domains: []string{"example.com"}}, person("1", "tid", "example.com"), false},
		"hd at another preset":    {upstream.OIDC, allow{Domains: []string{"example.com"}}, person("1", "hd", "example.com"), false},
		"group":                   {upstream.OIDC, allow{Groups: []string{"admins", "staff"}}, staff, true},
		"group in capitals":       {upstream.OIDC, allow{Groups: []string{"Staff"}}, staff, false},
		"another group":           {upstream.OIDC, allow{Groups: []string{"admins"}}, staff, false},
		"no groups claim":         {upstream.OIDC, allow{Groups: []string{"admins"}}, person("1"), false},
		"domain and group":        {upstream.OIDC, allow{Domains: []string{"example.com"}, Groups: []string{"staff"}}, staff, true},
		"domain, not group":       {upstream.OIDC, allow{Domains: []string{"example.com"}, Groups: []string{"admins"}}, staff, false},
		"group, not domain":       {upstream.OIDC, allow{Domains: []string{"example.org"}, Groups: []string{"staff"}}, staff, false},
		"e-mail":                  {upstream.OIDC, allow{People: []string{"ada@example.com"}}, staff, true},
		"e-mail, not verified":    {upstream.OIDC, allow{People: []string{"ada@example.com"}}, person("1", "email", "ada@example.com"), false},
		"e-mail as subject":       {upstream.OIDC, allow{People: []string{"ada@example.com"}}, person("ada@example.com"), false},
		"subject":                 {upstream.OIDC, allow{People: []string{"1"}}, staff, true},
		"user name as subject":    {upstream.OIDC, allow{People: []string{"boss"}}, person("1", "preferred_username", "boss"), false},
		"e-mail and group":        {upstream.OIDC, allow{People: []string{"ada@example.com"}, Groups: []string{"admins"}}, staff, false},
		"anybody":                 {upstream.OIDC, allow{Anybody: true}, person("1"), true},
		"user name at Keycloak":   {upstream.Keycloak, allow{People: []string{"Ada"}}, person("1", "preferred_username", "ada"), true},
		"subject at Keycloak":     {upstream.Keycloak, allow{People: []string{"1"}}, person("1", "preferred_username", "ada"), false},
		"group at GitHub":         {upstream.GitHub, allow{Groups: []string{"Example/Core"}}, upstreamtest.Person{Subject: "1", GitHub: upstreamtest.GitHub{Login: "ada", Teams: []string{"example/CORE"}}}, true},
		"hosted domain":           {upstream.Google, allow{Domains: []string{"example.com"}}, person("1", "hd", "example.com"), true},
		"e-mail is no hd":         {upstream.Google, allow{Domains: []string{"example.com"}}, person("1", "email", "ada@example.com", "email_verified", true), false},
		"gmail is no domain":      {upstream.Google, allow{Domains: []string{"gmail.com"}}, person("1", "email", "ada@gmail.com", "email_verified", true), false},
		"tenant":                  {upstream.Entra, allow{Domains: []string{upstreamtest.Tenant, otherTenant}}, person("1"), true},
		"another tenant":          {upstream.Entra, allow{Domains: []string{otherTenant, "22222222-2222-3333-4444-555555555555"}}, person("1"), false},
		"object ID and tenant":    {upstream.Entra, allow{Domains: []string{upstreamtest.Tenant}, People: []string{otherTenant}}, person("1", "oid", otherTenant), true},
		"object ID, other tenant": {upstream.Entra, allow{Domains: []string{otherTenant}, People: []string{otherTenant}}, person("1", "oid", otherTenant), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.preset, func(p *upstream.Provider) { p.Allow = test.allow })
			s.fake.SignIn(test.person)
			_, err := s.client.Admits(s.arrives(), nil)
			if test.want && err != nil {
				t.Error(err)
			}
			if !test.want {
				refuses(t, err, upstream.ErrNotAllowed, upstream.ReasonNotAllowed)
			}
		})
	}
}

// An e-mail address lets in one person, who keeps the place: the next one who gets the address
// does not come in, and the first one does whatever their address is by then.
func TestPins(t *testing.T) {
	s := start(t, upstream.OIDC, func(p *upstream.Provider) {
		p.Allow.Anybody, p.Allow.People = false, []string{"ada@example.com", "ada2@example.com", "77"}
	})
	pins := map[string]string{}
	pinned := func(entry string) (string, bool) { subject, ok := pins[entry]; return subject, ok }
	come := func(who upstreamtest.Person) (upstream.Decision, error) {
		s.fake.SignIn(who)
		return s.client.Admits(s.arrives(), pinned)
	}
	d, err := come(person("1", "email", "ada@example.com", "email_verified", true))
	if err != nil || d != (upstream.Decision{Entry: "ada@example.com", Pin: true}) {
		t.Fatalf("decision %+v, %v", d, err)
	}
	pins[d.Entry] = "1"
	for _, again := range []upstreamtest.Person{
		person("1", "email", "ada@example.com", "email_verified", true),
		person("1", "email", "changed@example.org"),
		person("1", "email", "ada2@example.com", "email_verified", true),
	} {
		if d, err = come(again); err != nil || d != (upstream.Decision{Entry: "ada@example.com"}) {
			t.Errorf("decision %+v, %v", d, err)
		}
	}
	_, err = come(person("2", "email", "ada@example.com", "email_verified", true))
	refuses(t, err, upstream.ErrNotAllowed, upstream.ReasonNotAllowed)
	if d, err = come(person("77")); err != nil || d != (upstream.Decision{Entry: "77"}) {
		t.Errorf("a subject is not pinned: %+v, %v", d, err)
	}
}

// An entry that can change hands is pinned; one that stays its owner's is not.
func TestWhatIsPinned(t *testing.T) {
	for name, test := range map[string]struct {
		preset, entry string
		pin           bool
	}{
		"user name at Keycloak": {upstream.Keycloak, "Ada", true},
		"user name at Okta":     {upstream.Okta, "ada", true},
		"user name at GitLab":   {upstream.GitLab, "ada", true},
		"login at GitHub":       {upstream.GitHub, "ADA", true},
		"address":               {upstream.Keycloak, "ada@example.com", true},
		"object ID at Entra":    {upstream.Entra, strings.ToUpper(otherTenant), false},
		"subject":               {upstream.OIDC, "1", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.preset, func(p *upstream.Provider) {
				p.Allow = upstream.Allow{People: []string{"somebody", test.entry}}
				if test.preset == upstream.Entra {
					p.Allow = upstream.Allow{Domains: []string{upstreamtest.Tenant}, People: []string{test.entry}}
				}
			})
			one := person("1", "preferred_username", "ada", "email", "ada@example.com", "email_verified", true, "oid", otherTenant)
			one.GitHub = upstreamtest.GitHub{Login: "Ada"}
			s.fake.SignIn(one)
			if d, err := s.client.Admits(s.arrives(), nil); err != nil || d != (upstream.Decision{Entry: test.entry, Pin: test.pin}) {
				t.Errorf("decision %+v, %v", d, err)
			}
		})
	}
}

// The log says which rule did not match, and what the person has instead.
func TestWhyNotAdmitted(t *testing.T) {
	type allow = upstream.Allow
	for want, test := range map[string]struct {
		allow  allow
		person upstreamtest.Person
	}{
		"allow.groups does not match a person without the claim groups": {allow{Groups: []string{"staff"}}, person("1")},
		"allow.groups does not match what the person is in":             {allow{Groups: []string{"staff"}}, person("1", "groups", []string{"guests"})},
		"allow.domains does not match a person without a proven domain": {allow{Domains: []string{"example.com"}}, person("1")},
		"allow.domains does not match example.org":                      {allow{Domains: []string{"example.com"}}, person("1", "email", "ada@example.org", "email_verified", true)},
		"allow.people does not name subject 1":                          {allow{People: []string{"2"}}, person("1")},
	} {
		s := start(t, upstream.OIDC, func(p *upstream.Provider) { p.Allow = test.allow })
		s.fake.SignIn(test.person)
		if _, err := s.client.Admits(s.arrives(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// A person of another provider, or made up, is not let in by this one.
func TestAdmitsOnlyItsOwn(t *testing.T) {
	s := start(t, upstream.OIDC)
	a := s.arrives()
	for name, change := range map[string]func(*upstream.Arrival){
		"nobody":           func(a *upstream.Arrival) { *a = upstream.Arrival{} },
		"another provider": func(a *upstream.Arrival) { a.Provider = "other" },
		"another issuer":   func(a *upstream.Arrival) { a.Issuer = "https://other.example.com" },
		"no subject":       func(a *upstream.Arrival) { a.Subject = "" },
	} {
		t.Run(name, func(t *testing.T) {
			changed := a
			change(&changed)
			_, err := s.client.Admits(changed, nil)
			refuses(t, err, upstream.ErrNotAllowed, upstream.ReasonNotAllowed)
		})
	}
}
