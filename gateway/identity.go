package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/middleware"
)

// Identity selects how the upstream gets the identity of the caller.
type Identity string

const (
	// IdentityHeaders sets the four headers below. It is the default. The upstream must be
	// reachable through the gateway only.
	IdentityHeaders Identity = "headers"
	// IdentityAssertion sets [HeaderAssertion]. Use it for an upstream that can verify a JWT.
	IdentityAssertion Identity = "assertion"
	// IdentityNone sets no header. Use it for an upstream that needs no identity.
	IdentityNone Identity = "none"
)

// The headers of [IdentityHeaders]. In their values every byte other than a visible ASCII
// character, and the percent sign, is percent-encoded (RFC 3986 section 2.1), so that each value
// stands for exactly one subject, whatever its characters.
const (
	// HeaderSubject carries the subject of the token. It is unique for the issuer only.
	HeaderSubject = "Gatehouse-Subject"
	// HeaderIssuer carries the issuer of the token.
	HeaderIssuer = "Gatehouse-Issuer"
	// HeaderClient carries the client id of the token.
	HeaderClient = "Gatehouse-Client"
	// HeaderScope carries the scopes of the token, separated by spaces. It may be empty.
	HeaderScope = "Gatehouse-Scope"
)

// HeaderAssertion carries the JWT of [IdentityAssertion].
const HeaderAssertion = "Gatehouse-Assertion"

func (i Identity) validate() error {
	if !slices.Contains([]Identity{IdentityHeaders, IdentityAssertion, IdentityNone}, i) {
		return fmt.Errorf("identity %q is not known: it is headers, assertion or none", string(i))
	}
	return nil
}

// identityHeaders returns the headers of [IdentityHeaders] for a token.
func identityHeaders(t *middleware.Token) http.Header {
	scopes := make([]string, len(t.Scopes))
	for i, scope := range t.Scopes {
		scopes[i] = visible(scope)
	}
	return http.Header{
		HeaderSubject: {visible(t.Subject)},
		HeaderIssuer:  {visible(t.Issuer)},
		HeaderClient:  {visible(t.ClientID)},
		HeaderScope:   {strings.Join(scopes, " ")},
	}
}

// visible encodes a text as a header value that no reader trims, splits into lines or decodes in
// another charset (RFC 9110 section 5.5).
func visible(text string) string {
	const hex = "0123456789ABCDEF"
	if !strings.ContainsFunc(text, hidden) {
		return text // as nearly all are
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; !hidden(rune(c)) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// hidden reports whether a character is encoded.
func hidden(c rune) bool { return c <= ' ' || c >= 0x7f || c == '%' }
