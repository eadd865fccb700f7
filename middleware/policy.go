package middleware

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"gatehouse.example/internal/wildcard"
)

// Policy says which scopes the operations of a server need. An operation needs all that
// any part of the policy says. A part with names is complete: once Tools names a tool, a
// tool that it does not name is refused, whatever the token covers.
//
// Names are patterns, in which "*" stands for any characters. Of several that fit, the one
// with the most other characters counts; "*" alone is for all that no other one fits.
type Policy struct {
	// Scopes are what every request needs.
	Scopes []string
	// Methods is what messages with a method need, such as "tools/call" or
	// "notifications/*". A method that is not named needs nothing by its name.
	Methods map[string][]string
	// Tools is what calling a tool needs, by its name.
	Tools map[string][]string
	// Prompts is what getting a prompt, or completions for one, needs, by its name.
	Prompts map[string][]string
	// Resources is what reading, watching or completing a resource needs, by its URI. A URI
	// has many spellings: it needs what is said about each reading that a handler could take,
	// as it is written, normalised, decoded and resolved, and all of them must be named. Write
	// patterns as the handler spells its URIs.
	Resources map[string][]string
	// Implies says which scopes a scope includes: with "notes:admin" implying
	// "notes:write", a token that has the first needs not have the second. Implied scopes
	// imply further ones.
	Implies map[string][]string
	// Listing says which tools, prompts and resources the lists of the server show.
	Listing Listing
}

// Listing says which of the items that the policy knows appear in lists.
type Listing int

const (
	// ListAcquirable shows what the token covers, and what the client can get a token for:
	// such an item says in its _meta which scopes are missing, at [MissingScopesKey].
	ListAcquirable Listing = iota
	// ListGranted shows only what the token covers.
	ListGranted
	// ListAll leaves lists as they are.
	ListAll
)

// MissingScopesKey is where a listed item that the token does not cover says what it
// needs besides: an array of scopes.
const MissingScopesKey = "example.gatehouse/missing-scopes"

// ReadsMessages reports whether the policy has names, so that messages are read.
func (p *Policy) ReadsMessages() bool {
	return len(p.Methods) > 0 || len(p.Tools) > 0 || len(p.Prompts) > 0 || len(p.Resources) > 0
}

// AllScopes returns every scope that some operation needs, in order.
func (p *Policy) AllScopes() []string {
	all := slices.Clone(p.Scopes)
	for _, part := range []map[string][]string{p.Methods, p.Tools, p.Prompts, p.Resources} {
		for _, scopes := range part {
			all = append(all, scopes...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (p *Policy) validate() error {
	var errs []error
	check := func(part string, rules map[string][]string) {
		for name, scopes := range rules {
			if name == "" {
				errs = append(errs, fmt.Errorf("policy: %s: a name is empty", part))
			}
			for _, scope := range scopes {
				if err := validScope(scope); err != nil {
					errs = append(errs, fmt.Errorf("policy: %s: %s: %w", part, name, err))
				}
			}
		}
	}
	check("scopes", map[string][]string{"every request": p.Scopes})
	check("methods", p.Methods)
	for name := range p.Methods {
		if err := ValidMethodPattern(name); name != "" && err != nil {
			errs = append(errs, fmt.Errorf("policy: methods: %s: %w", name, err))
		}
	}
	check("tools", p.Tools)
	check("prompts", p.Prompts)
	check("resources", p.Resources)
	check("implies", p.Implies)
	for scope := range p.Implies {
		errs = append(errs, validScope(scope))
	}
	if p.Listing < ListAcquirable || p.Listing > ListAll {
		errs = append(errs, fmt.Errorf("policy: there is no listing %d", p.Listing))
	}
	return errors.Join(errs...)
}

// policy is a Policy that is ready for use.
type policy struct {
	scopes                             []string
	methods, tools, prompts, resources rules
	folded                             *wildcard.Set       // the methods, as others may read them
	implied                            map[string][]string // a scope and all that it includes
	listing                            Listing
	reads                              bool // whether messages are looked at
}

func newPolicy(p Policy) *policy {
	out := &policy{
		scopes:  once(p.Scopes),
		methods: newRules(p.Methods), tools: newRules(p.Tools), prompts: newRules(p.Prompts), resources: newURIRules(p.Resources),
		implied: closure(p.Implies), listing: p.Listing, reads: p.ReadsMessages(),
	}
	out.folded = foldPatterns(out.methods)
	return out
}

// needs returns the scopes that a message needs. It is false for one that names something
// which the policy does not name.
func (p *policy) needs(w *wildcard.Work, op operation) ([]string, bool) {
	out := p.scopes
	if more, ok := p.methods.find(w, op.Method); ok {
		out = union(out, more)
	}
	part := p.part(op.kind)
	if len(part) == 0 {
		return out, true
	}
	for _, name := range op.names {
		find := part.find
		if op.kind == resourceURI {
			find = part.findURI
		}
		more, ok := find(w, name)
		if !ok {
			return nil, false
		}
		out = union(out, more)
	}
	return out, true
}

// part is the rules for one kind of names.
func (p *policy) part(k kind) rules {
	switch k {
	case tool:
		return p.tools
	case prompt:
		return p.prompts
	case resourceURI:
		return p.resources
	}
	return nil
}

// effective returns granted scopes and all that they imply.
func (p *policy) effective(granted []string) []string {
	if len(p.implied) == 0 {
		return granted
	}
	out := slices.Clone(granted)
	for _, scope := range granted {
		for _, implied := range p.implied[scope] {
			if !slices.Contains(out, implied) {
				out = append(out, implied)
			}
		}
	}
	return out
}

// closure returns, for every scope that implies others, all that it covers.
func closure(implies map[string][]string) map[string][]string {
	out := make(map[string][]string, len(implies))
	for scope := range implies {
		seen := map[string]bool{scope: true}
		queue := []string{scope}
		for len(queue) > 0 {
			for _, implied := range implies[queue[0]] {
				if !seen[implied] {
					seen[implied], queue = true, append(queue, implied)
				}
			}
			queue = queue[1:]
		}
		out[scope] = slices.Sorted(maps.Keys(seen))
	}
	return out
}

// union returns the scopes of both lists once each, in the order in which they come. It
// may return one of the lists.
func union(a, b []string) []string {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return b
	}
	out := slices.Clone(a)
	for _, scope := range b {
		if !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out
}

// once returns the scopes of a list once each.
func once(list []string) []string {
	var out []string
	for _, scope := range list {
		if !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out
}
