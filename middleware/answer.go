package middleware

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// answer is an introspection response (RFC 7662 section 2.2).
type answer struct {
	Active    bool   `json:"active"`
	TokenType string `json:"token_type"`
	TokenUse  string `json:"token_use"` // not in the RFC: some issuers also report refresh tokens as active
	jwtClaims

	scoped bool // whether it has the member "scope", which may be empty

	ruled, silent []string // the scopes that rules of the issuer name, and those about which the response says nothing
}

// errAnswer contains nothing of the response, which may contain the token.
var errAnswer = errors.New("the answer is not what RFC 7662 section 2.2 describes")

// readAnswer reads a response. It fails if "active" is missing, and ignores all other members if
// the token is not active.
func readAnswer(text []byte) (answer, error) {
	var state struct {
		Active *bool   `json:"active"`
		Scope  *string `json:"scope"`
	}
	if err := unambiguous(text, &state); err != nil || state.Active == nil {
		return answer{}, errAnswer
	}
	var a answer
	if !*state.Active {
		return a, nil
	}
	if err := unambiguous(text, &a); err != nil {
		return answer{}, errAnswer
	}
	a.scoped = state.Scope != nil
	return a, nil
}

// check checks a response. It refuses a token without an audience, which may have been issued
// for another resource (MCP, Token Handling: servers MUST validate the audience).
func (a *answer) check(from *trusted, now time.Time) error {
	switch {
	case !a.Active:
		return invalid("The access token is not active.")
	case a.Issuer != "" && a.Issuer != from.name:
		return invalid("The access token comes from another issuer.")
	case a.TokenType != "" && !strings.EqualFold(a.TokenType, "Bearer") && !a.keyed(), a.TokenUse != "" && a.TokenUse != "access_token":
		return invalid("The token is not a bearer token for access.")
	}
	return a.jwtClaims.check(from, now)
}

// confirms compares a response with the claims of the token.
func (a *answer) confirms(c *jwtClaims) error {
	if a.Subject != c.Subject || a.ClientID != c.ClientID {
		return invalid("The introspection response of the issuer contradicts the access token.")
	}
	if a.bound.any() && c.bound.any() && a.bound != c.bound {
		return invalid("The introspection response of the issuer names another key than the access token.")
	}
	return nil
}

// keyed reports whether the token is bound to a key, which makes its type DPoP (RFC 9449 section
// 6.2).
func (a *answer) keyed() bool {
	return strings.EqualFold(a.TokenType, dpopScheme) && a.bind() == nil && a.bound.key != ""
}

// narrow restricts the claims of a token to those of the response: the issuer may have withdrawn
// scopes, all of them if "scope" is empty, or have brought the expiry forward. A binding that the
// response alone has counts too.
func (a *answer) narrow(c *jwtClaims) {
	if a.Expiry.Before(c.Expiry.Time) {
		c.Expiry = a.Expiry
	}
	if a.bound.any() {
		c.bound = a.bound
	}
	if a.scoped || len(a.ruled) > 0 {
		c.Scope = strings.Join(slices.DeleteFunc(splitScope(c.Scope), func(s string) bool { return !a.keeps(s) }), " ")
	}
}
