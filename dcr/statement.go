package dcr

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/internal/strictjson"
)

// StatementIssuer is a trusted issuer of software statements (RFC 7591 section 2.3).
type StatementIssuer struct {
	// Issuer is the iss claim of the statements, byte for byte.
	Issuer string
	// Keys are the public keys that verify them. Keys that cannot are left out (RFC 7517
	// section 5); a private one, or none that can, is an error of [New].
	Keys jose.JSONWebKeySet
}

// statementAlgorithms are the accepted algorithms of software statements.
var statementAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256, jose.PS256}

// statements holds the keys of trusted issuers, by issuer.
type statements map[string][]jose.JSONWebKey

func newStatements(issuers []StatementIssuer) (statements, error) {
	known := statements{}
	var errs []error
	for _, i := range issuers {
		fail := func(why string) {
			errs = append(errs, fmt.Errorf("dcr: statement issuer %q: %s", i.Issuer, why))
		}
		if _, twice := known[i.Issuer]; twice || i.Issuer == "" {
			fail("an issuer needs a name, and is configured once")
		}
		if slices.ContainsFunc(i.Keys.Keys, func(key jose.JSONWebKey) bool { return key.Key != nil && !key.IsPublic() }) {
			fail("a key is not a public key: list only the issuer's public keys")
		}
		usable := slices.DeleteFunc(slices.Clone(i.Keys.Keys), func(key jose.JSONWebKey) bool { return len(algorithmsOf(key)) == 0 })
		if len(usable) == 0 {
			fail("it has no keys that can be used: it needs a public P-256 or Ed25519 key, or an RSA key of 2048 to 4096 bits with an odd exponent of at most 65537")
		}
		known[i.Issuer] = usable
	}
	return known, errors.Join(errs...)
}

// apply returns the request with the claims of its software statement in place of its plain
// members, and the unmodified statement.
func (s statements) apply(asked request, now time.Time) (request, string, error) {
	if absent(asked.SoftwareStatement) {
		return asked, "", nil
	}
	var raw string
	if json.Unmarshal(asked.SoftwareStatement, &raw) != nil {
		return request{}, "", invalidStatement("it is not a signed JWT")
	}
	claims, err := s.verify(raw, now)
	if err != nil {
		return request{}, "", err
	}
	preferred, err := asked.withClaims(claims)
	return preferred, raw, err
}

func invalidStatement(why string) error {
	return refuse(codeInvalidStatement, "software_statement", "%s", why)
}

// verify returns the claims of a statement if a trusted issuer signed it.
func (s statements) verify(raw string, now time.Time) (map[string]json.RawMessage, error) {
	signed, err := jose.ParseSignedCompact(raw, statementAlgorithms)
	if err != nil {
		return nil, s.parseError(raw)
	}
	var dates struct {
		Issuer    string   `json:"iss"`
		Expires   *float64 `json:"exp"`
		NotBefore *float64 `json:"nbf"`
		IssuedAt  *float64 `json:"iat"`
	}
	var claims map[string]json.RawMessage
	for _, v := range []any{&dates, &claims} {
		if err := strictjson.Unmarshal(signed.UnsafePayloadWithoutVerification(), v, strictjson.Options{MaxBytes: maxBody}); err != nil {
			return nil, invalidStatement("its claims cannot be parsed: " + strings.TrimPrefix(err.Error(), "strictjson: "))
		}
	}
	if dates.Issuer == "" {
		// RFC 7591 section 2.3: a statement MUST contain an iss claim.
		return nil, invalidStatement("it names no issuer")
	}
	keys, known := s[dates.Issuer]
	switch {
	case !known:
		return nil, refuse(codeUnapprovedStatement, "software_statement", "its issuer is not trusted here; register without it")
	case !signedBy(signed, keys, raw):
		return nil, invalidStatement("its signature is not valid")
	}
	if why := invalidAt(dates.Expires, dates.NotBefore, dates.IssuedAt, now); why != "" {
		return nil, invalidStatement(why)
	}
	return claims, nil
}

// parseError returns the error for a statement that is not a JWT with an accepted algorithm.
// Without any trusted issuer, that is why a signed JWT is refused.
func (s statements) parseError(raw string) error {
	switch {
	case strings.Count(raw, ".") != 2:
		return invalidStatement("it is not a signed JWT")
	case len(s) == 0:
		return refuse(codeUnapprovedStatement, "software_statement", "no issuer of software statements is trusted here; register without one")
	}
	return invalidStatement("it is not a JWT signed with ES256, EdDSA, RS256 or PS256")
}

// signedBy reports whether one of the keys made the signature of raw, which signed is read from.
func signedBy(signed *jose.JSONWebSignature, keys []jose.JSONWebKey, raw string) bool {
	header := signed.Signatures[0].Protected
	for _, key := range keys {
		named := header.KeyID == "" || key.KeyID == "" || key.KeyID == header.KeyID
		if !named || !slices.Contains(algorithmsOf(key), header.Algorithm) {
			continue
		}
		if madeBy(signed, key.Key, raw) {
			return true
		}
	}
	return false
}

// invalidAt returns why a statement is not valid at now, or "" if it is. Every date may be
// missing.
func invalidAt(expires, notBefore, issued *float64, now time.Time) string {
	for _, date := range []*float64{expires, notBefore, issued} {
		if _, ok := numericDate(date); date != nil && !ok {
			return "a date in it is not valid"
		}
	}
	if end, ok := numericDate(expires); ok && !now.Before(end.Add(clockSkew)) {
		return "it has expired"
	}
	for _, date := range []*float64{notBefore, issued} {
		if start, ok := numericDate(date); ok && start.After(now.Add(clockSkew)) {
			return "it is not valid yet"
		}
	}
	return ""
}

// withClaims returns a request with the claims of a statement in place of its plain members
// (RFC 7591 section 2.3). A claim also replaces the variants of its member in other languages,
// which could contradict it. Claims that are not metadata, such as client_id, are ignored as
// they are in a request.
func (asked request) withClaims(claims map[string]json.RawMessage) (request, error) {
	base := func(name string) string {
		member, _, _ := strings.Cut(name, "#")
		return member
	}
	stated := map[string]bool{}
	for name, value := range claims {
		stated[base(name)] = stated[base(name)] || !absent(value)
	}
	members := asked.members()
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return stated[base(name)] })
	for name, value := range claims {
		if !absent(value) {
			members[name] = value
		}
	}
	body, err := json.Marshal(members)
	if err != nil {
		return request{}, fmt.Errorf("dcr: statement: %w", err)
	}
	return parseRequest(body)
}
