package upstream_test

import (
	"fmt"

	"gatehouse.example/authz/upstream"
)

// A provider that anybody could use by accident is refused.
func ExampleProvider_Validate() {
	p := upstream.Provider{
		ID: "company", Preset: upstream.Google, ClientID: "gatehouse", ClientSecret: "secret",
		Allow: upstream.Allow{Groups: []string{"staff"}},
	}
	fmt.Println(p.Validate(false))
	p.Allow = upstream.Allow{Domains: []string{"example.com"}}
	fmt.Println(p.Validate(false))
	// Output:
	// allow.groups: Google names no groups in a sign-in; use domains or people
	// <nil>
}
