package upstream

import (
	"context"
	"slices"
	"strings"
)

// Finish redeems the code of a callback and returns who came. It does not look at
// [Provider.Allow]: [Client.Admits] does. A callback with another issuer is refused before its
// code is sent anywhere.
func (c *Client) Finish(ctx context.Context, a Attempt, b Callback) (Arrival, error) {
	if err := c.complete(a); err != nil {
		return Arrival{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := c.metadata(ctx)
	if err != nil {
		return Arrival{}, err
	}
	if err := c.callback(m, b); err != nil {
		return Arrival{}, err
	}
	t, err := c.redeem(ctx, m, b.Code, a.Verifier)
	if err != nil {
		return Arrival{}, err
	}
	arrived, err := c.person(ctx, m, a, t)
	if err != nil {
		return Arrival{}, err
	}
	if c.p.Recheck > 0 {
		arrived.RefreshToken, arrived.NeedGroups = t.refresh, a.NeedGroups
	}
	return arrived, nil
}

// person says who the tokens are for.
func (c *Client) person(ctx context.Context, m metadata, a Attempt, t tokens) (Arrival, error) {
	if c.p.Preset == GitHub {
		return c.githubPerson(ctx, laneSignIn, t.access, c.needsGroups(a.NeedGroups))
	}
	if t.id == "" {
		return Arrival{}, c.error(ErrInvalid, ReasonToken, "the answer has no ID token")
	}
	id, err := c.idToken(ctx, m, t.id, t.access)
	if err != nil {
		return Arrival{}, err
	}
	if err := c.ofAttempt(id, a); err != nil {
		return Arrival{}, err
	}
	s, err := c.described(ctx, m, laneSignIn, t, id)
	if err != nil {
		return Arrival{}, err
	}
	return c.arrival(s, id, c.needsGroups(a.NeedGroups))
}

// callback checks what came back before anything of it is used.
func (c *Client) callback(m metadata, b Callback) error {
	switch {
	// Another issuer means that the answer is another provider's (RFC 9207 section 2.4).
	case b.Issuer != "" && !c.p.Issues(b.Issuer):
		return c.error(ErrInvalid, ReasonIssuer, "the callback is from %q, the sign-in was at %q", shown(b.Issuer, 200), c.p.Issuer)
	case b.Issuer == "" && m.SendsIssuer:
		return c.error(ErrInvalid, ReasonIssuer, "the callback has no iss, which the provider's metadata promises (RFC 9207 section 2.4)")
	case b.Error != "":
		return c.refused(b)
	case b.Code == "" || len(b.Code) > maxCode || strings.ContainsFunc(b.Code, func(r rune) bool { return r < ' ' || r > '~' }):
		return c.error(ErrInvalid, ReasonCallback, "the callback has neither a usable code nor an error")
	}
	return nil
}

// maxCode is the greatest code that is redeemed; Entra's have some 1,500 bytes.
const maxCode = 8 << 10

// refused is the error for an error callback (RFC 6749 section 4.1.2.1, OpenID Connect Core
// section 3.1.2.6).
func (c *Client) refused(b Callback) error {
	denied := []string{"access_denied", "login_required", "interaction_required", "consent_required", "account_selection_required"}
	kind, reason := ErrMisconfigured, ReasonSettings
	switch {
	case slices.Contains(denied, b.Error):
		kind, reason = ErrDenied, ReasonDenied
	case b.Error == "temporarily_unavailable" || b.Error == "server_error":
		kind, reason = ErrUnavailable, ReasonDown
	case b.Error == "unauthorized_client":
		reason = ReasonClient
	}
	return c.coded(kind, reason, b.Error, "the provider sent the browser back: %s", shown(b.ErrorDescription, 200))
}
