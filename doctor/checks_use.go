package doctor

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// accepted reports whether the target answered one of the calls.
func (w *walk) accepted(places ...string) bool {
	return slices.ContainsFunc(places, func(place string) bool { return w.call(place).code()/100 == 2 })
}

// onToken looks at the calls with a token, at a server that refuses those without one.
func onToken(look func(*walk) string) func(*walk) []string {
	return func(w *walk) []string {
		if w.token == "" || w.unauthorized() == nil {
			return nil
		}
		text := look(w)
		return saw(text != "", text)
	}
}

// acceptedWrong returns a check for a token that the target must refuse.
func acceptedWrong(place string) func(*walk) []string {
	return func(w *walk) []string { return saw(w.accepted(place), w.call(place).String()) }
}

// useChecks are about calls with a token.
var useChecks = []check{
	{Entry{
		ID: "token-forbidden", Severity: Error, Rule: "MCP Scope Selection Strategy; RFC 6750 section 3.1",
		Title:    "The scopes for which clients ask do not suffice to connect",
		Symptoms: []string{"insufficient_scope after sign-in", "HTTP 403 after sign-in"},
		Mend:     "Name all scopes that initialize and tools/list need in the challenge, else in scopes_supported of the resource metadata.",
		Clients:  everyone,
	}, onToken(func(w *walk) string {
		e := w.call("token.session")
		return when(e.code() == http.StatusForbidden, fmt.Sprintf("%s with challenge %s", e, quoted(e.get("WWW-Authenticate"))))
	})},
	{Entry{
		ID: "token-not-judged", Severity: Warning, Rule: "MCP Versioning",
		Title:    "The token is accepted in one kind of revisions and refused in the other",
		Symptoms: []string{"new clients are refused after sign-in"},
		Mend:     "Judge the token before the revision of the protocol, in the same way.",
	}, onToken(func(w *walk) string {
		a, b := w.call("token.stateless").code(), w.call("token.session").code()
		return when((a == 401) != (b == 401) && a > 0 && b > 0, fmt.Sprintf("server/discover of %s answers %d, initialize of %s answers %d", stateless, a, sessions, b))
	})},
	{Entry{
		ID: "renewed-token-refused", Severity: Error, Rule: "RFC 6749 section 6; MCP Token Audience Binding and Validation",
		Title:    "The server accepts the first token and refuses the one after a refresh",
		Symptoms: []string{"works for an hour, then 401", "401 loop after refresh", "audience is lost at refresh"},
		Mend:     "Give the tokens of a refresh the audience and the scopes of the grant, with and without resource in the request.",
		Clients:  everyone,
	}, onGrant(func(w *walk, _ *signIn) string {
		e := w.call("use.renewed")
		return when(e.code() == http.StatusUnauthorized && w.call("token.session").code() != http.StatusUnauthorized, e.String())
	})},
	{Entry{
		ID: "query-token-accepted", Severity: Error, Rule: "MCP Token Requirements; RFC 9700 section 4.3.2",
		Title:    "The server accepts a token in the query",
		Symptoms: []string{"access_token in the URL", "tokens in logs"},
		Mend:     "Accept tokens in the header Authorization alone: URLs are in logs and histories.",
	}, acceptedWrong("use.query")},
	{Entry{
		ID: "id-token-accepted", Severity: Error, Rule: "MCP Token Audience Binding and Validation; RFC 9068 section 4",
		Title:    "The server accepts an ID token",
		Symptoms: []string{"ID token used as access token"},
		Mend:     "Compare aud with the resource, and typ with at+jwt: an ID token is for the client.",
	}, acceptedWrong("use.id-token")},
	{Entry{
		ID: "revoked-token-accepted", Severity: Note, Rule: "RFC 7009 section 3",
		Title:    "An access token works after its grant was revoked",
		Symptoms: []string{"still connected after the access was removed"},
		Mend:     "With tokens that nobody looks up that is so until they expire: let them live for minutes.",
	}, acceptedWrong("use.revoked")},
	{Entry{
		ID: "session-without-token", Severity: Error, Rule: "MCP Session Hijacking; MCP Token Handling",
		Title:    "A session can be used without a token",
		Symptoms: []string{"session ID works as a password"},
		Mend:     "Judge the token of every request. A session is not an authentication.",
	}, acceptedWrong("token.alone")},
	{Entry{
		ID: "step-up-status", Severity: Warning, Rule: "MCP Scope Challenge Handling; RFC 6750 section 3.1",
		Title:    "A token with too few scopes is answered with 401",
		Symptoms: []string{"401 loop after sign-in", "client throws its token away"},
		Mend:     "Answer 403 with error insufficient_scope: at 401 clients think that the token is void.",
	}, func(w *walk) []string {
		e := w.narrowRefusal(http.StatusUnauthorized)
		return saw(e != nil && w.accepted("token.session", "token.stateless"), e.String())
	}},
	{Entry{
		ID: "step-up-challenge", Severity: Warning, Rule: "MCP Scope Challenge Handling; RFC 6750 section 3.1",
		Title:    "A refusal for missing scopes does not say what is missing",
		Symptoms: []string{"client never asks for more scopes", "HTTP 403 at a tool"},
		Mend:     `Send WWW-Authenticate: Bearer error="insufficient_scope", scope="all scopes that the call needs", resource_metadata="…" with 403.`,
		Clients:  []string{goSDK, typescriptSDK, inspector, mcpRemote},
	}, func(w *walk) []string {
		e := w.narrowRefusal(http.StatusForbidden)
		if e == nil {
			return nil
		}
		c, _ := bearer(e)
		var lacks []string
		if kind, _ := c.Get("error"); kind != "insufficient_scope" {
			lacks = append(lacks, "error insufficient_scope")
		}
		for _, name := range []string{"scope", "resource_metadata"} {
			if value, _ := c.Get(name); value == "" {
				lacks = append(lacks, name)
			}
		}
		return saw(len(lacks) > 0, fmt.Sprintf("%s, and the challenge %s lacks %s", e, quoted(e.get("WWW-Authenticate")), strings.Join(lacks, ", ")))
	}},
}

// narrowRefusal returns the first refusal of that status to a call with fewer scopes that is not
// refused so with all of them: a tool that is not there may be forbidden to everybody.
func (w *walk) narrowRefusal(status int) *exchange {
	if e := w.call("token.session"); e.code() == status && status == http.StatusForbidden && w.unauthorized() != nil {
		return e
	}
	for _, what := range []string{"list", "call"} {
		if e := w.call("use.narrow-" + what); e.code() == status && w.call("use.all-"+what).code() != status {
			return e
		}
	}
	return nil
}
