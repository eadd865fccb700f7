package schema

import (
	"iter"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// inPlace returns the subschemas that apply to the same value as s does.
func inPlace(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		subs := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
		if s.DynamicRef != nil {
			subs = append(subs, s.DynamicRef.Ref)
		}
		subs = append(append(append(subs, s.AllOf...), s.AnyOf...), s.OneOf...)
		for _, sub := range s.DependentSchemas {
			subs = append(subs, sub)
		}
		for _, either := range s.Dependencies {
			sub, _ := either.(*jsonschema.Schema)
			subs = append(subs, sub)
		}
		for _, sub := range subs {
			if sub != nil && !yield(sub) {
				return
			}
		}
	}
}

// inside returns the subschemas that apply to members and elements. The bool is true for a
// subschema of a single member or element, and false for one that applies to all.
func inside(s *jsonschema.Schema) iter.Seq2[*jsonschema.Schema, bool] {
	return func(yield func(*jsonschema.Schema, bool) bool) {
		alone := append([]*jsonschema.Schema{}, s.PrefixItems...)
		for _, sub := range s.Properties {
			alone = append(alone, sub)
		}
		all := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems}
		for _, sub := range s.PatternProperties {
			all = append(all, sub)
		}
		for _, either := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
			switch either := either.(type) {
			case *jsonschema.Schema:
				all = append(all, either)
			case []*jsonschema.Schema:
				alone = append(alone, either...)
			}
		}
		for _, sub := range alone {
			if !yield(sub, true) {
				return
			}
		}
		for _, sub := range all {
			if sub != nil && !yield(sub, false) {
				return
			}
		}
	}
}

// reachable returns all schemas that can be reached from the given ones.
func reachable(from []*jsonschema.Schema) []*jsonschema.Schema {
	seen := map[*jsonschema.Schema]bool{}
	var all []*jsonschema.Schema
	add := func(s *jsonschema.Schema) {
		if !seen[s] {
			seen[s] = true
			all = append(all, s)
		}
	}
	for _, s := range from {
		add(s)
	}
	for i := 0; i < len(all); i++ {
		for sub := range inPlace(all[i]) {
			add(sub)
		}
		for sub := range inside(all[i]) {
			add(sub)
		}
	}
	return all
}

// loop reports whether any schema could apply to the same value again through references. The
// target of a dynamic reference depends on the value, so all possible targets count.
func loop(all []*jsonschema.Schema) bool {
	const open, done = 1, 2
	anchored, recursive := map[string][]*jsonschema.Schema{}, []*jsonschema.Schema{}
	for _, s := range all {
		if s.DynamicAnchor != "" {
			anchored[s.DynamicAnchor] = append(anchored[s.DynamicAnchor], s)
		}
		if s.RecursiveAnchor {
			recursive = append(recursive, s)
		}
	}
	state := map[*jsonschema.Schema]int{}
	var visit func(*jsonschema.Schema) bool
	visit = func(s *jsonschema.Schema) bool {
		if state[s] != 0 {
			return state[s] == open
		}
		state[s] = open
		subs := slices.Collect(inPlace(s))
		if s.DynamicRef != nil && s.DynamicRef.Anchor != "" {
			subs = append(subs, anchored[s.DynamicRef.Anchor]...)
		}
		if s.RecursiveRef != nil {
			subs = append(subs, recursive...)
		}
		if slices.ContainsFunc(subs, visit) {
			return true
		}
		state[s] = done
		return false
	}
	return slices.ContainsFunc(all, visit)
}
