package doctor

import (
	"fmt"
	"net/url"
	"strings"
)

// wrongProofs are authorization requests whose challenge a server should refuse.
var wrongProofs = []struct {
	name, what string
	change     url.Values
}{
	{"plain", "with code_challenge_method=plain", url.Values{"code_challenge_method": {"plain"}}},
	{"short", "with a code_challenge of 42 characters", url.Values{"code_challenge": {challenge[:42]}}},
	{"alphabet", "with a code_challenge in another alphabet", url.Values{"code_challenge": {strings.Replace(challenge, "-", "+", 1)[:42] + "="}}},
}

// proofChecks are about PKCE at the authorization endpoint.
var proofChecks = []check{
	{Entry{
		ID: "pkce-plain-accepted", Severity: Warning, Rule: "RFC 9700 section 2.1.1; OAuth 2.1 section 7.5.2",
		Title:    "A request with code_challenge_method=plain comes to the sign-in",
		Symptoms: []string{"code_challenge_method plain"},
		Mend:     "Answer invalid_request to every method but S256: with plain, who reads the request can redeem the code.",
		Mends:    map[string]string{"Keycloak": "set the PKCE method of the client, or of a client policy, to S256."},
	}, proceeds("plain")},
	{Entry{
		ID: "pkce-challenge-length", Severity: Warning, Rule: "RFC 7636 section 4.2; RFC 7636 section 4.4.1",
		Title:    "A code_challenge that is too short comes to the sign-in",
		Symptoms: []string{"code_challenge is not validated"},
		Mend:     "Answer invalid_request, unless code_challenge has 43 characters: no verifier fits such a challenge, and the person signs in for nothing.",
	}, proceeds("short")},
	{Entry{
		ID: "pkce-challenge-alphabet", Severity: Warning, Rule: "RFC 7636 section 4.2; RFC 7636 section 4.4.1",
		Title:    "A code_challenge that is not in base64url comes to the sign-in",
		Symptoms: []string{"code_challenge is not validated"},
		Mend:     "Answer invalid_request, unless code_challenge has the characters of base64url only, without = at its end.",
	}, proceeds("alphabet")},
}

// proceeds reports that a wrong request came to where a correct one comes to, or got a code.
func proceeds(name string) func(*walk) []string {
	return eachServer(func(s *server) []string {
		e := s.call("try." + name)
		at := s.landing(e, s.call("try.valid"))
		_, back := outcomeOf(e)
		return saw(at == atSignIn || at == sentBack && back.Has("code"), fmt.Sprintf("%s %s", e, whatOf(name)))
	})
}

func whatOf(name string) string {
	for _, p := range wrongProofs {
		if p.name == name {
			return p.what
		}
	}
	return ""
}
