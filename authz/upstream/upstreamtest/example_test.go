package upstreamtest_test

import (
	"testing"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/authz/upstream/upstreamtest"
)

// A test of a sign-in: the browser goes to the provider, comes back at once, and has arrived.
func ExampleNew() {
	_ = func(t *testing.T) {
		fake := upstreamtest.New(t)
		fake.SignIn(upstreamtest.Person{Subject: "7", Claims: map[string]any{"name": "Ada"}})
		client, err := upstream.New(fake.Provider("company", upstream.OIDC), upstream.Options{
			Redirect: "https://auth.example.com/login/company/callback", Dev: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		attempt := upstream.NewAttempt("state")
		address, err := client.Begin(t.Context(), attempt)
		if err != nil {
			t.Fatal(err)
		}
		arrival, err := client.Finish(t.Context(), attempt, fake.Visit(t, address))
		if err != nil || arrival.Subject != "7" {
			t.Errorf("arrived %+v, %v", arrival, err)
		}
	}
}
