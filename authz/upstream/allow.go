package upstream

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
	return Decision{}, nil
}
