package middleware

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// answer is what an issuer says about a token (RFC 7662 section 2.2).
type answer struct {
	Active    bool   `json:"active"`
	TokenType string `json:"token_type"`
	TokenUse  string `json:"token_use"` // not of the RFC: some issuers tell about refresh tokens, too
	jwtClaims

	scoped bool // whether it has the member scope, which may be empty
}

// errAnswer says nothing of the text that was answered: the token may be in it.
var errAnswer = errors.New("the answer is not what RFC 7662 section 2.2 describes")

// readAnswer reads an answer. When it does not say whether the token is active, nothing is
// known; when it says no, nothing else matters.
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

// check judges an answer. A token whose audience is not told was perhaps issued for another
// resource, and is refused (MCP, Token Handling: servers MUST validate the audience).
func (a *answer) check(issuer string, accepted []string, now time.Time) error {
	switch {
	case !a.Active:
		return invalid("The access token is not active.")
	case a.Issuer != "" && a.Issuer != issuer:
		return invalid("The access token comes from another issuer.")
	case a.TokenType != "" && !strings.EqualFold(a.TokenType, "Bearer"), a.TokenUse != "" && a.TokenUse != "access_token":
		return invalid("The token is not a bearer token for access.")
	}
	return a.jwtClaims.check(accepted, now)
}

// confirms compares an answer with the token that it is about.
func (a *answer) confirms(c *jwtClaims) error {
	if a.Subject != c.Subject || a.ClientID != c.ClientID {
		return invalid("The issuer says something else about the access token than the token itself.")
	}
	return nil
}

// narrow leaves of a token what the answer says, too: the issuer may have taken scopes
// back, all of them if the scope is empty, or shortened its life.
func (a *answer) narrow(c *jwtClaims) {
	if a.Expiry.Before(c.Expiry.Time) {
		c.Expiry = a.Expiry
	}
	if a.scoped {
		still := splitScope(a.Scope)
		c.Scope = strings.Join(slices.DeleteFunc(splitScope(c.Scope), func(s string) bool { return !slices.Contains(still, s) }), " ")
	}
}
