package main

import "testing"

// TestGrantsAreNamedInOneWay: revoking names grants by ids, or by whose they are, or all of them with
// --all alone. Nothing named is a mistake, and not every grant.
func TestGrantsAreNamedInOneWay(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*grantRevoke)
		ok     bool
	}{
		"nothing":               {func(*grantRevoke) {}, false},
		"ids":                   {func(v *grantRevoke) { v.IDs = []string{"a"} }, true},
		"a person":              {func(v *grantRevoke) { v.User = "ann" }, true},
		"a client":              {func(v *grantRevoke) { v.Client = "editor" }, true},
		"a resource alone":      {func(v *grantRevoke) { v.Resource = "https://notes.example.com/mcp" }, false},
		"all":                   {func(v *grantRevoke) { v.All = true }, true},
		"all and ids":           {func(v *grantRevoke) { v.All, v.IDs = true, []string{"a"} }, false},
		"all and a person":      {func(v *grantRevoke) { v.All, v.User = true, "ann" }, false},
		"ids and a person":      {func(v *grantRevoke) { v.IDs, v.User = []string{"a"}, "ann" }, false},
		"a person and a client": {func(v *grantRevoke) { v.User, v.Client = "ann", "editor" }, true},
	} {
		v := &grantRevoke{}
		test.change(v)
		if err := v.misnamed(); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
