package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
)

// scopeRules are what a file of scopes says. docs/examples/scopes.yaml is one.
type scopeRules struct {
	policy    middleware.Policy
	supported []string // for the metadata
	challenge []string // for clients without a token; nil for all that are supported
}

// scopeKeys are the keys of the file.
var scopeKeys = []string{"scopes", "methods", "tools", "prompts", "resources", "implies", "listing", "challenge-scopes", "scopes-supported"}

// listings are the values of the key listing.
var listings = map[string]middleware.Listing{"acquirable": middleware.ListAcquirable, "granted": middleware.ListGranted, "all": middleware.ListAll}

// readScopes reads a file of scopes and returns every mistake, with its line.
func readScopes(name string, data []byte) (scopeRules, error) {
	d, err := readDocument(name, data, scopeKeys)
	if d == nil {
		return scopeRules{}, err
	}
	var named []string // in the order of the file
	part := func(key string) map[string][]string {
		f, ok := d.values[key]
		if !ok {
			return nil
		}
		return d.scopesByName(f, key, &named)
	}
	list := func(key string) []string {
		f, ok := d.values[key]
		if !ok {
			return nil
		}
		return d.scopeList(f, key)
	}
	out := scopeRules{policy: middleware.Policy{Scopes: list("scopes")}, challenge: list("challenge-scopes")}
	named = slices.Clone(out.policy.Scopes)
	out.policy.Methods, out.policy.Tools, out.policy.Prompts, out.policy.Resources = part("methods"), part("tools"), part("prompts"), part("resources")
	out.policy.Implies = part("implies")
	named = append(named, d.implying()...)
	if f, ok := d.values["listing"]; ok {
		out.policy.Listing = d.listing(f)
	}
	if out.supported = list("scopes-supported"); out.supported == nil {
		out.supported = unique(append(named, out.challenge...))
	}
	return out, errors.Join(err, d.mistakes())
}

// scopesByName reads a mapping from names to scopes, and adds the scopes to those that are
// named anywhere.
func (d *document) scopesByName(f field, what string, named *[]string) map[string][]string {
	if mapping, ok := f.node.(*ast.MappingNode); ok && mapping.IsFlowStyle && len(mapping.Values) > 0 {
		d.fail(f.line, "%s must not be in braces: write each name on a line of its own", what) // the parser would cut notes:read at its colon
		return nil
	}
	out := map[string][]string{}
	lines := map[string]int{}
	for _, pair := range d.pairs(f, what) {
		if first, twice := lines[pair.key]; twice {
			d.fail(pair.line, "%s is set twice, the first time in line %d", pair.key, first)
			continue
		}
		if pair.key == "" {
			d.fail(pair.line, "%s: a name is empty", what)
		} else if err := middleware.ValidMethodPattern(pair.key); what == "methods" && err != nil {
			d.fail(pair.line, "methods: %s: %v", pair.key, err)
		}
		lines[pair.key] = pair.line
		out[pair.key] = d.scopeList(pair.field, pair.key)
		*named = append(*named, out[pair.key]...)
	}
	return out
}

// implying returns the scopes that imply others, in their order.
func (d *document) implying() []string {
	mapping, ok := d.values["implies"].node.(*ast.MappingNode)
	if !ok {
		return nil
	}
	var out []string
	for _, entry := range mapping.Values {
		if key, ok := entry.Key.(*ast.StringNode); ok {
			if !resourceScope(key.Value) {
				d.fail(entry.Key.GetToken().Position.Line, "%q is not a scope of a resource", key.Value)
			}
			out = append(out, key.Value)
		}
	}
	return out
}

// scopeList reads scopes: a list, or a single value with spaces between them. None at all
// must be said.
func (d *document) scopeList(f field, key string) []string {
	if _, nothing := f.node.(*ast.NullNode); nothing || f.node == nil {
		d.fail(f.line, "%s has no value: name scopes, or write [] if every valid token will do", key)
		return nil
	}
	out := []string{}
	for _, text := range d.oneOrMore(f, key) {
		for scope := range strings.FieldsSeq(text) {
			if !resourceScope(scope) {
				d.fail(f.line, "%s: %q is not a scope of a resource", key, scope)
			}
			out = append(out, scope)
		}
	}
	return out
}

func resourceScope(s string) bool { return metadata.ValidScope(s) && s != "offline_access" }

func (d *document) listing(f field) middleware.Listing {
	text := d.text(f, "listing")
	listing, ok := listings[text]
	if !ok {
		d.fail(f.line, "listing %q is not known: it is acquirable, granted or all", text)
	}
	return listing
}

// unique returns every scope once, in the order in which they come.
func unique(scopes []string) []string {
	var out []string
	for _, scope := range scopes {
		if !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out
}
