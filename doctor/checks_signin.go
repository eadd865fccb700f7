package doctor

import (
	"fmt"
	"net/http"
	"strings"
)

// signInChecks are about a sign-in and its tokens. They find nothing without Options.SignIn.
var signInChecks = []check{
	{Entry{
		ID: "sign-in-failed", Severity: Error, Rule: "RFC 6749 section 4.1; MCP Authorization Flow Steps",
		Title:    "The sign-in leads to no token",
		Symptoms: []string{"browser shows an error after sign-in", "invalid_grant", "invalid_target", "token exchange failed"},
		Mend:     "Look at error and at the log of the authorization server.",
		Clients:  everyone,
	}, ofGrant(func(g *grant) string {
		switch {
		case g.back == nil && g.reason != "":
			return g.reason
		case g.back.Get("code") == "":
			return "the authorization response has " + shown(g.back)
		case g.token.text("access_token") == "":
			return fmt.Sprintf("%s with the body %s", whole(g.token), excerpt(bodyOf(g.token)))
		}
		return ""
	})},
	{Entry{
		ID: "iss-wrong", Severity: Error, Rule: "RFC 9207 section 2.4; MCP Authorization Response Validation",
		Title:    "The response to a sign-in lacks the iss that the metadata promises, or has another",
		Symptoms: []string{"issuer mismatch in the callback", "iss missing in the authorization response"},
		Mend:     "Send iss, equal to issuer of the metadata; and if it is sent, write authorization_response_iss_parameter_supported: true.",
		Clients:  []string{goSDK, typescriptSDK},
	}, ofGrant(func(g *grant) string {
		iss := g.back.Get("iss")
		return when(g.back != nil && (iss != g.issuer && (iss != "" || g.promise) || iss != "" && !g.promise),
			fmt.Sprintf("iss is %s, the issuer is %s, and the metadata promises it: %t", quoted(iss), quoted(g.issuer), g.promise))
	})},
	{Entry{
		ID: "token-answer", Severity: Warning, Rule: "RFC 6749 section 5.1",
		Title:    "The answer with the token lacks token_type or expires_in",
		Symptoms: []string{"token_type missing", "client refreshes at each call", "works until the token expires"},
		Mend:     `Answer "token_type": "Bearer" and expires_in, a number of seconds.`,
		Clients:  []string{},
	}, ofGrant(func(g *grant) string {
		seconds, ok := 0.0, false
		if g.token.found() {
			seconds, ok = g.token.members["expires_in"].(float64)
		}
		wrong := !ok || seconds <= 0 || !strings.EqualFold(g.token.text("token_type"), "Bearer")
		return when(g.token.text("access_token") != "" && wrong, fmt.Sprintf("token_type is %s, expires_in %v", quoted(g.token.text("token_type")), seconds))
	})},
	{Entry{
		ID: "no-refresh-token", Severity: Warning, Rule: "MCP Refresh Tokens",
		Title:    "There is no refresh token",
		Symptoms: []string{"signed out every hour", "connected but dead after an hour"},
		Mend:     "Issue one to each client that registered the grant type refresh_token, whether or not it asks for offline_access.",
	}, ofGrant(func(g *grant) string {
		return when(g.token.text("access_token") != "" && g.token.text("refresh_token") == "", whole(g.token)+" without refresh_token")
	})},
	{Entry{
		ID: "refresh-refused", Severity: Error, Rule: "RFC 6749 section 6; RFC 8707 section 2.2",
		Title:    "A refresh without the parameter resource is refused",
		Symptoms: []string{"signed out every hour", "invalid_target at refresh", "invalid_grant at refresh"},
		Mend:     "Keep the resource of the grant where the request names none.",
		Clients:  []string{goSDK},
	}, ofGrant(func(g *grant) string {
		return when(g.refresh.code() != 0 && g.refresh.text("access_token") == "", fmt.Sprintf("%s with the body %s", whole(g.refresh), excerpt(bodyOf(g.refresh))))
	})},
	{Entry{
		ID: "refreshed-token-refused", Severity: Error, Rule: "RFC 8707 section 2.2",
		Title:    "The token of a refresh is refused",
		Symptoms: []string{"works for an hour, then 401 loop", "audience mismatch after refresh"},
		Mend:     "Give it the audience of the grant.",
		Clients:  []string{goSDK},
	}, func(w *walk) []string {
		e := w.call("token.refreshed")
		return saw(w.takes() && e.answered() && e.code() >= 400, e.String())
	}},
	{Entry{
		ID: "refresh-not-rotated", Severity: Warning, Rule: "MCP Token Theft; OAuth 2.1 section 4.3.1",
		Title:    "The refresh token of a client without a secret stays the same",
		Symptoms: []string{"refresh tokens are not rotated"},
		Mend:     "Issue a new one at each refresh.",
	}, ofGrant(func(g *grant) string {
		kept := g.refresh.text("refresh_token")
		return when(g.refresh.text("access_token") != "" && (kept == "" || kept == g.token.text("refresh_token")), whole(g.refresh)+" with no new refresh token")
	})},
	{Entry{
		ID: "refresh-once", Severity: Warning, Rule: "this project; OAuth 2.1 section 4.3.1",
		Title:    "A refresh that is repeated at once is refused",
		Symptoms: []string{"invalid_grant with several windows", "signed out at random", "refresh token reuse detected"},
		Mend:     "Answer the same refresh token again for some seconds: processes of one client share it, and an answer can be lost. Revoke the grant when it is used later.",
		Clients:  []string{claudeCode, codex},
	}, ofGrant(func(g *grant) string {
		for _, d := range g.twice {
			if g.refresh.text("access_token") != "" && g.refresh.text("refresh_token") != g.token.text("refresh_token") && d.code() >= 400 {
				return fmt.Sprintf("%s with the body %s", d.exchange, excerpt(d.body))
			}
		}
		return ""
	})},
	{Entry{
		ID: "token-in-query", Severity: Error, Rule: "MCP Token Requirements; RFC 6750 section 5.3",
		Title:    "A token in the query is accepted",
		Symptoms: []string{"access_token in logs"},
		Mend:     "Read tokens from the header only.",
	}, func(w *walk) []string {
		e := w.call("token.query")
		return saw(w.unauthorized() != nil && e.answered() && e.code() < 300, e.String())
	}},
	{Entry{
		ID: "code-twice", Severity: Error, Rule: "RFC 6749 section 4.1.2; OAuth 2.1 section 4.1.3",
		Title:    "A code is redeemed twice",
		Symptoms: []string{"authorization code replay"},
		Mend:     "Take a code once, and revoke its tokens when it comes again.",
	}, ofGrant(func(g *grant) string {
		return when(g.again.code() == http.StatusOK, whole(g.again)+" to a code for the second time")
	})},
}

// ofGrant looks at what a sign-in led to.
func ofGrant(look func(*grant) string) func(*walk) []string {
	return func(w *walk) []string {
		if w.grant == nil {
			return nil
		}
		text := look(w.grant)
		return saw(text != "", text)
	}
}

// code returns the status of the answer, 0 without a document.
func (d *document) code() int {
	if d == nil {
		return 0
	}
	return d.exchange.code()
}

func whole(d *document) string {
	if d == nil {
		return ""
	}
	return d.exchange.String()
}

func bodyOf(d *document) []byte {
	if d == nil {
		return nil
	}
	return d.body
}
