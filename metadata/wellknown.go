package metadata

import (
	"fmt"
	"net/url"
)

// The well-known paths of the documents of this package (RFC 8615).
const (
	wellKnownResource = "/.well-known/oauth-protected-resource"   // RFC 9728 section 3
	wellKnownServer   = "/.well-known/oauth-authorization-server" // RFC 8414 section 3
	wellKnownOpenID   = "/.well-known/openid-configuration"       // OpenID Connect Discovery 1.0 section 4
)

// ResourceMetadataURL returns the URL of the metadata of a resource: the well-known path is
// inserted between the host and the path of the resource, and the query is kept (RFC 9728
// section 3.1).
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

// ResourceMetadataPaths returns the escaped URL paths at which a server should serve the
// metadata of a resource: the path of [ResourceMetadataURL], and the well-known path itself if
// that differs, in the order in which clients try them.
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

// AuthorizationServerMetadataURLs returns the URLs at which the metadata of an issuer may be,
// in the order in which clients try them: with the well-known path inserted (RFC 8414 sections
// 3.1 and 5), then appended (OpenID Connect Discovery).
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
// [AuthorizationServerMetadataURLs]. A server should serve the same document at each.
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

// slashless returns the path of u, but "" for "/" (RFC 9728 section 3.1: any terminating slash
// following the host MUST be removed).
func slashless(u *url.URL) string {
	if path := u.EscapedPath(); path != "/" {
		return path
	}
	return ""
}
