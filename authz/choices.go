package authz

import (
	"slices"

	"gatehouse.example/storage"
	"gatehouse.example/templates"
)

// asked is what a transaction asks for, as far as it is configured still. The consent page
// shows this value, and what is ticked of it is granted.
func (s *Server) asked(t storage.Transaction) storage.Access {
	return s.resources.served(t.Asked(s.resources.defines))
}

// choice is one thing on the consent page that can be ticked: a scope of a resource, or a
// resource without scopes. A sole resource without scopes has nothing to tick.
type choice struct{ resource, scope string }

// choicesOf lists what can be ticked of an access, resource by resource.
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

// value is what the checkbox of a choice sends. With one resource it is the scope. With
// several it is the resource and, behind a space, the scope: neither a canonical URI nor
// the name of a scope can hold a space. It is empty if there is nothing to tick.
func (c choice) value(asked storage.Access) string {
	switch {
	case len(asked) == 1:
		return c.scope
	case c.scope == "":
		return c.resource
	}
	return c.resource + " " + c.scope
}

// choose returns the ticked part of what was asked for. A resource with nothing ticked is
// not part of it. The problem is a sentence for the person.
func choose(asked storage.Access, ticked []string) (allowed storage.Access, problem string) {
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
		return nil, "Something was ticked that is not on this page. Look at what is asked for, and choose again."
	case len(allowed) == 0:
		return nil, "Choose at least one permission, or decline."
	}
	return allowed, ""
}

// add puts a choice into an access that is made in order.
func add(a storage.Access, c choice) storage.Access {
	if len(a) == 0 || a[len(a)-1].Resource != c.resource {
		a = append(a, storage.Permission{Resource: c.resource})
	}
	if last := &a[len(a)-1]; c.scope != "" {
		last.Scopes = append(last.Scopes, c.scope)
	}
	return a
}

// groups is what people see of an access: one group per resource.
func (s *Server) groups(asked storage.Access) []templates.Group {
	var groups []templates.Group
	for _, p := range asked {
		resource := s.resources.byURI[p.Resource]
		g := templates.Group{Resource: templates.Resource{URI: resource.URI, Name: resource.Name}}
		for _, c := range choicesOf(storage.Access{p}) {
			g.Boxes = append(g.Boxes, templates.Box{Value: c.value(asked), Name: c.scope, Description: resource.describe(c.scope), Checked: true})
		}
		groups = append(groups, g)
	}
	return groups
}

// describe is the sentence for a scope, or for the resource when no scope is asked for.
func (r Resource) describe(scope string) string {
	for _, s := range r.Scopes {
		if s.Name == scope {
			return s.Description
		}
	}
	if len(r.Scopes) > 0 {
		return "Whatever you may do there that takes no permission"
	}
	return "Whatever you may do there"
}
