package dcr

import (
	"fmt"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

// maxRedirectURIs bounds the redirect URIs of a client.
const maxRedirectURIs = 10

// redirectURIs registers every redirect URI byte for byte, or refuses the request and
// says which one is wrong and why. A repeated URI is registered once.
func (p Policy) redirectURIs(asked metadata.Client, m *metadata.Client) error {
	switch n := len(asked.RedirectURIs); {
	case n == 0:
		// RFC 7591 section 2: clients using flows with redirection MUST register them.
		return refuse(codeInvalidRedirectURI, "redirect_uris", "at least one redirect URI is required")
	case n > maxRedirectURIs:
		return refuse(codeInvalidRedirectURI, "redirect_uris", "there are %d redirect URIs, at most %d are allowed", n, maxRedirectURIs)
	}
	for i, raw := range asked.RedirectURIs {
		if why := p.refuses(raw); why != "" {
			return refuse(codeInvalidRedirectURI, fmt.Sprintf("redirect_uris[%d]", i), "%s", why)
		}
		if !slices.Contains(m.RedirectURIs, raw) {
			m.RedirectURIs = append(m.RedirectURIs, raw)
		}
	}
	return nil
}

// refuses says why a redirect URI cannot be registered, or "".
func (p Policy) refuses(raw string) string {
	uri, err := metadata.ParseRedirect(raw)
	if err != nil {
		why := err.Error()
		if _, reason, ok := strings.Cut(why, metadata.ErrRedirectURI.Error()+": "); ok {
			why = reason
		}
		return why
	}
	if uri.Kind != metadata.RedirectPrivateUse {
		return ""
	}
	scheme, _, _ := strings.Cut(raw, ":")
	switch {
	case p.RefusePrivateUse:
		return "private-use schemes are not allowed here; use https or http on a loopback address"
	case len(p.PrivateUseSchemes) > 0 && !slices.Contains(p.PrivateUseSchemes, scheme):
		return fmt.Sprintf("the scheme %.64q is not one of those allowed here: %s", scheme, strings.Join(p.PrivateUseSchemes, ", "))
	}
	return ""
}
