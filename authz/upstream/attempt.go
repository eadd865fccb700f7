package upstream

import "time"

// Attempt is one sign-in of one browser. Keep it where only that browser's sign-in finds it, and
// use it for one callback only.
type Attempt struct {
	// State goes to the provider and comes back. The caller makes it, binds it to the browser and
	// compares it before [Client.Finish].
	State string
	// Nonce comes back in the ID token. [NewAttempt] makes it.
	Nonce string
	// Verifier is the PKCE verifier (RFC 7636). [NewAttempt] makes it.
	Verifier string
	// LoginHint is who the person said to be; the provider may fill it in. At most 255 bytes.
	LoginHint string
	// ForceLogin asks the provider to let the person sign in again (prompt=login). Set Begun too:
	// a sign-in that the provider dates before it is refused.
	ForceLogin bool
	// Begun is when the attempt was made.
	Begun time.Time
	// MaxAge asks for a sign-in at the provider that is at most so long ago. A provider that does
	// not say when the person signed in is refused then. Nil asks nothing.
	MaxAge *time.Duration
	// NeedGroups says that resources or scopes depend on groups of this provider: they are asked
	// for (read:org at GitHub), and an answer that hides them is an error, even if [Allow] names
	// none. Keep it with the attempt: it must be the same in [Client.Begin] and [Client.Finish].
	NeedGroups bool
}

// Callback is what the browser brought back from the provider, after the caller matched state.
type Callback struct {
	Code string // code
	// Issuer is iss (RFC 9207), empty if there was none.
	Issuer string
	// Error and ErrorDescription are error and error_description.
	Error, ErrorDescription string
}

// Arrival is a person whom the provider spoke of just now. Everything in it is checked: text is
// valid, bounded and without control characters.
type Arrival struct {
	// Provider is the ID of the provider.
	Provider string
	// Issuer and Subject are together the identity of the person, forever. Issuer is the issuer
	// of the ID token (at Entra that of the person's tenant); at GitHub the configured one.
	// Subject has 1 to 255 bytes.
	Issuer, Subject string
	// Handle is a name for people to read: what the provider proves as unique now (a verified
	// e-mail, a login, a user name), else the subject, else a hash of it. 1 to 48 of a-z, 0-9 and
	// "._@+-". It can change, and can belong to another person later.
	Handle string
	// Login is the unique name by which the provider knows the person: the login at GitHub (in
	// lower case), the user name at GitLab, Keycloak and Okta, the object ID at Entra. Empty
	// elsewhere. [Allow].People matches it.
	Login string
	// FullName is what the person is called; anybody may choose any. At most 128 characters.
	FullName string
	// Email is the e-mail address as the provider wrote it, proven only with EmailVerified.
	Email string
	// EmailVerified says that the provider proves the address: email_verified is true, and what
	// else the preset needs. Never at Entra.
	EmailVerified bool
	// Domain is what the preset counts as a domain, in lower case: hd at Google, the tenant ID at
	// Entra, that of the verified e-mail elsewhere, nothing at GitHub.
	Domain string
	// Organisations are the logins of organisations at GitHub, in lower case.
	Organisations []string
	// Groups are the provider's names of groups, without the ID in front, sorted, each once.
	Groups []string
	// GroupsKnown says that the provider spoke of groups at all.
	GroupsKnown bool
	// SID is the provider's id of its session, for [Client.Logout]. Empty if it has none.
	SID string
	// AuthTime is when the person signed in at the provider; zero if it does not say.
	AuthTime time.Time
	// RefreshToken is for [Client.Recheck]: a secret, to be kept sealed. Empty if the provider
	// gave none or Recheck is 0. After Recheck it is the newest one, perhaps the same.
	RefreshToken string
	// NeedGroups is that of the [Attempt], to be kept with the RefreshToken.
	NeedGroups bool
}

// LogoutRequest is a logout token that was checked (OpenID Connect Back-Channel Logout 1.0
// section 2.4). Subject or SID may be empty, not both.
type LogoutRequest struct {
	Issuer, Subject, SID string
	// JTI identifies the token. The caller refuses a second one with the same until Expires.
	JTI string
	// Expires is when the token ends to count, at most an hour from now.
	Expires time.Time
}

// Held is what a caller kept of an [Arrival] to ask again.
type Held struct {
	Issuer, Subject string
	RefreshToken    string
	// NeedGroups is as in [Attempt]. Leave it false if it was false when the refresh token came:
	// what was not asked for then cannot be expected now.
	NeedGroups bool
}
