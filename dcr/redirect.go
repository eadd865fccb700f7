package dcr

import (
	"fmt"
	"slices"

	"gatehouse.example/metadata"
)

// maxRedirectURIs bounds the redirect URIs of a client.
const maxRedirectURIs = 10

// redirectURIs registers every redirect URI byte for byte, and repeated ones once. Its error
// names the first unacceptable one and the reason.
func (p *Policy) redirectURIs(asked metadata.Client, m *metadata.Client) error {
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
