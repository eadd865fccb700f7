package middleware

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/metadata"
)

// jwtClaims are the claims of RFC 9068 section 2.2 that the guard uses. An introspection
// response has the same members (RFC 7662 section 2.2).
type jwtClaims struct {
	Issuer    string    `json:"iss"`
	Subject   string    `json:"sub"`
	ClientID  string    `json:"client_id"`
	Audience  audience  `json:"aud"`
	Scope     string    `json:"scope"`
	ID        string    `json:"jti"`
	Expiry    timestamp `json:"exp"`
	NotBefore timestamp `json:"nbf"`
	IssuedAt  timestamp `json:"iat"`

	Confirmation json.RawMessage `json:"cnf"`

	unaddressed bool    // whether there is no "aud" and none is needed
	object      string  // all claims, as they were sent; empty if they are not kept
	bound       binding // of Confirmation, once it is checked
}

// readClaims reads the payload of a token, and finds its issuer, on which the names of the claims
// depend. The issuer is nil if it is not one of the guard's. It may be known although the claims
// are refused.
func (g *Guard) readClaims(payload string) (jwtClaims, *trusted, error) {
	var plain jwtClaims
	if scanClaims(payload, &plain) {
		if from := g.issuers[plain.Issuer]; from == nil || from.rules.plain {
			return plain, from, nil
		}
	}
	if g.plain {
		claims, err := decodeClaims(payload)
		return claims, g.issuers[claims.Issuer], err
	}
	return g.readProfile(payload)
}

// readProfile is [Guard.readClaims] for a token of any profile.
func (g *Guard) readProfile(payload string) (jwtClaims, *trusted, error) {
	m, err := readMembers(payload)
	if err != nil {
		return jwtClaims{}, nil, err
	}
	from := g.issuers[m.text("iss")]
	if from == nil || from.rules.plain {
		claims, err := decodeClaims(payload)
		return claims, from, err
	}
	claims, err := from.rules.claims(m)
	return claims, from, err
}

// decodeClaims reads claims with the names of RFC 9068.
func decodeClaims(payload string) (jwtClaims, error) {
	claims := new(jwtClaims)
	if err := unambiguous([]byte(payload), claims); err != nil {
		return jwtClaims{}, errUnreadable
	}
	return *claims, nil
}

// unambiguous decodes JSON about tokens. It refuses text that is not valid Unicode: a decoder
// that replaces invalid text by U+FFFD makes two different subjects equal (RFC 7493 section
// 2.1). Members match by their exact name, and may occur once (RFC 7519 section 4).
func unambiguous(text []byte, v any) error {
	if err := strictjson.Valid(text, strictjson.Options{MaxBytes: maxDocument}); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// splitScope returns the scope tokens of a scope, which a single space separates (RFC 6749
// section 3.3). It leaves out texts that are not scope tokens.
func splitScope(scope string) []string {
	if scope == "" {
		return nil
	}
	return slices.DeleteFunc(strings.Split(scope, " "), func(s string) bool { return !metadata.ValidScope(s) })
}

// check checks all claims but the issuer, whether they come from a JWT or from introspection.
func (c *jwtClaims) check(from *trusted, now time.Time) error {
	leeway := from.rules.leeway
	switch {
	case !from.meets(c):
		// Requirement R-TOK-3, RFC 8707 section 2: a server MUST only accept tokens issued for itself.
		return invalid("The access token was issued for another resource.")
	case c.bind() != nil:
		// RFC 7800 section 3: the presenter must prove possession of a key. Guard.possesses
		// checks the proof of the kinds that are known.
		return errBindingKind
	case c.Subject == "" || c.ClientID == "":
		return invalid("The access token names no subject or no client.")
	case c.Expiry.IsZero():
		return invalid("The access token has no expiry.")
	case now.After(c.Expiry.Add(leeway)):
		// RFC 9068 section 4: the current time MUST be before "exp", with some leeway.
		return invalid("The access token has expired.")
	case c.begins().After(now.Add(leeway)):
		return invalid("The access token is not valid yet.")
	}
	return nil
}

// begins returns the time at which a token becomes valid.
func (c *jwtClaims) begins() time.Time {
	if c.IssuedAt.After(c.NotBefore.Time) {
		return c.IssuedAt.Time
	}
	return c.NotBefore.Time
}

func (c *jwtClaims) token() *Token {
	return &Token{
		Subject:  c.Subject,
		ClientID: c.ClientID,
		Issuer:   c.Issuer,
		Audience: c.Audience,
		Scopes:   splitScope(c.Scope),
		Expiry:   c.Expiry.Time,
		IssuedAt: c.IssuedAt.Time,
		ID:       c.ID,
		own:      c.own(),
		bound:    c.bound,
	}
}

// audience is "aud": a string or an array of strings (RFC 7519 section 4.1.3).
type audience []string

// UnmarshalJSON implements the interface of go-jose's JSON decoder.
func (a *audience) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*a = make(audience, 1)
		return json.Unmarshal(data, &(*a)[0])
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// meets reports whether an audience includes this server. The first of the accepted values is
// the resource, compared in canonical form; the others are compared byte for byte.
func (a audience) meets(accepted []string) bool {
	return a.contains(accepted[0]) || slices.ContainsFunc(a, func(candidate string) bool { return slices.Contains(accepted[1:], candidate) })
}

// contains compares by canonical form, because some clients add a slash to an origin.
func (a audience) contains(resource string) bool {
	for _, candidate := range a {
		if candidate == resource {
			return true
		}
		if canonical, err := metadata.Canonical(candidate); err == nil && canonical == resource {
			return true
		}
	}
	return false
}

const yearTenThousand = 253402300800

// timestamp is a NumericDate (RFC 7519 section 2).
type timestamp struct{ time.Time }

// UnmarshalJSON implements the interface of go-jose's JSON decoder.
func (t *timestamp) UnmarshalJSON(data []byte) error {
	seconds, err := strconv.ParseFloat(string(data), 64)
	if err != nil || seconds < 1 || seconds >= yearTenThousand {
		return errors.New("not a time")
	}
	whole := int64(seconds)
	t.Time = time.Unix(whole, int64((seconds-float64(whole))*1e9))
	return nil
}
