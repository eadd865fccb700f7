package metadata

import (
	"errors"
	"fmt"

	"gatehouse.example/internal/strictjson"
)

// ErrMismatch reports that a document names another issuer or resource than the one that it
// was fetched for.
var ErrMismatch = errors.New("the document names another issuer or resource")

// ParseAuthorizationServer parses a document that was fetched for an issuer. The document
// must name exactly that issuer (RFC 8414 section 3.3: if the values are not identical, the
// data MUST NOT be used); otherwise the error wraps [ErrMismatch]. No other member is checked:
// check those that you use.
func ParseAuthorizationServer(data []byte, issuer string) (AuthorizationServer, error) {
	var doc AuthorizationServer
	if err := strictjson.Unmarshal(data, &doc, strictjson.Options{}); err != nil {
		return AuthorizationServer{}, fmt.Errorf("metadata: authorization server: %w", err)
	}
	if issuer == "" || doc.Issuer != issuer {
		return AuthorizationServer{}, fmt.Errorf("metadata: authorization server: %w: its issuer is %q", ErrMismatch, doc.Issuer)
	}
	return doc, nil
}

// ParseResource parses a document that was fetched for a resource. The document must name
// exactly that resource (RFC 9728 section 3.3: if the values are not identical, the data MUST
// NOT be used); otherwise the error wraps [ErrMismatch].
func ParseResource(data []byte, resource string) (Resource, error) {
	var doc Resource
	if err := strictjson.Unmarshal(data, &doc, strictjson.Options{}); err != nil {
		return Resource{}, fmt.Errorf("metadata: resource: %w", err)
	}
	if resource == "" || doc.Resource != resource {
		return Resource{}, fmt.Errorf("metadata: resource: %w: its resource is %q", ErrMismatch, doc.Resource)
	}
	return doc, nil
}
