package authz

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/authz/upstream"
)

// AbsentPerson is a person in a rule about people who comes from a provider that there is not.
type AbsentPerson struct {
	// Person is the name, Resources the URIs of the resources that have it.
	Person    string
	Resources []string
	// Why is a sentence for the operator, with what to do.
	Why string
}

// AbsentPeople returns the people of providers, PROVIDER/HANDLE, whom resources or their scopes name
// and whose provider is not among those that there are: nobody can sign in with such a name. Nil
// providers are not known, and then there is none. The configuration refuses such a rule (see
// [Config]); use this for resources in the store, to tell an operator. Nothing refuses those, because
// a provider may be configured later.
func AbsentPeople(providers []upstream.Provider, resources ...Resource) []AbsentPerson {
	if providers == nil {
		return nil
	}
	ids := Config{Providers: providers}.providerIDs()
	users := map[string][]string{} // of a name: the resources
	for _, r := range resources {
		for _, name := range r.people() {
			id, _, ok := account.OfProvider(name)
			if ok && !slices.Contains(ids, id) && !slices.Contains(users[name], r.URI) {
				users[name] = append(users[name], r.URI)
			}
		}
	}
	var absent []AbsentPerson
	for _, name := range slices.Sorted(maps.Keys(users)) {
		id, _, _ := account.OfProvider(name)
		absent = append(absent, AbsentPerson{Person: name, Resources: users[name], Why: noProvider(id, ids)})
	}
	return absent
}

// noProvider says that there is no provider with an id, only others.
func noProvider(id string, others []string) string {
	if len(others) == 0 {
		return "no provider is configured; list " + id + " under sign-in.providers"
	}
	return fmt.Sprintf("there is no provider %s; there are %s", id, strings.Join(others, ", "))
}

// people returns the names of people in the rules of a resource and its scopes.
func (r Resource) people() []string {
	names := slices.Clone(r.Allow.People)
	for _, scope := range r.Scopes {
		names = append(names, scope.Allow.People...)
	}
	return names
}
