package middleware

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"gatehouse.example/internal/wildcard"
)

// Policy sets the scopes that the operations of a server need. An operation needs the scopes of
// all fields that apply to it. Tools, Prompts and Resources are complete lists if they are not
// empty: once Tools has a name, a tool that matches none of its names is refused, whatever the
// token covers.
//
// Names are patterns, in which "*" stands for any characters. If several match, the one with
// the most other characters applies; "*" alone applies if no other one matches.
type Policy struct {
	// Scopes are the scopes that every request needs.
	Scopes []string
	// Methods are the scopes for messages, by their method, such as "tools/call" or
	// "notifications/*". A method without an entry needs no scope of its own.
	Methods map[string][]string
	// Tools are the scopes for calling a tool, by its name.
	Tools map[string][]string
	// Prompts are the scopes for getting a prompt, or completions for one, by its name.
	Prompts map[string][]string
	// Resources are the scopes for reading, subscribing to or completing a resource, by its
	// URI. A URI has many spellings: each reading that a handler could use, as written,
	// normalised, decoded and resolved, must match a pattern, and the operation needs the scopes
	// of all of them. Write patterns as the handler spells its URIs.
	Resources map[string][]string
	// Routes are the scopes for requests to a handler that is no server of the protocol, by method
	// and path, in patterns of [http.ServeMux] without a host: "GET /notes/{id}". The closest
	// pattern applies, GET has HEAD, and once there is one, what no pattern matches is refused.
	// Paths are those that the guard gets. A request also needs the scopes of the patterns that
	// match its path in another case, with or without a slash at its end, and without the ending of
	// its last name, because some servers treat these as equal. A path that servers read
	// differently is refused with 400. It excludes Methods, Tools, Prompts and Resources, no body
	// is read, and no session is bound.
	Routes map[string][]string
	// Implies are the scopes that a scope includes. If "notes:admin" implies "notes:write", a
	// token with the first covers operations that need the second. It is transitive.
	Implies map[string][]string
	// Listing selects the tools, prompts and resources that lists of the server show.
	Listing Listing
}

// Listing selects the items that appear in lists. It does not apply to kinds of items without
// names in the policy.
type Listing int

const (
	// ListAcquirable shows the items that the token covers, and those that the client can get a
	// token for. The missing scopes of these are in the _meta of the result at [MissingScopesKey].
	ListAcquirable Listing = iota
	// ListGranted shows only the items that the token covers. Use it when the names of other
	// items are confidential.
	ListGranted
	// ListAll leaves lists as they are. Use it when the handler filters its lists itself.
	ListAll
)

// MissingScopesKey is the key in the _meta of a result with a list for the items that the token
// does not cover: an object that has, for the name or URI of each, an array of the scopes that
// the token lacks. The items themselves do not depend on the token.
const MissingScopesKey = "example.gatehouse/missing-scopes"

// ReadsMessages reports whether the policy has names, so that the guard reads messages.
func (p *Policy) ReadsMessages() bool {
	return len(p.Methods) > 0 || len(p.Tools) > 0 || len(p.Prompts) > 0 || len(p.Resources) > 0
}

// AllScopes returns every scope that some operation needs, sorted.
func (p *Policy) AllScopes() []string {
	all := slices.Clone(p.Scopes)
	for _, part := range []map[string][]string{p.Methods, p.Tools, p.Prompts, p.Resources, p.Routes} {
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
	check("routes", p.Routes)
	errs = append(errs, p.validRoutes())
	check("implies", p.Implies)
	for scope := range p.Implies {
		errs = append(errs, validScope(scope))
	}
	if p.Listing < ListAcquirable || p.Listing > ListAll {
		errs = append(errs, fmt.Errorf("policy: the listing %d is not known", p.Listing))
	}
	return errors.Join(errs...)
}

// policy is a Policy that is ready for use.
type policy struct {
	scopes                             []string
	methods, tools, prompts, resources rules
	routes                             *routes             // nil without any
	folded                             *wildcard.Set       // the patterns of methods after foldMethod
	implied                            map[string][]string // a scope and all scopes that it includes
	listing                            Listing
	reads                              bool // whether the guard reads messages
}

func newPolicy(p Policy) *policy {
	out := &policy{
		scopes:  once(p.Scopes),
		methods: newRules(p.Methods), tools: newRules(p.Tools), prompts: newRules(p.Prompts), resources: newURIRules(p.Resources),
		implied: closure(p.Implies), listing: p.Listing, reads: p.ReadsMessages(),
	}
	out.folded = foldPatterns(out.methods)
	out.routes, _ = newRoutes(p.Routes) // validate has found every mistake
	return out
}

// needs returns the scopes that an operation needs. It returns false for a name that a part of
// the policy with names does not have.
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

// part returns the rules for a kind of names.
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

// effective returns the granted scopes and all scopes that they imply.
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

// closure returns, for every scope that implies others, all scopes that it covers.
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

// union returns the scopes of both lists without duplicates, in their order. It may return one
// of the lists.
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

// once returns the scopes of a list without duplicates.
func once(list []string) []string {
	var out []string
	for _, scope := range list {
		if !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out
}
