// Package metadata holds the three documents that OAuth calls metadata and the
// strings that point at them:
//
//   - [AuthorizationServer], RFC 8414, what an authorization server can do;
//   - [Resource], RFC 9728, which authorization servers protect a resource;
//   - [Client], RFC 7591 section 2, what a client says about itself;
//   - [Canonical], the canonical form of a resource URI (RFC 8707 section 2);
//   - [RedirectURI] and [MatchRedirect], the rules for redirect URIs;
//   - [ResourceMetadataURL] and [AuthorizationServerMetadataURLs], where documents
//     are found (RFC 9728 section 3.1, RFC 8414 section 3.1);
//   - [Serve], a handler that answers with a document;
//   - [Challenge], the WWW-Authenticate header (RFC 9110 section 11, RFC 6750
//     section 3, RFC 9728 section 5.1).
//
// The package only describes and validates. It opens no connection, keeps no
// state, and imports nothing but the standard library and our strict JSON.
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
// Every parser refuses by default: a relative URI, a fragment, user information,
// a control character or an unknown scheme is an error and yields nothing.
package metadata
