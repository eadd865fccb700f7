package upstream

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// sources are claims about one person from several places of one provider, the newest first.
type sources []claims

// with returns the first source that has a claim.
func (s sources) with(name string) claims {
	for _, c := range s {
		if c.has(name) {
			return c
		}
	}
	return nil
}

func (s sources) text(name string) string { return s.with(name).text(name) }

// email returns the e-mail address and whether it is proven. Address and proof come from one
// source, or speak of the same address.
func (s sources) email() (mail string, verified bool) {
	at := slices.IndexFunc(s, func(c claims) bool { return c.has("email") })
	if at < 0 {
		return "", false
	}
	mail = s[at].text("email")
	for _, c := range s[at:] {
		if c.has("email_verified") && c.text("email") == mail {
			return mail, c.yes("email_verified")
		}
	}
	return mail, false
}

// arrival is the person whom ID token and userinfo describe. id may be nil after a recheck. needed
// is that of needsGroups.
func (c *Client) arrival(s sources, id claims, needed bool) (Arrival, error) {
	sub, err := s[0].subject()
	if err != nil {
		return Arrival{}, c.error(ErrInvalid, ReasonPerson, "%s", err)
	}
	a := Arrival{Provider: c.p.ID, Issuer: c.issuerOf(s.with("iss")), Subject: sub, FullName: fullName(s)}
	if c.p.Preset == Entra {
		a.Domain = lower(s.text("tid"))
	}
	if sid := id.text("sid"); plain(sid, 255) {
		a.SID = sid
	}
	a.AuthTime, _ = id.moment("auth_time") // with a sign-in ofAttempt has checked it
	c.mail(&a, s)
	if err := c.groups(&a, s, needed); err != nil {
		return Arrival{}, err
	}
	if login := s.text(presets[c.p.Preset].login); plain(login, 255) {
		a.Login = login
	}
	a.Handle = c.handle(a, s)
	return a, nil
}

// issuerOf returns the issuer that is part of the identity of the person in a token of the provider:
// Entra's is that of the tenant, and Google has one name here although its tokens may have two.
func (c *Client) issuerOf(k claims) string {
	if c.p.Preset == Entra {
		return k.text("iss")
	}
	return c.p.Issuer
}

// fullName returns what the person is called.
func fullName(s sources) string {
	name := s.text("name")
	if strings.TrimSpace(name) == "" {
		name = s.text("given_name") + " " + s.text("family_name")
	}
	return shown(name, 128)
}

// mail fills in the e-mail address and what the preset counts as a domain.
func (c *Client) mail(a *Arrival, s sources) {
	mail, verified := s.email()
	whole, domain, ok := address(mail)
	if ok {
		a.Email = mail
	}
	verified = verified && ok
	is := presets[c.p.Preset]
	switch is.domain {
	case hostedDomain:
		// hd, and nothing else, says that an organisation manages the account.
		if hd := lower(s.text("hd")); hostname(hd) {
			a.Domain = hd
		}
		// Google vouches for an address now only if it is its own or the organisation's: another one was
		// verified once, and may belong to somebody else by now.
		verified = verified && (a.Domain != "" || strings.HasSuffix(whole, "@gmail.com"))
	case emailDomain:
		if verified {
			a.Domain = domain
		}
	}
	a.EmailVerified = verified && is.emails
}

// groups fills in the groups: the provider's names, checked and bounded.
func (c *Client) groups(a *Arrival, s sources, needed bool) error {
	name := c.p.Claims.Groups
	if name == "" {
		return nil
	}
	from := s.with(name)
	hidden := from == nil && slices.ContainsFunc(s, func(k claims) bool { return k.hides(name) })
	if hidden && needed {
		return c.error(ErrMisconfigured, ReasonGroups, "the person is in more groups than the provider puts into a token (%s is in _claim_names)", name)
	}
	list, err := from.list(name)
	if err != nil {
		return c.error(ErrInvalid, ReasonNonsense, "the groups claim: %s", err)
	}
	a.GroupsKnown = from != nil
	return c.setGroups(a, list, needed)
}

// setGroups keeps the names that are fit, and refuses too many: a part of them would be a lie.
func (c *Client) setGroups(a *Arrival, list []string, needed bool) error {
	if len(list) > maxGroups {
		if needed {
			return c.error(ErrMisconfigured, ReasonGroups, "the person is in %d groups; at most %d are read", len(list), maxGroups)
		}
		a.GroupsKnown = false
		return nil
	}
	for _, group := range list {
		if groupName(group) {
			a.Groups = append(a.Groups, group)
		} else {
			c.o.Logger.Warn("a group of a sign-in provider was left out: its name is empty, too long or has characters that are not seen",
				"provider", c.p.ID, "group", shown(group, 64))
		}
	}
	slices.Sort(a.Groups)
	a.Groups = slices.Compact(a.Groups)
	return nil
}

// needsGroups reports that somebody is let in by their groups, or may use something by them, which
// is what use says.
func (c *Client) needsGroups(use bool) bool { return use || len(c.p.Allow.Groups) > 0 }

// handle chooses the name for people to read: the first that the provider proves as unique now.
func (c *Client) handle(a Arrival, s sources) string {
	var names []string
	// Entra's object ID is unique, but not for people. An address that Microsoft proves is, in one
	// tenant, both. preferred_username and email are neither.
	if c.p.Preset == Entra && c.p.oneTenant() {
		if proven, err := s.with("verified_primary_email").list("verified_primary_email"); err == nil && len(proven) == 1 {
			if _, _, ok := address(proven[0]); ok {
				names = proven
			}
		}
	}
	names = append(names, a.Login) // unique at the provider
	if a.EmailVerified {
		names = append(names, a.Email)
	}
	return handle(a.Subject, names...)
}

// userinfo asks who an access token is for (OpenID Connect Core section 5.3).
func (c *Client) userinfo(ctx context.Context, m metadata, lane, accessToken string) (claims, error) {
	r, err := get(m.UserinfoEndpoint)
	if err != nil {
		return nil, c.own(err)
	}
	answer, err := c.withToken(ctx, lane, r, accessToken)
	if err != nil {
		return nil, err
	}
	if answer.status != http.StatusOK {
		return nil, c.error(ErrInvalid, ReasonPerson, "%s answered %d to a token that the provider just gave", place(r), answer.status)
	}
	k, err := readClaims(answer.body)
	if err != nil {
		return nil, c.error(ErrInvalid, ReasonNonsense, "%s: %s", place(r), shown(err.Error(), 200))
	}
	return k, nil
}

// withToken makes a call with an access token.
func (c *Client) withToken(ctx context.Context, lane string, r *http.Request, accessToken string) (reply, error) {
	r.Header.Set("Authorization", "Bearer "+accessToken)
	return c.queued(ctx, lane, r)
}

// described returns what is known of the person: userinfo where the preset needs it or there is no ID
// token, and the ID token.
func (c *Client) described(ctx context.Context, m metadata, lane string, t tokens, id claims) (sources, error) {
	var s sources
	if m.UserinfoEndpoint != "" && c.p.Preset != Entra && (presets[c.p.Preset].userinfo || id == nil) {
		k, err := c.userinfo(ctx, m, lane, t.access)
		if err != nil {
			return nil, err
		}
		s = append(s, k)
	}
	if id != nil {
		s = append(s, id)
	}
	if len(s) == 0 {
		return nil, c.error(ErrInvalid, ReasonPerson, "the answer has no ID token, and there is no userinfo endpoint")
	}
	// userinfo must speak of the person of the ID token (OpenID Connect Core section 5.3.2).
	if len(s) == 2 && s[0].text("sub") != s[1].text("sub") {
		return nil, c.error(ErrInvalid, ReasonPerson, "userinfo speaks of another subject than the ID token")
	}
	return s, nil
}
