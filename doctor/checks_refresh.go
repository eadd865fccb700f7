package doctor

import (
	"fmt"
	"slices"
	"time"
)

// shortLife is how long an access token should live at least.
const shortLife = time.Minute

// told describes a refusal of the token endpoint.
func (t *tokens) told() string {
	if t == nil {
		return ""
	}
	if t.failed == "" {
		return t.exchange.String()
	}
	return t.exchange.String() + " with " + quoted(t.failed)
}

// life returns how long the token lives: as the answer says, else as its claims say.
func (t *tokens) life() time.Duration {
	if t.lifetime > 0 {
		return t.lifetime
	}
	from, _ := t.claims["iat"].(float64)
	to, _ := t.claims["exp"].(float64)
	if from <= 0 || to <= from || to > 1e12 {
		return 0
	}
	return time.Duration(to-from) * time.Second
}

// refreshChecks are about refresh tokens of the doctor's own grant.
var refreshChecks = []check{
	{Entry{
		ID: "refresh-none", Severity: Warning, Rule: "MCP Refresh Tokens; RFC 6749 section 1.5",
		Title:    "There is no refresh token",
		Symptoms: []string{"signed out every hour", "client opens the browser again and again"},
		Mend:     "Issue one to clients that register the grant type refresh_token, or that ask for offline_access; then list offline_access in scopes_supported of the authorization server.",
	}, onGrant(func(_ *walk, s *signIn) string {
		return when(s.first.refresh == "", s.first.exchange.String()+" without refresh_token")
	})},
	{Entry{
		ID: "refresh-refused", Severity: Error, Rule: "RFC 6749 section 6",
		Title:    "The first refresh is refused",
		Symptoms: []string{"refresh failed", "invalid_grant at refresh", "signed out when the token expires"},
		Mend:     "Accept the refresh token of the client, with and without scope and resource.",
		Clients:  everyone,
	}, onGrant(func(_ *walk, s *signIn) string {
		return when(s.renewed != nil && !s.renewed.ok && s.renewed.answered(), s.renewed.told())
	})},
	{Entry{
		ID: "refresh-without-resource", Severity: Error, Rule: "RFC 8707 section 2.2; RFC 6749 section 6",
		Title:    "A refresh without the parameter resource is refused",
		Symptoms: []string{"signed out every hour", "invalid_target at refresh"},
		Mend:     "Keep the resource of the grant where the request names none.",
		Clients:  []string{goSDK},
	}, onGrant(func(_ *walk, s *signIn) string {
		return when(s.bare != nil && !s.bare.ok && s.bare.answered(), s.bare.told())
	})},
	{Entry{
		ID: "refresh-spent", Severity: Note, Rule: "this project",
		Title:    "A refused refresh uses the refresh token up",
		Symptoms: []string{"signed out after one wrong refresh"},
		Mend:     "Judge the whole request, also scope and resource, before the refresh token is replaced. What comes after such a refusal was not tried.",
	}, onGrant(func(_ *walk, s *signIn) string {
		return when(s.unspent != nil && !s.unspent.ok && s.unspent.answered(), fmt.Sprintf("a refresh for %s is refused, and afterwards %s", foreign, s.unspent.told()))
	})},
	{Entry{
		ID: "refresh-kept", Severity: Warning, Rule: "MCP Token Theft; RFC 9700 section 4.14.2",
		Title:    "The refresh token of a public client is not replaced",
		Symptoms: []string{"refresh token rotation"},
		Mend:     "Issue a new refresh token at each refresh: a stolen one is noticed when it is used a second time.",
	}, onGrant(func(_ *walk, s *signIn) string {
		public := s.client.secret == "" || s.client.method == "none"
		kept := s.renewed != nil && s.renewed.ok && (s.renewed.refresh == "" || s.renewed.refresh == s.first.refresh)
		return when(public && kept, s.renewed.said("the refresh token of before"))
	})},
	{Entry{
		ID: "refresh-repeated", Severity: Warning, Rule: "RFC 9700 section 4.14.2",
		Title:    "A replaced refresh token still works after its successor was used",
		Symptoms: []string{"stolen refresh token works"},
		Mend:     "Refuse it, and end the grant: two have the token. A repetition within seconds, before the successor was used, may be a lost answer.",
	}, onGrant(func(_ *walk, s *signIn) string {
		return when(s.replayed != nil && s.replayed.ok, s.replayed.said("a token"))
	})},
	{Entry{
		ID: "refresh-parallel", Severity: Warning, Rule: "this project; RFC 9700 section 4.14.2",
		Title:    "Two refreshes at once end the grant",
		Symptoms: []string{"signed out at random", "invalid_grant with two windows", "refresh token reuse detected"},
		Mend:     "Answer the same refresh token within some seconds as the first time, until the successor is used. Clients with several windows or processes refresh at once.",
		Mends: map[string]string{
			"Auth0":    "set the reuse interval of refresh tokens to some seconds.",
			"Okta":     "set the grace period of refresh token rotation to some seconds.",
			"Keycloak": "set Refresh Token Max Reuse to 1 or more.",
		},
	}, onGrant(func(_ *walk, s *signIn) string {
		one := slices.ContainsFunc(s.parallel, func(t *tokens) bool { return t.ok })
		return when(one && s.after != nil && !s.after.ok && s.after.answered(), "afterwards "+s.after.told())
	})},
	{Entry{
		ID: "resource-ignored", Severity: Warning, Rule: "RFC 8707 section 2",
		Title:    "The authorization server issues tokens for a resource that it cannot know",
		Symptoms: []string{"resource parameter is ignored"},
		Mend:     "Answer invalid_target for a resource that is not registered.",
	}, onGrant(func(w *walk, s *signIn) string {
		return when(s.elsewhere != nil && s.elsewhere.ok && !w.accepted("use.elsewhere"), fmt.Sprintf("a refresh for %s has a token", foreign))
	})},
	{Entry{
		ID: "other-resource-token", Severity: Error, Rule: "MCP Token Audience Binding and Validation; RFC 8707 section 2",
		Title:    "The server accepts a token that was issued for another resource",
		Symptoms: []string{"a token for one server works at another", "confused deputy"},
		Mend:     "Issue tokens with the resource as their audience, refuse resources that are not known with invalid_target, and compare the audience at the server.",
		Mends:    map[string]string{"Keycloak": "it ignores resource: add an audience mapper for each server, and compare aud."},
	}, onGrant(func(w *walk, s *signIn) string {
		fixed := s.elsewhere != nil && slices.Contains(audience(s.elsewhere.claims), w.identity())
		return when(s.elsewhere != nil && s.elsewhere.ok && !fixed && w.accepted("use.elsewhere"),
			fmt.Sprintf("a token for %s: %s", foreign, w.call("use.elsewhere")))
	})},
}

// said describes an answer with a token.
func (t *tokens) said(what string) string {
	if t == nil {
		return ""
	}
	return t.exchange.String() + " with " + what
}
