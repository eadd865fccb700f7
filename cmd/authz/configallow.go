package main

import (
	"github.com/goccy/go-yaml"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
)

// groupsIn reads the mapping groups, from names of groups to lists of people.
func groupsIn(d *settings.Document) (map[string][]string, error) {
	f, ok := d.Values["groups"]
	if !ok {
		return nil, nil
	}
	groups, lines := map[string][]string{}, map[string]int{}
	for _, pair := range d.Pairs(f, "groups") {
		if first, twice := lines[pair.Key]; twice {
			d.Fail(pair.Line, "%s is set twice, the first time in line %d", pair.Key, first)
			continue
		}
		lines[pair.Key] = pair.Line
		groups[pair.Key] = d.Texts(pair.Field, pair.Key)
	}
	return groups, d.Mistakes()
}

// allowIn reads who may use a resource or have a scope. An empty list stays one, so that it is
// refused: it would let everybody in.
func allowIn(d *settings.Document, f settings.Field) authz.Allow {
	var a authz.Allow
	before := d.Failures()
	keys := d.Section(f, "allow", []string{"groups", "people"})
	for key, target := range map[string]*[]string{"groups": &a.Groups, "people": &a.People} {
		if value, ok := keys[key]; ok {
			*target = append([]string{}, d.Texts(value, key)...)
		}
	}
	if len(keys) == 0 && d.Failures() == before {
		d.Fail(f.Line, "allow names nobody: give groups or people, or leave it out for everybody")
	}
	return a
}

// scopeIn reads one scope: its description, or a mapping.
func scopeIn(d *settings.Document, pair settings.Pair) authz.Scope {
	scope := authz.Scope{Name: pair.Key}
	if !pair.Mapping() {
		scope.Description = d.Text(pair.Field, pair.Key)
		return scope
	}
	keys := d.Section(pair.Field, "scope "+pair.Key, []string{"description", "allow"})
	if text, ok := keys["description"]; ok {
		scope.Description = d.Text(text, "description")
	} else {
		d.Fail(pair.Line, "the scope %s needs the key \"description\": people read it when they decide", pair.Key)
	}
	if allow, ok := keys["allow"]; ok {
		scope.Allow = allowIn(d, allow)
	}
	return scope
}

// describeScope returns a scope as a file has it.
func describeScope(s authz.Scope) any {
	allow := describeAllow(s.Allow)
	if allow == nil {
		return s.Description
	}
	return append(yaml.MapSlice{{Key: "description", Value: s.Description}}, allow...)
}

// describeAllow returns the item allow of a file, none for everybody.
func describeAllow(a authz.Allow) []yaml.MapItem {
	var keys yaml.MapSlice
	if len(a.Groups) > 0 {
		keys = append(keys, yaml.MapItem{Key: "groups", Value: a.Groups})
	}
	if len(a.People) > 0 {
		keys = append(keys, yaml.MapItem{Key: "people", Value: a.People})
	}
	if keys == nil {
		return nil
	}
	return []yaml.MapItem{{Key: "allow", Value: keys}}
}
