package metadata

import (
	"fmt"
	"net/url"
)

// The registered suffixes of the well-known paths (RFC 8615) that point at the
// documents of this package.
const (
	wellKnownResource = "/.well-known/oauth-protected-resource"   // RFC 9728 section 3
	wellKnownServer   = "/.well-known/oauth-authorization-server" // RFC 8414 section 3
	wellKnownOpenID   = "/.well-known/openid-configuration"       // OpenID Connect Discovery 1.0 section 4
)

// ResourceMetadataURL returns where the metadata of a resource is found: the
// well-known path inserted between the host and the path of the resource, with its
// query kept (RFC 9728 section 3.1).
//
//	https://notes.example.com/mcp
//	https://notes.example.com/.well-known/oauth-protected-resource/mcp
func ResourceMetadataURL(resource string) (string, error) {
	u, err := parseResource(resource)
	if err != nil {
		return "", err
	}
	out := u.Scheme + "://" + u.Host + wellKnownResource + slashless(u)
	if u.RawQuery != "" || u.ForceQuery {
		out += "?" + u.RawQuery
	}
	return out, nil
}

// ResourceMetadataPaths returns the escaped URL paths at which a server should
// answer for the metadata of a resource: the inserted form, and the root form when
// the two differ, in the order in which clients try them.
func ResourceMetadataPaths(resource string) ([]string, error) {
	u, err := parseResource(resource)
	if err != nil {
		return nil, err
	}
	paths := []string{wellKnownResource + slashless(u)}
	if paths[0] != wellKnownResource {
		paths = append(paths, wellKnownResource)
	}
	return paths, nil
}

// AuthorizationServerMetadataURLs returns where the metadata of an issuer may be
// found, in the order in which clients try: RFC 8414 section 3.1 and section 5 with
// the well-known path inserted, then OpenID Connect Discovery with it appended.
func AuthorizationServerMetadataURLs(issuer string) ([]string, error) {
	u, paths, err := serverPaths(issuer)
	if err != nil {
		return nil, err
	}
	for i, path := range paths {
		paths[i] = u.Scheme + "://" + u.Host + path
	}
	return paths, nil
}

// AuthorizationServerMetadataPaths returns the URL paths of
// [AuthorizationServerMetadataURLs], at all of which a server should answer with the
// same bytes.
func AuthorizationServerMetadataPaths(issuer string) ([]string, error) {
	_, paths, err := serverPaths(issuer)
	return paths, err
}

func serverPaths(issuer string) (*url.URL, []string, error) {
	if err := ValidIssuer(issuer); err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, nil, fmt.Errorf("metadata: issuer: %w", err)
	}
	path := u.EscapedPath()
	if path == "" {
		return u, []string{wellKnownServer, wellKnownOpenID}, nil
	}
	return u, []string{wellKnownServer + path, wellKnownOpenID + path, path + wellKnownOpenID}, nil
}

func parseResource(resource string) (*url.URL, error) {
	canonical, err := Canonical(resource)
	if err != nil {
		return nil, err
	}
	return url.Parse(canonical)
}

// slashless drops the slash that follows the host when nothing comes after it
// (RFC 9728 section 3.1: any terminating slash following the host MUST be removed).
func slashless(u *url.URL) string {
	if path := u.EscapedPath(); path != "/" {
		return path
	}
	return ""
}
