// Package metadata implements the three metadata documents of OAuth, and the URIs and headers
// that refer to them:
//
//   - [AuthorizationServer], the capabilities of an authorization server (RFC 8414);
//   - [Resource], the authorization servers of a protected resource (RFC 9728);
//   - [Client], the metadata that a client supplies (RFC 7591 section 2);
//   - [Canonical], the canonical form of a resource URI (RFC 8707 section 2);
//   - [RedirectURI] and [MatchRedirect], the rules for redirect URIs;
//   - [ResourceMetadataURL] and [AuthorizationServerMetadataURLs], the URLs of documents
//     (RFC 9728 section 3.1, RFC 8414 section 3.1);
//   - [Serve], a handler that serves a document;
//   - [Challenge], the WWW-Authenticate header (RFC 9110 section 11, RFC 6750
//     section 3, RFC 9728 section 5.1).
//
// The package opens no connections and keeps no state. It imports the standard library and
// internal/strictjson only.
//
// A server publishes a document like this:
//
//	doc := metadata.Resource{
//		Resource:             "https://notes.example.com/mcp",
//		AuthorizationServers: []string{"https://auth.example.com"},
//	}
//	if err := doc.Validate(); err != nil {
//		return err
//	}
//	handler, err := metadata.Serve(doc)
//
// Parsers are strict: a relative URI, a fragment, user information, a control character or an
// unknown scheme is an error.
package metadata
