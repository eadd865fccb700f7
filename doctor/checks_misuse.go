package doctor

import (
	"slices"
)

// misuseChecks are about wrong ways to redeem a code.
var misuseChecks = []check{
	{Entry{
		ID: "verifier-wrong-accepted", Severity: Error, Rule: "RFC 7636 section 4.6; OAuth 2.1 section 4.1.3",
		Title:    "A code is redeemed with a wrong code_verifier",
		Symptoms: []string{"PKCE is not enforced", "code_verifier is not checked"},
		Mend:     "Compare the hash of code_verifier with the code_challenge of the code, and answer invalid_grant when they differ. Who steals a code can use it otherwise.",
	}, redeemed("verifier-wrong", "with another verifier")},
	{Entry{
		ID: "verifier-missing-accepted", Severity: Error, Rule: "RFC 9700 section 4.8.2; OAuth 2.1 section 4.1.3",
		Title:    "A code that was asked for with PKCE is redeemed without code_verifier",
		Symptoms: []string{"PKCE is not enforced", "PKCE downgrade"},
		Mend:     "Require code_verifier for each code that has a code_challenge, and answer invalid_grant or invalid_request without it.",
	}, redeemed("verifier-missing", "without a verifier")},
	{Entry{
		ID: "verifier-plain-accepted", Severity: Error, Rule: "RFC 7636 section 4.6; RFC 9700 section 2.1.1",
		Title:    "A code is redeemed with its code_challenge as code_verifier",
		Symptoms: []string{"PKCE S256 is treated as plain"},
		Mend:     "Hash code_verifier before it is compared, as S256 says: whoever saw the request knows the challenge.",
	}, redeemed("verifier-plain", "with the challenge as verifier")},
	{Entry{
		ID: "code-other-client", Severity: Error, Rule: "RFC 6749 section 4.1.3; RFC 9700 section 4.5",
		Title:    "A code is redeemed by another client",
		Symptoms: []string{"authorization code injection", "code is not bound to its client"},
		Mend:     "Keep the client with the code, and answer invalid_grant to others.",
	}, redeemed("other-client", "to another client")},
	{Entry{
		ID: "code-other-redirect", Severity: Warning, Rule: "RFC 6749 section 4.1.3",
		Title:    "A code is redeemed with another redirect_uri than it was asked for with",
		Symptoms: []string{"redirect_uri is not compared at the token endpoint"},
		Mend:     "Compare redirect_uri where a client sends it, and answer invalid_grant when it differs. PKCE protects more, and OAuth 2.1 does without the parameter; clients of OAuth 2.0 still rely on it.",
	}, redeemed("other-redirect", "for another redirect URI")},
	{Entry{
		ID: "verifier-error", Severity: Note, Rule: "RFC 7636 section 4.6",
		Title:    "A wrong code_verifier is refused with another error than invalid_grant",
		Symptoms: []string{"unexpected error for a wrong code_verifier"},
		Mend:     "Answer 400 with invalid_grant.",
	}, onMisuse(func(m *misuse) string {
		t := m.tried["verifier-wrong"]
		return when(t != nil && !t.ok && t.answered() && t.failed != "invalid_grant", t.told())
	})},
	{Entry{
		ID: "misuse-not-tried", Severity: Note, Rule: "this project",
		Title:    "Not every wrong way to redeem a code was tried",
		Symptoms: []string{"the doctor could not try PKCE"},
		Mend:     "Each way needs a code where a refusal uses the code up, and the person is asked once only. For all of them, have the server remember the consent for the time of the examination.",
	}, onMisuse(func(m *misuse) string {
		var names []string
		for _, way := range wrongWays {
			names = append(names, way.name)
		}
		if m.other.id == "" {
			names = slices.DeleteFunc(names, func(n string) bool { return n == "other-client" })
		}
		missed := m.missed(names)
		return when(m.untried != "" && missed != "", m.untried+"; not tried: "+missed)
	})},
}

func onMisuse(look func(*misuse) string) func(*walk) []string {
	return onGrant(func(_ *walk, s *signIn) string {
		if s.misuse == nil {
			return ""
		}
		return look(s.misuse)
	})
}

// redeemed reports a wrong way that brought a token.
func redeemed(name, how string) func(*walk) []string {
	return onMisuse(func(m *misuse) string {
		t := m.tried[name]
		return when(t != nil && t.ok, t.said("a token "+how))
	})
}
