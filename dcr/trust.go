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

// Trust is what a deployment thinks of hosts that publish client ID metadata documents
// (draft-ietf-oauth-client-id-metadata-document section 8.9).
type Trust string

const (
	// TrustAllow takes their clients for what they say they are.
	TrustAllow Trust = "allow"
	// TrustAsk lets people decide: consent says that nobody here vouches for the host.
	TrustAsk Trust = "ask"
	// TrustDeny refuses their clients. Nothing is fetched from such a host.
	TrustDeny Trust = "deny"
)

// Documents says which client ID metadata documents are read
// (draft-ietf-oauth-client-id-metadata-document). The zero value is none.
type Documents struct {
	// Trust is for every host that is on neither list. Empty means that documents are off.
	Trust Trust
	// Allow and Deny list hosts, such as client.example.com, or *.example.com for all
	// below example.com without itself. A host on both lists is denied.
	Allow, Deny []string
	// Pinned are documents that are known here, by the address that is their client_id. They are
	// read once, by the rules for all documents, win over what is published there, never end, and
	// are vouched for. Set it for clients that have to connect where nothing can be fetched. With
	// TrustDeny and no Allow they are the only ones.
	Pinned map[string][]byte
	// InsecureAllowLoopback accepts client ids on loopback addresses, also over plain
	// HTTP, if the fetcher does. It is for development.
	InsecureAllowLoopback bool
}

func (d Documents) validate() error {
	errs := []error{validHosts("allow", d.Allow), validHosts("deny", d.Deny)}
	switch d.Trust {
	case TrustAllow, TrustAsk, TrustDeny:
	case "":
		if len(d.Allow) > 0 || len(d.Deny) > 0 || len(d.Pinned) > 0 || d.InsecureAllowLoopback {
			errs = append(errs, errors.New("dcr: documents: there is a policy and no trust: say allow, ask or deny"))
		}
	default:
		errs = append(errs, fmt.Errorf("dcr: documents: trust %q is not allow, ask or deny", d.Trust))
	}
	return errors.Join(errs...)
}

// validHosts wants hosts in the spelling in which they are compared.
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

// trust is what is thought of a host.
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

// Vouched reports whether somebody here stands behind what a client says about itself:
// an operator configured it, pinned its document, or trusts the host of it. The consent page says so
// when nobody does.
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
	return false
}

// DocumentHost is the host, with its port if there is one, that a client's metadata
// document was read from: the one thing about such a client that is verified. It is empty
// for other clients.
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

// logoOf says where the logo of a client is, if it may be shown: that of a client that is
// vouched for, that of a document at the document's own origin, and otherwise one whose
// origin is that of a home page and of a web address that gets the client's answers, unless
// this answer goes to another one. A picture that anybody could name would lend the client
// somebody else's face, and so would one whose owner gets answers that nobody asks for.
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

// webOrigin returns the origin of a web redirect URI, and whether it is one.
func webOrigin(redirect string) (origin string, isWeb bool) {
	uri, err := metadata.ParseRedirect(redirect)
	return originOf(redirect), err == nil && uri.Kind == metadata.RedirectWeb
}

// originOf is the scheme, host and port of an absolute web URL (RFC 6454 section 4), or "".
func originOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.Scheme + "://" + strings.ToLower(metadata.ShownHost(u))
}

// refusesHost says why the host of a URL cannot be that of a document, or "". There is
// one spelling of each.
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

// notLabel reports what is not a label of a host name (RFC 1123 section 2.1).
func notLabel(label string) bool {
	return label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") ||
		strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
}
