package middleware

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"

	"gatehouse.example/metadata"
)

// tokenRules are how the tokens of one issuer are judged. They do not change.
type tokenRules struct {
	profile    Profile
	audiences  []string                  // accepted values of "aud", besides those of a guard
	apps       []string                  // the clients whose tokens need no "aud"; nil if all need it
	algorithms []jose.SignatureAlgorithm // accepted in the header
	types      []string                  // accepted in the header, in lower case and without "application/"; "" stands for none
	leeway     time.Duration             // the accepted difference between the clocks of the issuer and of this server
	clients    []string                  // the claims that name the client: those that are there must agree
	scopes     []string                  // the claims that hold the scopes: the first that is there counts
	lists      bool                      // whether the scopes may be an array
	mapping    scopeMap                  // of Issuer.ScopeMap
	plain      bool                      // whether RFC 9068 names all claims that are read

	tenant, version string // of an issuer of Entra
}

// tokenRulesOf returns the rules for an issuer.
func tokenRulesOf(i *Issuer) *tokenRules {
	form := &tokenForms[i.Profile]
	r := &tokenRules{profile: i.Profile, algorithms: form.algorithms, types: form.types,
		leeway: cmp.Or(i.Leeway, defaultLeeway), clients: form.clients, scopes: form.scopes, lists: form.lists || i.ScopeClaim != "",
		mapping: newScopeMap(i.ScopeMap), plain: i.plain()}
	if i.InsecureNoAudience {
		r.apps = slices.Clone(i.Audiences)
	} else {
		r.audiences = slices.Clone(i.Audiences)
	}
	if len(i.Algorithms) > 0 {
		r.algorithms = nil
		for _, name := range i.Algorithms {
			r.algorithms = append(r.algorithms, jose.SignatureAlgorithm(name))
		}
	}
	if i.Type != "" {
		r.types = []string{strings.ToLower(mediaType(i.Type))}
	}
	if i.Profile == Entra {
		r.tenant, r.version, _ = entraIssuer(i.URL)
		r.clients = []string{"azp"}
		if r.version == "1.0" {
			r.clients = []string{"appid"}
		}
	}
	if i.ClientClaim != "" {
		r.clients = []string{i.ClientClaim}
	}
	if i.ScopeClaim != "" {
		r.scopes = []string{i.ScopeClaim}
	}
	return r
}

// mediaType returns a type without the prefix that RFC 7515 section 4.1.9 allows to omit.
func mediaType(typ string) string {
	const prefix = "application/"
	if len(typ) > len(prefix) && strings.EqualFold(typ[:len(prefix)], prefix) {
		return typ[len(prefix):]
	}
	return typ
}

// typed reports whether a header has an accepted type. typ is nil for a header without one.
func (r *tokenRules) typed(typ *string) bool {
	if typ == nil {
		return slices.Contains(r.types, "")
	}
	return *typ != "" && slices.ContainsFunc(r.types, func(want string) bool { return strings.EqualFold(want, mediaType(*typ)) })
}

// meets reports whether a token was issued for this resource, or may come without an audience.
func (t *trusted) meets(c *jwtClaims) bool {
	if c.unaddressed {
		return t.anywhere || slices.Contains(t.rules.apps, c.ClientID)
	}
	return c.Audience.meets(t.accepted)
}

// members are the claims of a token by their exact names, each as it is written.
type members map[string]json.RawMessage

// readMembers reads the payload of a token.
func readMembers(payload string) (members, error) {
	var m members
	if err := unambiguous([]byte(payload), &m); err != nil || m == nil {
		return nil, errUnreadable
	}
	return m, nil
}

// errUnreadable is the refusal of a token whose claims cannot be read.
var errUnreadable = invalid("The claims of the access token cannot be read.")

// has reports whether one of the claims is there, with whatever value.
func (m members) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := m[name]; return ok })
}

// text returns a claim that is a string, and "" for anything else.
func (m members) text(name string) string {
	var s string
	if m.read(name, &s) != nil {
		return ""
	}
	return s
}

// read decodes a claim. It changes nothing if the claim is not there.
func (m members) read(name string, to any) error {
	if raw, ok := m[name]; ok {
		return json.Unmarshal(raw, to)
	}
	return nil
}

// claims returns the claims of a token of the issuer, under the names that its profile gives them.
func (r *tokenRules) claims(m members) (jwtClaims, error) {
	c := jwtClaims{Confirmation: m["cnf"], unaddressed: r.apps != nil && !m.has("aud")}
	var client, scope error
	c.ClientID, client = r.client(m)
	c.Scope, scope = r.scope(m)
	if err := errors.Join(m.read("iss", &c.Issuer), m.read("sub", &c.Subject), m.read("aud", &c.Audience), m.read("jti", &c.ID),
		m.read("exp", &c.Expiry), m.read("nbf", &c.NotBefore), m.read("iat", &c.IssuedAt), client, scope); err != nil {
		return jwtClaims{}, errUnreadable
	}
	if !tokenForms[r.profile].evidence(r, m, &c) {
		return jwtClaims{}, invalid("The token is not an access token.")
	}
	held, _ := r.granted(m)
	c.Scope = r.mapped(c.Scope, held)
	return c, nil
}

// client returns the client of a token.
func (r *tokenRules) client(m members) (string, error) {
	var client string
	for _, name := range r.clients {
		var one string
		if err := m.read(name, &one); err != nil {
			return "", err
		}
		if client != "" && one != "" && one != client {
			return "", errors.New("the token names two clients")
		}
		if one != "" {
			client = one
		}
	}
	return client, nil
}

// scope returns the scopes of a token.
func (r *tokenRules) scope(m members) (string, error) {
	for _, name := range r.scopes {
		if m.has(name) {
			return r.scopesIn(m, name)
		}
	}
	return "", nil
}

// scopesIn returns the scopes in a claim as RFC 6749 section 3.3 writes them. The claim is such a
// string, or where the rules allow it an array with one scope in each string.
func (r *tokenRules) scopesIn(m members, name string) (string, error) {
	var list []string
	if r.lists && m.read(name, &list) == nil {
		return strings.Join(slices.DeleteFunc(list, func(s string) bool { return !metadata.ValidScope(s) }), " "), nil
	}
	var text string
	err := m.read(name, &text)
	return text, err
}
