package dcr

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// Trust is the policy for the clients of a host that publishes client ID metadata documents
// (draft-ietf-oauth-client-id-metadata-document section 8.9).
type Trust string

const (
	// TrustAllow accepts the clients of a host and vouches for their metadata.
	TrustAllow Trust = "allow"
	// TrustAsk accepts the clients of a host; the consent page warns that this server does
	// not vouch for them.
	TrustAsk Trust = "ask"
	// TrustDeny refuses the clients of a host. No document is fetched from it; the keys of a client of
	// another host may be there.
	TrustDeny Trust = "deny"
)

// Documents selects the client ID metadata documents that are accepted
// (draft-ietf-oauth-client-id-metadata-document). The zero value accepts none.
type Documents struct {
	// Trust applies to every host that is on neither list. If it is empty, no documents are
	// accepted.
	Trust Trust
	// Allow and Deny list hosts, such as client.example.com, or *.example.com for every host
	// below example.com but not example.com itself. A host on both lists is denied. Set them
	// to treat some hosts other than Trust does.
	Allow, Deny []string
	// Pinned are documents that the operator supplies, by the address that is their
	// client_id. They follow the rules of all documents, take precedence over the published
	// ones, never expire, and are vouched for. Set it for clients that must work where
	// nothing can be fetched. With TrustDeny and no Allow, no others are accepted.
	Pinned map[string][]byte
	// InsecureAllowLoopback accepts client ids on loopback addresses, also over plain HTTP,
	// if the fetcher does. Set it for development only.
	InsecureAllowLoopback bool
}

func (d Documents) validate() error {
	errs := []error{validHosts("allow", d.Allow), validHosts("deny", d.Deny)}
	switch d.Trust {
	case TrustAllow, TrustAsk, TrustDeny:
	case "":
		if len(d.Allow) > 0 || len(d.Deny) > 0 || len(d.Pinned) > 0 || d.InsecureAllowLoopback {
			errs = append(errs, errors.New("dcr: documents: there is a policy and no trust: set it to allow, ask or deny"))
		}
	default:
		errs = append(errs, fmt.Errorf("dcr: documents: trust %q is not allow, ask or deny", d.Trust))
	}
	return errors.Join(errs...)
}

// validHosts returns an error unless the patterns are spelled as they are compared.
func validHosts(list string, patterns []string) error {
	for _, pattern := range patterns {
		host := strings.TrimPrefix(pattern, "*.")
		u, err := url.Parse("https://" + host + "/")
		if err != nil || metadata.CheckHost("https://"+host+"/") != nil || u.Hostname() != host || refusesHost(u, true) != "" {
			return fmt.Errorf("dcr: documents: %s: %q is not a host in lowercase, or *. and one", list, pattern)
		}
	}
	return nil
}

// trust returns the policy for a host.
func (d Documents) trust(host string) Trust {
	switch {
	case d.denies(host):
		return TrustDeny
	case listed(d.Allow, host):
		return TrustAllow
	}
	return d.Trust
}

// denies reports whether a host is denied by name.
func (d Documents) denies(host string) bool { return listed(d.Deny, host) }

func listed(patterns []string, host string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if below, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasSuffix(host, below) && len(host) > len(below)
		}
		return host == pattern
	})
}

// Vouched reports whether the operator vouches for the metadata of a client: by configuring
// it, pinning its document, allowing the host of its document, or by [Vouch] as long as the
// client states the same about itself. The consent page warns about other clients.
func (cs *Clients) Vouched(c storage.Client) bool {
	switch c.Source {
	case storage.ClientConfigured:
		return true
	case storage.ClientDocument:
		if _, ok := cs.pinned[c.ID]; ok {
			return true
		}
		return cs.documents.trust(hostOf(c.ID)) == TrustAllow
	}
	return c.Vouched != "" && c.Vouched == Digest(c)
}

// DocumentHost returns the host, with its port if there is one, from which a client's
// metadata document was read: the only verified property of such a client. It is empty for
// other clients.
func DocumentHost(c storage.Client) string {
	if c.Source != storage.ClientDocument {
		return ""
	}
	u, err := url.Parse(c.ID)
	if err != nil {
		return ""
	}
	return metadata.ShownHost(u)
}

// logoOf returns the address of the logo of a client whose response goes to the redirect URI
// answer, and whether the logo may be shown. The logo must have the origin of the client's
// home page or document. If the client has no document and is not vouched for, one of its web
// redirect URIs must have that origin too, and so must answer if it is a web address.
// Otherwise a client could show a third party's logo, also by registering a redirect URI of
// that party that it never uses.
func (cs *Clients) logoOf(c storage.Client, answer string) (logo, bool) {
	l := logo{url: c.Metadata.LogoURI, page: c.Metadata.ClientURI}
	if c.Source == storage.ClientDocument {
		l.page = c.ID
	}
	home := originOf(l.url)
	switch {
	case l.url == "" || l.page == "" || home == "" || originOf(l.page) != home:
		return logo{}, false
	case c.Source == storage.ClientDocument || cs.Vouched(c):
		return l, true
	}
	to, isWeb := webOrigin(answer)
	return l, (!isWeb || to == home) && slices.ContainsFunc(c.Metadata.RedirectURIs, func(raw string) bool {
		origin, isWeb := webOrigin(raw)
		return isWeb && origin == home
	})
}

// webOrigin returns the origin of a redirect URI, and whether it is a web redirect URI.
func webOrigin(redirect string) (origin string, isWeb bool) {
	uri, err := metadata.ParseRedirect(redirect)
	return originOf(redirect), err == nil && uri.Kind == metadata.RedirectWeb
}

// originOf returns the origin of an absolute web URL: scheme, host and port (RFC 6454 section
// 4). It returns "" for other strings.
func originOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.Scheme + "://" + strings.ToLower(metadata.ShownHost(u))
}

// refusesHost returns why the host of a URL cannot be that of a document, or "" if it can.
// Each host has a single accepted spelling. address also allows IP addresses.
func refusesHost(u *url.URL, address bool) string {
	host := u.Hostname()
	labels := strings.Split(host, ".")
	_, notAddress := netip.ParseAddr(host)
	switch {
	case host != strings.ToLower(host):
		return "write the host in lowercase"
	case notAddress == nil && !address:
		return "the host must be a name, not an address"
	case notAddress != nil && slices.ContainsFunc(labels, notLabel):
		return "the host is not a name"
	case strings.HasSuffix(u.Host, ":"):
		return "the port is empty"
	}
	return ""
}

// notLabel reports whether label is not a label of a host name (RFC 1123 section 2.1).
func notLabel(label string) bool {
	return label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") ||
		strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
}
