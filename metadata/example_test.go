package metadata_test

import (
	"fmt"

	"gatehouse.example/metadata"
)

func ExampleCanonical() {
	canonical, err := metadata.Canonical("HTTPS://Notes.Example.com:443/mcp")
	fmt.Println(canonical, err)
	_, err = metadata.Canonical("https://notes.example.com/mcp#tools")
	fmt.Println(err)
	// Output:
	// https://notes.example.com/mcp <nil>
	// metadata: not a valid resource URI: it must not have a fragment
}

func ExampleResourceMetadataURL() {
	fmt.Println(metadata.ResourceMetadataURL("https://notes.example.com/mcp"))
	// Output: https://notes.example.com/.well-known/oauth-protected-resource/mcp <nil>
}

func ExampleMatchRedirect() {
	registered := []string{"http://127.0.0.1/callback"}
	redirect, err := metadata.MatchRedirect(registered, "http://127.0.0.1:49152/callback", true)
	fmt.Println(redirect.Host(), err)
	_, err = metadata.MatchRedirect(registered, "http://127.0.0.1:49152/other", true)
	fmt.Println(err)
	// Output:
	// 127.0.0.1:49152 <nil>
	// metadata: not an acceptable redirect URI: it is not one that the client registered
}

func ExampleChallenge() {
	challenge := metadata.Challenge{Scheme: "Bearer", Params: []metadata.Param{
		{Name: "error", Value: "insufficient_scope"},
		{Name: "scope", Value: "notes:read notes:write"},
	}}
	fmt.Println(challenge)
	// Output: Bearer error="insufficient_scope", scope="notes:read notes:write"
}

func ExampleParseChallenges() {
	challenges, err := metadata.ParseChallenges([]string{`Basic realm="x", bearer scope="notes:read"`})
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range challenges {
		if scope, ok := c.Get("scope"); ok && c.Is("Bearer") {
			fmt.Println(scope)
		}
	}
	// Output: notes:read
}
