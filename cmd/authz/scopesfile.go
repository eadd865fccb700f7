package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
)

// scopeRules is the content of a file of scopes, such as docs/examples/scopes.yaml.
type scopeRules struct {
	policy    middleware.Policy
	supported []string // for the metadata
	challenge []string // for clients without a token; nil for all supported scopes
}

// scopeKeys are the keys of the file.
var scopeKeys = []string{"scopes", "methods", "tools", "prompts", "resources", "routes", "implies", "listing", "challenge-scopes", "scopes-supported"}

// listings are the values of the key listing.
var listings = map[string]middleware.Listing{"acquirable": middleware.ListAcquirable, "granted": middleware.ListGranted, "all": middleware.ListAll}

// readScopes reads a file of scopes and returns every mistake, with its line. A file without a key is
// a mistake: somebody may be writing it, and without rules every valid token may do everything.
func readScopes(name string, data []byte) (scopeRules, error) {
	d, err := settings.ReadDocument(name, data, scopeKeys)
	if d == nil {
		return scopeRules{}, err
	}
	if err == nil && len(d.Values) == 0 {
		return scopeRules{}, fmt.Errorf("%s: there are no rules: write some, or leave out the setting if every valid token may do everything", name)
	}
	out := scopeRulesIn(d, d.Values)
	return out, errors.Join(err, d.Mistakes())
}

// scopeRulesIn reads the keys of a file of scopes, or of a mapping with the same keys in another
// file.
func scopeRulesIn(d *settings.Document, values map[string]settings.Field) scopeRules {
	var named []string // in the order of the file
	part := func(key string) map[string][]string {
		f, ok := values[key]
		if !ok {
			return nil
		}
		return scopesByNameIn(d, f, key, &named)
	}
	list := func(key string) []string {
		f, ok := values[key]
		if !ok {
			return nil
		}
		return scopeListIn(d, f, key)
	}
	out := scopeRules{policy: middleware.Policy{Scopes: list("scopes")}, challenge: list("challenge-scopes")}
	named = slices.Clone(out.policy.Scopes)
	out.policy.Methods, out.policy.Tools, out.policy.Prompts, out.policy.Resources = part("methods"), part("tools"), part("prompts"), part("resources")
	out.policy.Routes, out.policy.Implies = part("routes"), part("implies")
	named = append(named, implyingIn(d, values["implies"])...)
	if f, ok := values["listing"]; ok {
		out.policy.Listing = listingIn(d, f)
	}
	if out.supported = list("scopes-supported"); out.supported == nil {
		out.supported = unique(append(named, out.challenge...))
	}
	return out
}

// scopesByNameIn reads a mapping from names to scopes, and appends the scopes to named.
func scopesByNameIn(d *settings.Document, f settings.Field, what string, named *[]string) map[string][]string {
	if braced, filled := f.Braced(); braced && filled {
		d.Fail(f.Line, "%s must not be in braces: write each name on a line of its own", what) // the parser would cut notes:read at its colon
		return nil
	}
	out := map[string][]string{}
	lines := map[string]int{}
	for _, pair := range d.Pairs(f, what) {
		if first, twice := lines[pair.Key]; twice {
			d.Fail(pair.Line, "%s is set twice, the first time in line %d", pair.Key, first)
			continue
		}
		if pair.Key == "" {
			d.Fail(pair.Line, "%s: a name is empty", what)
		} else if err := middleware.ValidMethodPattern(pair.Key); what == "methods" && err != nil {
			d.Fail(pair.Line, "methods: %s: %v", pair.Key, err)
		}
		lines[pair.Key] = pair.Line
		out[pair.Key] = scopeListIn(d, pair.Field, pair.Key)
		*named = append(*named, out[pair.Key]...)
	}
	return out
}

// implyingIn returns the scopes that imply others, in the order of the file.
func implyingIn(d *settings.Document, implies settings.Field) []string {
	var out []string
	for _, entry := range implies.Entries() {
		if !resourceScope(entry.Key) {
			d.Fail(entry.Line, "%q is not a scope of a resource", entry.Key)
		}
		out = append(out, entry.Key)
	}
	return out
}

// scopeListIn reads scopes: a list, or a single value with spaces between them. No value is a
// mistake; an operation that needs no scope has the value [].
func scopeListIn(d *settings.Document, f settings.Field, key string) []string {
	if f.Null() {
		d.Fail(f.Line, "%s has no value: name scopes, or write [] if every valid token is enough", key)
		return nil
	}
	out := []string{}
	for _, text := range d.OneOrMore(f, key) {
		for scope := range strings.FieldsSeq(text) {
			if !resourceScope(scope) {
				d.Fail(f.Line, "%s: %q is not a scope of a resource", key, scope)
			}
			out = append(out, scope)
		}
	}
	return out
}

func resourceScope(s string) bool { return metadata.ValidScope(s) && s != "offline_access" }

func listingIn(d *settings.Document, f settings.Field) middleware.Listing {
	text := d.Text(f, "listing")
	listing, ok := listings[text]
	if !ok {
		d.Fail(f.Line, "listing %q is not known: it is acquirable, granted or all", text)
	}
	return listing
}

// unique returns the scopes without repetitions, in their order.
func unique(scopes []string) []string {
	var out []string
	for _, scope := range scopes {
		if !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out
}
