package authz_test

import (
	"fmt"

	"gatehouse.example/authz"
	"gatehouse.example/authz/admin"
	"gatehouse.example/storage"
)

func (l *life) restart() bool {
	l.tell("a server starts again")
	l.h.restart()
	l.servers[l.random.IntN(len(l.servers))] = l.h.handler.Load()
	return true
}

func (l *life) chores() bool {
	l.tell("a server does its chores")
	pick(l.random, l.servers).DoChores(l.t.Context())
	return true
}

func (l *life) rotateKeys() bool {
	l.t.Helper()
	l.tell("another key signs")
	_, err := admin.RotateSigningKey(l.t.Context(), l.h.store, "ES256", true)
	l.noticed(err)
	return true
}

// change draws another rule about people, or another scope, for a resource.
func (l *life) change(r *modelResource, scope string) {
	switch _, defined := r.scopes[scope]; l.random.IntN(3) {
	case 0:
		r.allow = pick(l.random, []string{"", "", "editors", "staff"})
	case 1:
		r.scopes[pick(l.random, r.names())] = pick(l.random, []string{"", "editors", "staff"})
	default:
		if r.scopes[scope] = ""; defined && len(r.scopes) > 1 {
			delete(r.scopes, scope)
		}
	}
}

// reload changes a resource of the configuration.
func (l *life) reload() bool {
	l.t.Helper()
	uri := pick(l.random, []string{notes, tasks})
	r := l.entries[uri]
	l.change(r, map[string]string{notes: "notes:write", tasks: "tasks:write"}[uri])
	l.tell("reload: %s is for %q, with scopes %v", uri, r.allow, r.scopes)
	l.configure(&l.h.cfg)
	for _, server := range l.servers {
		l.must(server.Reload(l.t.Context(), l.h.cfg))
	}
	return true
}

// replaceResource changes a resource or the pattern in the store.
func (l *life) replaceResource() bool {
	l.t.Helper()
	id := pick(l.random, livesStored)
	r := l.entries[id]
	if !r.there {
		return false
	}
	l.change(r, map[string]string{wiki: "wiki:edit", tenantPattern: "tools:admin", acme: "tools:admin"}[id])
	l.tell("%s is replaced: for %q, with scopes %v", id, r.allow, r.scopes)
	l.h.add(authz.NewResource{Resource: r.configured(id), Replace: true, Disabled: r.disabled})
	l.noticed(nil)
	return true
}

// idOf returns what the verbs name a resource of the store by.
func (l *life) idOf(uri string) string {
	id, err := authz.ResourceID(uri)
	l.must(err)
	return id
}

func (l *life) switchResource() bool {
	l.t.Helper()
	id := pick(l.random, livesStored)
	r := l.entries[id]
	if !r.there {
		return false
	}
	l.tell("%s is switched, it was off: %t", id, r.disabled)
	if r.disabled {
		l.noticed(admin.EnableResource(l.t.Context(), l.h.store, l.idOf(id)))
	} else {
		l.noticed(admin.DisableResource(l.t.Context(), l.h.store, l.idOf(id)))
	}
	r.disabled = !r.disabled
	return true
}

// removeResource removes a resource or the pattern, or adds it again.
func (l *life) removeResource() bool {
	l.t.Helper()
	id := pick(l.random, livesStored)
	r := l.entries[id]
	if r.there {
		l.tell("%s is removed", id)
		r.there, r.ended = false, l.now()
		l.noticed(admin.RemoveResource(l.t.Context(), l.h.store, l.idOf(id)))
		return true
	}
	r.there, r.disabled = true, l.random.IntN(4) == 0
	l.tell("%s is added, for %q, off: %t", id, r.allow, r.disabled)
	l.h.add(authz.NewResource{Resource: r.configured(id), Disabled: r.disabled})
	l.noticed(nil)
	return true
}

func (l *life) changeGroup() bool {
	l.t.Helper()
	name, p := l.somebody()
	group := pick(l.random, livesGroups)
	if p.groups[group] {
		l.tell("%s leaves %s", name, group)
		l.must(admin.LeaveGroup(l.t.Context(), l.h.store, group, name))
	} else {
		l.tell("%s joins %s", name, group)
		l.must(admin.JoinGroup(l.t.Context(), l.h.store, group, name))
	}
	p.groups[group] = !p.groups[group]
	return true
}

func (l *life) disablePerson() bool {
	l.t.Helper()
	name, p := l.somebody()
	l.tell("%s is disabled", name)
	l.must(admin.DisableUser(l.t.Context(), l.h.store, name))
	p.disabled = true
	p.signOut(nil)
	clear(p.memory)
	return true
}

// removePerson removes a person, and adds another one of the same name.
func (l *life) removePerson() bool {
	l.t.Helper()
	name, p := l.somebody()
	l.tell("%s is removed, and somebody of that name is added", name)
	l.noticed(admin.RemoveUser(l.t.Context(), l.h.store, name))
	l.h.addPerson(name)
	p.incarnation++
	p.disabled, p.password = false, personPassword
	p.signOut(nil)
	clear(p.memory)
	clear(p.groups)
	return true
}

// changePassword is done by an operator: it ends sessions, and no grants.
func (l *life) changePassword() bool {
	l.t.Helper()
	name, p := l.somebody()
	if p.disabled {
		return false
	}
	l.tell("%s gets another password", name)
	p.password = fmt.Sprint("another password ", l.random.Uint32())
	l.must(admin.SetPassword(l.t.Context(), l.h.store, name, p.password))
	p.signOut(nil)
	return true
}

func (l *life) disableClient() bool {
	l.t.Helper()
	c, client := l.someClient()
	if !client.usable() {
		return false
	}
	l.tell("%s is disabled", c.ID)
	l.noticed(admin.DisableClient(l.t.Context(), l.h.store, c.ID))
	client.disabled = true
	l.endClient(c.ID)
	return true
}

func (l *life) removeClient() bool {
	l.t.Helper()
	c, client := l.someClient()
	if !client.there {
		return false
	}
	l.tell("%s is removed", c.ID)
	l.noticed(admin.RemoveClient(l.t.Context(), l.h.store, c.ID))
	client.there = false
	l.endClient(c.ID)
	return true
}

func (l *life) endClient(id string) {
	l.end(func(g *modelGrant) bool { return g.client.ID == id })
	for _, p := range l.people {
		delete(p.memory, id)
	}
}

// vouch makes the native client one about which decisions are remembered, or takes that back.
func (l *life) vouch() bool {
	l.t.Helper()
	const id = "native-client"
	client := l.clients[id]
	if !client.usable() {
		return false
	}
	client.recognised = !client.recognised
	l.tell("%s is vouched for: %t", id, client.recognised)
	l.noticed(admin.VouchForClient(l.t.Context(), l.h.store, id, client.recognised))
	return true
}

// rename changes what a client states about itself: what was decided about it counts no more, and nobody
// vouches for it.
func (l *life) rename() bool {
	l.t.Helper()
	c, client := l.someClient()
	if !client.usable() {
		return false
	}
	client.states++
	l.tell("%s has another name", c.ID)
	l.h.changeClient(c.ID, func(c *storage.Client) { c.Metadata.ClientName = fmt.Sprint("Client ", client.states) })
	client.recognised = client.recognised && c.ID != "native-client"
	l.noticed(nil)
	return true
}

// revokeGrants revokes what a client has of a person.
func (l *life) revokeGrants() bool {
	l.t.Helper()
	name, p := l.somebody()
	c, client := l.someClient()
	if !client.there {
		return false
	}
	l.tell("an operator revokes what %s has of %s", c.ID, name)
	for _, err := range admin.RevokeGrants(l.t.Context(), l.h.store, admin.GrantFilter{User: name, ClientID: c.ID}) {
		l.must(err)
	}
	l.end(func(g *modelGrant) bool { return g.person == name && g.client.ID == c.ID })
	delete(p.memory, c.ID)
	return true
}
