package authz

import (
	"encoding/json"
	"slices"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/authz/internal/people"
)

// The values of [Resource.Claims].
const (
	claimGroups = "groups"
	claimEmail  = "email"
	claimName   = "name"
)

const (
	// maxTokenGroups is the greatest size of the groups in a token, as JSON in bytes. A token has
	// to fit into the headers of a request, of which servers accept 8 KiB and less.
	maxTokenGroups = 1 << 10
	// maxToldGroups is that of the groups in an answer to introspection.
	maxToldGroups = 1 << 16
	// maxTold is the greatest size of other texts about a person, in bytes.
	maxTold = 256
)

// told returns the claims that all of these resources are configured for: everybody who gets a
// token can read all of it.
func (s *resourceSet) told(resources []string) []string {
	var common []string
	for i, uri := range resources {
		claims := s.claimsOf(uri)
		if i == 0 {
			common = slices.Clone(claims)
		}
		common = slices.DeleteFunc(common, func(claim string) bool { return !contains(claims, claim) })
	}
	return common
}

// about returns what is told about a person with these claims. Groups whose list takes more than
// most bytes are left out, and it is said that they were: a part of them would look like all.
// Other texts that are too long are left out.
func about(h people.Holder, claims []string, most int) keyring.About {
	var a keyring.About
	if !h.Known || h.Gone {
		return a
	}
	if contains(claims, claimGroups) {
		a.Groups = append([]string{}, h.Groups...)
		if text, err := json.Marshal(a.Groups); err != nil || len(text) > most {
			a.Groups, a.GroupsOverage = nil, true
		}
	}
	if contains(claims, claimEmail) && len(h.Email) <= maxTold {
		a.Email = h.Email
	}
	if contains(claims, claimName) && len(h.FullName) <= maxTold {
		a.Name = h.FullName
	}
	return a
}

// claimsOf returns what a resource learns about people.
func (s *resourceSet) claimsOf(uri string) []string {
	r, _ := s.find(uri)
	return r.Claims
}
