package upstream

import (
	"context"
	"slices"
)

// Recheck asks the provider with a refresh token whether it still knows the person, and returns
// who they are now; [Client.Admits] then judges them anew. The error is [ErrGone] for
// invalid_grant and [ErrUnknown] for everything else, also for a client that the provider
// refuses; [Error.Unsent] then says whether the provider cannot have used the token. The refresh
// token in the Arrival replaces the one that was given, at once: many providers take each only
// once. It is in the Arrival also beside an ErrUnknown that came after the provider took the old
// one; keep it then too.
func (c *Client) Recheck(ctx context.Context, h Held) (Arrival, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	arrived, err := c.recheck(ctx, h)
	if err == nil {
		return arrived, nil
	}
	unknown := *c.own(err)
	if unknown.Kind != ErrGone {
		unknown.Kind = ErrUnknown
	}
	return Arrival{RefreshToken: arrived.RefreshToken}, &unknown
}

func (c *Client) recheck(ctx context.Context, h Held) (Arrival, error) {
	if h.RefreshToken == "" || h.Subject == "" {
		return Arrival{}, c.error(ErrUnknown, ReasonNoRecheck, "there is no refresh token")
	}
	m, err := c.metadata(ctx)
	if err != nil {
		return Arrival{}, c.own(err).with(true)
	}
	t, err := c.refresh(ctx, m, h.RefreshToken)
	if err != nil {
		return Arrival{}, c.gone(err)
	}
	arrived, err := c.again(ctx, m, t, c.needsGroups(h.NeedGroups))
	if err == nil && (arrived.Issuer != h.Issuer || arrived.Subject != h.Subject) {
		err = c.error(ErrInvalid, ReasonPerson, "the refresh token brought another person")
	}
	if err != nil {
		arrived, err = Arrival{}, c.own(err).with(false)
	}
	arrived.RefreshToken = t.refresh
	return arrived, err
}

// gone turns the refusal of a refresh token into what it means.
func (c *Client) gone(err error) error {
	e := c.own(err)
	if e.Reason != ReasonCode {
		return e
	}
	return c.coded(ErrGone, ReasonGone, e.Code, "%s", e.Detail)
}

// again says who new tokens are for. A refresh need not bring an ID token (OpenID Connect Core
// section 12.2); userinfo then speaks alone.
func (c *Client) again(ctx context.Context, m metadata, t tokens, groups bool) (Arrival, error) {
	if c.p.Preset == GitHub {
		return c.githubPerson(ctx, laneRecheck, t.access, groups)
	}
	var id claims
	if t.id != "" {
		var err error
		if id, err = c.idToken(ctx, m, t.id, t.access); err != nil {
			return Arrival{}, err
		}
	}
	s, err := c.described(ctx, m, laneRecheck, t, id)
	if err != nil {
		return Arrival{}, err
	}
	return c.arrival(s, id, groups)
}

// CanRecheck reports whether the provider gives refresh tokens. why is a sentence if it does not.
// The error says that the provider could not be asked, so it is unknown.
func (c *Client) CanRecheck(ctx context.Context) (ok bool, why string, err error) {
	switch c.p.Preset {
	case GitHub:
		return false, c.p.Name + " gives OAuth apps no refresh token; only a GitHub App whose user tokens expire gets one", nil
	case Google, Entra, GitLab:
		return true, "", nil
	}
	m, err := c.metadata(ctx)
	if err != nil {
		return false, "", err
	}
	if slices.Contains(m.Scopes, "offline_access") || slices.Contains(m.GrantTypes, "refresh_token") {
		return true, "", nil
	}
	return false, c.p.Name + " lists neither the scope offline_access nor the grant type refresh_token in its metadata", nil
}
