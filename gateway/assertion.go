package gateway

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"gatehouse.example/middleware"
)

// AssertionType is the "typ" in the header of an assertion, which distinguishes it from other
// kinds of JWTs (RFC 8725 section 3.11).
const AssertionType = "gatehouse-assertion+jwt"

// AssertionLifetime is the lifetime of an assertion: just long enough for clocks that differ a
// little.
const AssertionLifetime = time.Minute

// Assertion has the claims of the JWT of [IdentityAssertion].
type Assertion struct {
	// Issuer is the URL of the resource, and Audience that of the upstream. For a gateway that
	// forwards nothing, the audience is the resource too.
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	// Subject is the subject of the access token, and TokenIssuer its issuer. The subject is
	// unique for the issuer only.
	Subject     string `json:"sub"`
	TokenIssuer string `json:"token_issuer"`
	// ClientID is the client of the access token, and Scope its scopes, separated by spaces.
	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
	// IssuedAt and Expiry are in seconds since 1970 (RFC 7519 section 2).
	IssuedAt int64 `json:"iat"`
	Expiry   int64 `json:"exp"`
	// ID is unique for each request.
	ID string `json:"jti"`
	// RequestMethod, RequestTarget and RequestBody are there with [BoundToRequest] only: the
	// method of the request, its path with the query exactly as the upstream gets it in the request
	// line, and the SHA-256 digest of its body, in base64url without padding.
	RequestMethod string `json:"request_method,omitempty"`
	RequestTarget string `json:"request_target,omitempty"`
	RequestBody   string `json:"request_body_sha256,omitempty"`
}

// asserter signs assertions.
type asserter struct {
	issuer, audience string
	keys             *AssertionKeys
	now              func() time.Time
}

func newAsserter(c *Config) (a *asserter, err error) {
	a = &asserter{issuer: c.Guard.Resource, audience: cmp.Or(c.Upstream, c.Guard.Resource), keys: c.AssertionKeys, now: c.Guard.Now}
	if a.now == nil {
		a.now = time.Now
	}
	switch {
	case a.keys == nil:
		a.keys, err = NewAssertionKeys(c.AssertionKey)
	case c.AssertionKey != nil:
		err = errors.New("assertion key: set AssertionKey or AssertionKeys")
	}
	return a, err
}

// sign returns a signed assertion about the caller with a token, and about a request unless it is
// nil.
func (a *asserter) sign(t *middleware.Token, about *boundRequest) (string, error) {
	now := a.now()
	says := Assertion{
		Issuer: a.issuer, Audience: a.audience, Subject: t.Subject, TokenIssuer: t.Issuer, ClientID: t.ClientID,
		Scope: strings.Join(t.Scopes, " "), IssuedAt: now.Unix(), Expiry: now.Add(AssertionLifetime).Unix(), ID: rand.Text(),
	}
	if about != nil {
		says.RequestMethod, says.RequestTarget, says.RequestBody = about.method, about.target, about.body
	}
	payload, err := json.Marshal(says)
	if err != nil {
		return "", err
	}
	return a.keys.sign(payload)
}
