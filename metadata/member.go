package metadata

import (
	"errors"
	"fmt"
	"net/url"
)

// ValidScope reports whether s is a scope token (RFC 6749 section 3.3): printable
// ASCII without space, quote and backslash.
func ValidScope(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}

func validScopes(scopes []string) error {
	errs := []error{distinct("scopes_supported", scopes)}
	for _, scope := range scopes {
		if !ValidScope(scope) {
			errs = append(errs, fmt.Errorf("metadata: scopes_supported: %q is not a scope", scope))
		}
	}
	return errors.Join(errs...)
}

// distinct returns an error for an empty list, an empty entry and an entry that occurs twice. A
// member without values must be left out of a document (RFC 8414 section 3.2), so nil is valid.
func distinct(member string, values []string) error {
	if values != nil && len(values) == 0 {
		return fmt.Errorf("metadata: %s: leave an empty list out", member)
	}
	seen := make(map[string]bool, len(values))
	for _, value := range values {
		if value == "" || seen[value] {
			return fmt.Errorf("metadata: %s: the entry %q is empty or listed twice", member, value)
		}
		seen[value] = true
	}
	return nil
}

// validURL returns an error unless raw is empty, an https URL or an http URL on loopback,
// without a fragment and user information.
func validURL(member, raw string) error {
	if raw == "" {
		return nil
	}
	return fault(member, endpointFault(raw))
}

func endpointFault(raw string) string {
	if _, why := canonical(raw); why != "" {
		return why
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "it cannot be parsed"
	case u.Scheme == "http" && !IsLoopbackHost(u.Hostname()):
		// Requirement R-SEC-3, OAuth 2.1 section 1.5: all endpoints MUST be served over HTTPS.
		return "it must be https unless the host is loopback"
	}
	return ""
}

// fault returns an error that names the member and why it is wrong, or nil if why is empty.
func fault(member, why string) error {
	if why == "" {
		return nil
	}
	return fmt.Errorf("metadata: %s: %s", member, why)
}
