package middleware

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4/json"
)

// ScopeRule grants scopes to the tokens of an issuer that have a value in a claim, such as a role,
// a group or a permission. See [Issuer.ScopeMap].
type ScopeRule struct {
	// Claim is where the value is: the name of a claim, then the names of members within it. The
	// roles of a Keycloak realm are at {"realm_access", "roles"}, those of one of its clients at
	// {"resource_access", "notes", "roles"}, and a claim that is called
	// https://example.com/roles is {"https://example.com/roles"}: names are never split.
	Claim []string
	// Value is the value that grants the scopes, byte for byte. The claim is such a string, an array
	// that has it, or an object with a member of this name that is itself an object, as Zitadel
	// writes roles. A claim that holds the scopes of the token is read as such.
	Value string
	// Scopes are granted.
	Scopes []string
}

// maxClaimPath is the maximum number of names in [ScopeRule.Claim].
const maxClaimPath = 8

// validScopeMap finds mistakes in [Issuer.ScopeMap].
func (i *Issuer) validScopeMap() error {
	var errs []error
	for at, rule := range i.ScopeMap {
		if err := rule.validate(); err != nil {
			errs = append(errs, fmt.Errorf("rule %d of ScopeMap: %w", at+1, err))
		}
	}
	return errors.Join(errs...)
}

func (r *ScopeRule) validate() error {
	switch {
	case len(r.Claim) == 0 || slices.Contains(r.Claim, ""):
		return errors.New("the claim has no name")
	case len(r.Claim) > maxClaimPath:
		return fmt.Errorf("the claim has more than %d names", maxClaimPath)
	case slices.Contains(ownClaims, r.Claim[0]):
		return fmt.Errorf("the claim %q holds no roles", r.Claim[0])
	case r.Value == "":
		return errors.New("the value is empty")
	case len(r.Scopes) == 0:
		return errors.New("it grants no scopes")
	}
	for _, scope := range r.Scopes {
		if err := validScope(scope); err != nil {
			return err
		}
	}
	return nil
}

// scopeMap is an [Issuer.ScopeMap] that is ready for use.
type scopeMap struct {
	rules []ScopeRule
	ruled []string // the scopes that a rule names: only the rules grant them
}

func newScopeMap(rules []ScopeRule) scopeMap {
	var out scopeMap
	for _, rule := range rules {
		rule.Claim, rule.Scopes = slices.Clone(rule.Claim), slices.Clone(rule.Scopes)
		out.rules, out.ruled = append(out.rules, rule), union(out.ruled, rule.Scopes)
	}
	return out
}

// granted returns the scopes that the rules grant, and the scopes of the rules whose claim is there.
func (r *tokenRules) granted(m members) (held, said []string) {
	for _, rule := range r.mapping.rules {
		if !m.has(rule.Claim[0]) {
			continue
		}
		said = union(said, rule.Scopes)
		if r.grants(&rule, m) {
			held = union(held, rule.Scopes)
		}
	}
	return held, said
}

// mapped returns the scopes of a token: its own but for those that a rule names, and those that the
// rules grant.
func (r *tokenRules) mapped(scope string, held []string) string {
	if len(r.mapping.rules) == 0 {
		return scope
	}
	own := slices.DeleteFunc(splitScope(scope), func(s string) bool { return slices.Contains(r.mapping.ruled, s) })
	return strings.Join(append(own, once(held)...), " ")
}

// grants reports whether a token has the value of a rule.
func (r *tokenRules) grants(rule *ScopeRule, m members) bool {
	last := len(rule.Claim) - 1
	if last == 0 && slices.Contains(r.scopes, rule.Claim[0]) {
		text, err := r.scopesIn(m, rule.Claim[0])
		return err == nil && slices.Contains(splitScope(text), rule.Value)
	}
	for _, name := range rule.Claim[:last] {
		var inner members
		if m.read(name, &inner) != nil {
			return false
		}
		m = inner
	}
	raw, ok := m[rule.Claim[last]]
	return ok && holds(raw, rule.Value)
}

// holds reports whether a claim has a value, see [ScopeRule.Value].
func holds(claim json.RawMessage, value string) bool {
	var list []json.RawMessage
	var inner members
	switch {
	case json.Unmarshal(claim, &list) == nil:
		return slices.ContainsFunc(list, func(one json.RawMessage) bool { return isText(one, value) })
	case json.Unmarshal(claim, &inner) == nil:
		var object members
		return inner.read(value, &object) == nil && object != nil
	}
	return isText(claim, value)
}

// isText reports whether JSON is a string, and this one.
func isText(raw json.RawMessage, value string) bool {
	var text *string
	return json.Unmarshal(raw, &text) == nil && text != nil && *text == value
}

// readAnswer reads an introspection response, and applies the rules of the issuer to it.
func (r *tokenRules) readAnswer(body []byte) (answer, error) {
	a, err := readAnswer(body)
	if err != nil || !a.Active || len(r.mapping.rules) == 0 {
		return a, err
	}
	m, err := readMembers(string(body))
	if err != nil {
		return answer{}, errAnswer
	}
	held, said := r.granted(m)
	a.Scope, a.ruled = r.mapped(a.Scope, held), r.mapping.ruled
	for _, scope := range a.ruled {
		if !slices.Contains(said, scope) {
			a.silent = append(a.silent, scope)
		}
	}
	return a, nil
}

// keeps reports whether a response leaves a scope to its token. Of a scope that a rule names, the
// claims of the rule decide if the response has one of them, and never its "scope".
func (a *answer) keeps(scope string) bool {
	if slices.Contains(a.ruled, scope) {
		return slices.Contains(a.silent, scope) || slices.Contains(splitScope(a.Scope), scope)
	}
	return !a.scoped || slices.Contains(splitScope(a.Scope), scope)
}

// ruledByAll returns the scopes that no client gets by asking for them: a rule of each issuer that
// clients are sent to names them.
func (c *Config) ruledByAll() []string {
	var out []string
	for at, url := range c.announced() {
		var ruled []string
		for _, one := range c.issuers() {
			if one.URL == url {
				ruled = newScopeMap(one.ScopeMap).ruled
			}
		}
		if at == 0 {
			out = ruled
		}
		out = slices.DeleteFunc(out, func(s string) bool { return !slices.Contains(ruled, s) })
	}
	return out
}

// askable returns the scopes that a client without a token can get by asking for them.
func (g *Guard) askable(scopes []string) []string {
	return without(scopes, g.ruled)
}

// without returns the scopes of a list that are not in another, nil if there are none.
func without(scopes, others []string) []string {
	var out []string
	for _, scope := range scopes {
		if !slices.Contains(others, scope) {
			out = append(out, scope)
		}
	}
	return out
}

// unaskable reports whether one of the scopes comes from roles alone, so that the client of the
// token, or of a request without one, does not get it by asking.
func (g *Guard) unaskable(token *Token, scopes []string) bool {
	ruled := g.ruled
	if token != nil {
		ruled = token.ruled
	}
	return slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(ruled, s) })
}

// uncovered returns the refusal of an operation that the token does not cover. There is no challenge
// if a role is missing: a client would ask for the scope, get a token without it, and begin again.
func (g *Guard) uncovered(token *Token, needed []string) challenge {
	if g.unaskable(token, token.missing(needed)) {
		return forbidden("This needs a role that the account does not have.")
	}
	return insufficient(without(needed, token.ruled))
}
