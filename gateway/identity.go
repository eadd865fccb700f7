package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/middleware"
)

// Identity is how the server behind the gateway learns who calls.
type Identity string

const (
	// IdentityHeaders sets the four headers below. The server must be reachable through the
	// gateway alone. It is the default.
	IdentityHeaders Identity = "headers"
	// IdentityAssertion sets [HeaderAssertion], which the server verifies.
	IdentityAssertion Identity = "assertion"
	// IdentityNone tells the server nothing.
	IdentityNone Identity = "none"
)

// The headers of [IdentityHeaders]. In their values every byte that is no visible ASCII
// character, and the percent sign, is percent-encoded (RFC 3986 section 2.1), so that each
// value stands for exactly one subject, whatever characters that has.
const (
	// HeaderSubject is who calls. It is unique for the issuer only.
	HeaderSubject = "Gatehouse-Subject"
	// HeaderIssuer is the authorization server that says so.
	HeaderIssuer = "Gatehouse-Issuer"
	// HeaderClient is the id of the client that calls on behalf of the subject.
	HeaderClient = "Gatehouse-Client"
	// HeaderScope is what the token covers, with spaces between the scopes. It may be empty.
	HeaderScope = "Gatehouse-Scope"
)

// HeaderAssertion holds the JWT of [IdentityAssertion].
const HeaderAssertion = "Gatehouse-Assertion"

func (i Identity) validate() error {
	if !slices.Contains([]Identity{IdentityHeaders, IdentityAssertion, IdentityNone}, i) {
		return fmt.Errorf("identity %q is not known: it is headers, assertion or none", string(i))
	}
	return nil
}

// identityHeaders returns the headers that say who a token speaks for.
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

// visible encodes a text so that it is a header value which no reader trims, splits into
// lines or decodes in a charset of its own (RFC 9110 section 5.5).
func visible(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c > ' ' && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
