package upstream

import "slices"

// Allow says who may come in. The values within a field are alternatives; each field that has
// values must match. Anybody stands alone. The zero value lets nobody in, and is refused.
type Allow struct {
	// Domains (domains) are what the preset counts as one: Google Workspace domains, Entra tenant
	// IDs, elsewhere the domain of a verified e-mail address. Exact: no domain covers another.
	Domains []string
	// Organisations (organisations) are logins of organisations at GitHub.
	Organisations []string
	// Groups (groups) are the provider's own names, without ID/ in front; ORGANISATION/TEAM at
	// GitHub.
	Groups []string
	// People (people) are single people: a verified e-mail address, or the login at GitHub, the
	// user name at GitLab, Keycloak and Okta, the object ID at Entra, the subject at any other
	// provider. All but subjects match once and are then pinned to the subject: see
	// [Client.Admits].
	People []string
	// Anybody (anybody: true) lets everybody in whom the provider knows.
	Anybody bool
}

// Decision says how a person was let in.
type Decision struct {
	// Entry is the entry of [Allow].People that matched, empty if People is empty.
	Entry string
	// Pin says that Entry matched by a name that can change hands, for the first time. The caller
	// must store that Entry belongs to the person's Issuer and Subject, in a way that only the first writer
	// wins, before it lets them in.
	Pin bool
}

// Admits decides whether a person may come in. pinned returns the subject to which an entry of
// [Allow].People was pinned before, if it was; the caller keeps pins by provider and entry, and
// pins hold for the issuer that made them. An entry that is pinned lets in that subject and
// nobody else, whatever their e-mail address is by now. pinned may be nil if People is empty. The error has the kind [ErrNotAllowed].
func (c *Client) Admits(a Arrival, pinned func(entry string) (subject string, ok bool)) (Decision, error) {
	allow := c.p.Allow
	if a.Provider != c.p.ID || !c.p.Issues(a.Issuer) || a.Subject == "" {
		return Decision{}, c.error(ErrNotAllowed, ReasonNotAllowed, "the person is another provider's")
	}
	if allow.Anybody {
		return Decision{}, nil
	}
	for _, has := range []struct {
		key        string
		wanted, is []string
	}{
		{"domains", lowered(allow.Domains), []string{a.Domain}},
		{"organisations", lowered(allow.Organisations), a.Organisations},
		{"groups", c.groupNames(allow.Groups), a.Groups},
	} {
		if len(has.wanted) > 0 && !overlap(has.wanted, has.is) {
			return Decision{}, c.error(ErrNotAllowed, ReasonNotAllowed, "allow.%s does not match %s", has.key, c.seen(has.key, a))
		}
	}
	if len(allow.People) == 0 {
		return Decision{}, nil
	}
	return c.admitsPerson(a, pinned)
}

// admitsPerson looks for the person among single people. Entries that are pinned to them come
// first, so that a second entry is not used up by the same person.
func (c *Client) admitsPerson(a Arrival, pinned func(string) (string, bool)) (Decision, error) {
	var open []string
	for _, entry := range c.p.Allow.People {
		if pinned != nil {
			if subject, ok := pinned(entry); ok {
				if subject == a.Subject {
					return Decision{Entry: entry}, nil
				}
				continue // it is somebody else's by now
			}
		}
		open = append(open, entry)
	}
	for _, entry := range open {
		if matches, pin := c.names(entry, a); matches {
			return Decision{Entry: entry, Pin: pin}, nil
		}
	}
	return Decision{}, c.error(ErrNotAllowed, ReasonNotAllowed, "allow.people does not name subject %s (handle %s, verified e-mail: %t)", shown(a.Subject, 64), a.Handle, a.EmailVerified)
}

// names reports that an entry means the person, and whether it does so by something that can
// change hands.
func (c *Client) names(entry string, a Arrival) (matches, pin bool) {
	if whole, _, ok := address(entry); ok {
		mail, _, _ := address(a.Email)
		return a.EmailVerified && mail == whole, true
	}
	if presets[c.p.Preset].login != "" {
		return lower(a.Login) == lower(entry), c.p.Preset != Entra // an object ID stays its owner's
	}
	return entry == a.Subject, false // only of [OIDC]: those of Google are addresses
}

// seen says what of the person did not match, for the log.
func (c *Client) seen(key string, a Arrival) string {
	switch {
	case key == "groups" && !a.GroupsKnown:
		return "a person without the claim " + c.p.Claims.Groups
	case key == "domains" && a.Domain == "":
		return "a person without a proven domain"
	case key == "domains":
		return a.Domain
	}
	return "what the person is in"
}

// groupNames are group names as they are compared: GitHub's are not case-sensitive.
func (c *Client) groupNames(names []string) []string {
	if c.p.Preset == GitHub {
		return lowered(names)
	}
	return names
}

func lowered(list []string) []string {
	changed := make([]string, len(list))
	for i, s := range list {
		changed[i] = lower(s)
	}
	return changed
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
