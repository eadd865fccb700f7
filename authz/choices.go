package authz

import (
	"slices"

	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// askedBy returns what a transaction asks for, limited to what there still is.
func (s *resourceSet) askedBy(t storage.Transaction) storage.Access {
	return s.served(s.lasting(t.Asked(s.defines), t.Created))
}

// choice is one checkbox on the consent page: a scope of a resource, or a resource without
// scopes. A single resource without scopes has no checkbox.
type choice struct{ resource, scope string }

// choicesOf returns the choices of an access, resource by resource.
func choicesOf(asked storage.Access) []choice {
	var all []choice
	for _, p := range asked {
		if len(p.Scopes) == 0 {
			all = append(all, choice{resource: p.Resource})
		}
		for _, scope := range p.Scopes {
			all = append(all, choice{p.Resource, scope})
		}
	}
	return all
}

// value returns the value of the checkbox of a choice: with one resource the scope, and with
// several the resource, followed by a space and the scope if there is one. Neither a
// canonical URI nor the name of a scope can contain a space. The value is empty if there is
// no checkbox.
func (c choice) value(asked storage.Access) string {
	switch {
	case len(asked) == 1:
		return c.scope
	case c.scope == "":
		return c.resource
	}
	return c.resource + " " + c.scope
}

// choose returns the ticked part of asked. A resource without a ticked box is left out. The
// problem is a sentence for the person.
func choose(asked storage.Access, ticked []string) (allowed storage.Access, problem language.Text) {
	foreign := slices.Clone(ticked)
	for _, c := range choicesOf(asked) {
		value := c.value(asked)
		if value == "" || slices.Contains(ticked, value) {
			allowed = add(allowed, c)
			foreign = slices.DeleteFunc(foreign, func(v string) bool { return v == value })
		}
	}
	switch {
	case len(foreign) > 0:
		return nil, language.Say("consent.foreign")
	case len(allowed) == 0:
		return nil, language.Say("consent.nothing")
	}
	return allowed, language.Text{}
}

// add appends a choice to an access. Choices of one resource must follow each other.
func add(a storage.Access, c choice) storage.Access {
	if len(a) == 0 || a[len(a)-1].Resource != c.resource {
		a = append(a, storage.Permission{Resource: c.resource})
	}
	if last := &a[len(a)-1]; c.scope != "" {
		last.Scopes = append(last.Scopes, c.scope)
	}
	return a
}

// groups returns what the consent page shows of an access: one group per resource, with its boxes ticked
// or not.
func (s *resourceSet) groups(asked storage.Access, ticked bool) []templates.Group {
	var groups []templates.Group
	for _, p := range asked {
		resource, _ := s.find(p.Resource)
		g := templates.Group{Resource: templates.Resource{URI: resource.URI, Name: resource.Name}}
		for _, c := range choicesOf(storage.Access{p}) {
			g.Boxes = append(g.Boxes, templates.Box{Value: c.value(asked), Name: c.scope, Description: resource.describe(c.scope), Whole: resource.whole(c.scope), Checked: ticked})
		}
		groups = append(groups, g)
	}
	return groups
}

// describe returns the operator's sentence for a scope.
func (r Resource) describe(scope string) string {
	for _, s := range r.Scopes {
		if s.Name == scope {
			return s.Description
		}
	}
	return ""
}

// whole returns the sentence for a resource without scopes, no text if there is a scope.
func (r Resource) whole(scope string) language.Text {
	switch {
	case scope != "":
		return language.Text{}
	case len(r.Scopes) > 0:
		return language.Say("consent.withoutPermission")
	}
	return language.Say("consent.whatever")
}
