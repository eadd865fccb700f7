package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
	// logoutAge is how old a logout token may be, whatever its exp says, so that the caller need
	// not remember its JTI for longer.
	logoutAge = time.Hour
)

// Logout checks a logout token (OpenID Connect Back-Channel Logout 1.0 section 2.6): everything
// but whether its JTI was here before. Errors of kind [ErrInvalid] are the sender's fault (400);
// [ErrUnavailable] says that the provider's keys cannot be had (503). A token with an unknown key
// may wait some seconds for the provider's new keys, a few at a time; bound the requests of
// strangers before.
func (c *Client) Logout(ctx context.Context, token string) (LogoutRequest, error) {
	if c.p.Preset == GitHub {
		return LogoutRequest{}, c.error(ErrInvalid, ReasonNoLogout, "GitHub sends no logout tokens")
	}
	if !compact(token) || !c.logoutType(token) {
		return LogoutRequest{}, c.error(ErrInvalid, ReasonLogoutToken, "it is no compact JWS of the type logout+jwt")
	}
	m, err := c.metadata(ctx)
	if err != nil {
		return LogoutRequest{}, err
	}
	keys, verifier := c.verifier(m, false)
	verified, err := verifier.VerifyLogout(ctx, token)
	if err != nil {
		return LogoutRequest{}, c.untrusted(ReasonLogoutToken, cmp.Or(keys.failed, err))
	}
	var payload payloadOf
	if err := verified.Claims(&payload); err != nil {
		return LogoutRequest{}, c.untrusted(ReasonLogoutToken, err)
	}
	k, err := c.checked(payload.claims, ReasonLogoutToken)
	if err != nil {
		return LogoutRequest{}, err
	}
	return c.logoutRequest(k)
}

// logoutType reports a token whose typ is logout+jwt, JWT or missing (section 2.4). Nothing is verified here.
func (c *Client) logoutType(token string) bool {
	signed, err := jose.ParseSignedCompact(token, algorithmsOf(asymmetric))
	if err != nil {
		return false
	}
	typ, _ := signed.Signatures[0].Header.ExtraHeaders[jose.HeaderType].(string)
	typ = strings.TrimPrefix(lower(typ), "application/")
	return typ == "" || typ == "jwt" || typ == "logout+jwt"
}

func algorithmsOf(names []string) (list []jose.SignatureAlgorithm) {
	for _, name := range names {
		list = append(list, jose.SignatureAlgorithm(name))
	}
	return list
}

// logoutRequest checks what makes a token one for a logout, in the strict reading (section 2.6, 4 to 8).
func (c *Client) logoutRequest(k claims) (LogoutRequest, error) {
	wrong := func(what string) (LogoutRequest, error) {
		return LogoutRequest{}, c.error(ErrInvalid, ReasonLogoutToken, "%s", what)
	}
	var events map[string]map[string]any
	if json.Unmarshal(k["events"], &events) != nil || events[logoutEvent] == nil {
		return wrong("events has no member for a logout with an object")
	}
	// With a nonce it would be an ID token.
	if _, there := k["nonce"]; there {
		return wrong("it has a nonce")
	}
	r := LogoutRequest{Issuer: c.issuerOf(k), Subject: k.text("sub"), SID: k.text("sid"), JTI: k.text("jti")}
	if what := r.unnamed(k); what != "" {
		return wrong(what)
	}
	issued, err := k.moment("iat")
	if err != nil || c.o.Now().Sub(issued) > logoutAge {
		return wrong("it was issued more than an hour ago")
	}
	ends, err := k.moment("exp")
	if err != nil {
		return wrong(err.Error())
	}
	// exp counts for a minute more, and so does the caller's memory of the JTI.
	r.Expires = earlier(ends.Add(leeway), issued.Add(logoutAge+leeway))
	return r, nil
}

// unnamed says what keeps the request from naming whose sessions end, or itself; "" if nothing does.
func (r LogoutRequest) unnamed(k claims) string {
	switch {
	case k.has("sub") && r.Subject == "", k.has("sid") && r.SID == "", r.Subject == "" && r.SID == "":
		return "it has neither a sub nor a sid"
	case !plain(r.Subject, 255) || !plain(r.SID, 255):
		return "its sub or sid is too long or no text"
	case r.JTI == "" || !plain(r.JTI, 255):
		return "its jti is missing or not 1 to 255 bytes of text"
	}
	return ""
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
