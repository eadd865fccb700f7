package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// onSignIn looks at a sign-in that was tried.
func onSignIn(look func(w *walk, s *signIn) string) func(*walk) []string {
	return func(w *walk) []string {
		if w.signIn == nil || w.signIn.untried != "" {
			return nil
		}
		text := look(w, w.signIn)
		return saw(text != "", text)
	}
}

// onAnswer looks at what the browser brought back.
func onAnswer(look func(w *walk, s *signIn) string) func(*walk) []string {
	return onSignIn(func(w *walk, s *signIn) string {
		if s.answer == nil {
			return ""
		}
		return look(w, s)
	})
}

// signInChecks are about the way to a code.
var signInChecks = []check{
	{Entry{
		ID: "sign-in-not-tried", Severity: Warning, Rule: "this project",
		Title:    "The sign-in was not tried",
		Symptoms: []string{"the doctor did not sign in"},
		Mend:     "Mend what else was found, or give a client with --client-id whose redirect URI is http://127.0.0.1/callback at any port.",
	}, func(w *walk) []string {
		return saw(w.signIn != nil && w.signIn.untried != "", w.whyUntried())
	}},
	{Entry{
		ID: "sign-in-registration", Severity: Error, Rule: "RFC 7591 section 3.2",
		Title:    "The registration of a public client on a loopback address is refused",
		Symptoms: []string{"Dynamic client registration failed", "invalid_redirect_uri", "invalid_client_metadata", "registration is disabled"},
		Mend:     "Accept clients with token_endpoint_auth_method none and a redirect URI at http://127.0.0.1 with any port, and answer 201 with a client_id. If registration is closed, remove registration_endpoint from the metadata.",
		Clients:  everyone,
	}, onSignIn(func(w *walk, s *signIn) string {
		e := w.call("sign-in.register")
		return when(e != nil && s.client.id == "", e.String()+" "+excerpt(bodyOf(e)))
	})},
	{Entry{
		ID: "sign-in-unfinished", Severity: Error, Rule: "RFC 6749 section 4.1.2; RFC 8252 section 7.3",
		Title:    "The sign-in did not come back to the client",
		Symptoms: []string{"client waits for the browser forever", "error page in place of the sign-in", "redirect_uri mismatch", "Timed out waiting for the callback"},
		Mend:     "Look what the browser shows. If it is an error about the redirect URI: accept http://127.0.0.1 with any port for a registered loopback URI. Errors about the request go back to the client, unless client or redirect URI are wrong.",
		Clients:  everyone,
	}, onSignIn(func(_ *walk, s *signIn) string { return s.waited })},
	{Entry{
		ID: "sign-in-refused", Severity: Error, Rule: "RFC 6749 section 4.1.2.1; RFC 8707 section 2",
		Title:    "The sign-in ends with an error",
		Symptoms: []string{"invalid_target", "invalid_scope", "access_denied", "server_error after sign-in"},
		Mend:     "Read the error: invalid_target means that the server does not know the resource as its metadata spells it; invalid_scope that scopes_supported or the challenge name scopes which clients cannot get; access_denied that the person refused, or may not.",
		Clients:  everyone,
	}, onAnswer(func(_ *walk, s *signIn) string {
		return when(s.answer.Has("error"), fmt.Sprintf("error is %s, error_description is %s", quoted(s.answer.Get("error")), quoted(s.answer.Get("error_description"))))
	})},
	{Entry{
		ID: "sign-in-state", Severity: Error, Rule: "RFC 6749 section 4.1.2",
		Title:    "The server does not return state as it was",
		Symptoms: []string{"state mismatch", "Invalid state parameter", "possible CSRF attack"},
		Mend:     "Return state byte for byte in each authorization response, also with errors.",
		Clients:  everyone,
	}, onAnswer(func(_ *walk, s *signIn) string {
		return when(s.answer.Get("state") != s.state, fmt.Sprintf("state is %s, sent was %s", quoted(s.answer.Get("state")), quoted(s.state)))
	})},
	{Entry{
		ID: "sign-in-iss", Severity: Error, Rule: "RFC 9207 section 2.4; MCP Authorization Response Validation",
		Title:    "The authorization response names another issuer, or none although that is promised",
		Symptoms: []string{"iss mismatch", "issuer mismatch in authorization response", "missing iss parameter"},
		Mend:     "Send iss in each authorization response, byte for byte the issuer of the metadata.",
		Clients:  []string{claudeCode, goSDK, typescriptSDK, inspector, mcpRemote},
	}, onAnswer(func(_ *walk, s *signIn) string {
		iss, issuer := s.answer.Get("iss"), s.document.text("issuer")
		promised := s.document.yes("authorization_response_iss_parameter_supported")
		return when(iss != issuer && (promised || s.answer.Has("iss")), fmt.Sprintf("iss is %s, the issuer is %s", quoted(iss), quoted(issuer)))
	})},
	{Entry{
		ID: "sign-in-iss-unadvertised", Severity: Warning, Rule: "RFC 9207 section 3",
		Title:    "The authorization response has iss, and the metadata does not say so",
		Symptoms: []string{"unexpected iss parameter"},
		Mend:     `Add "authorization_response_iss_parameter_supported": true.`,
		Clients:  []string{goSDK},
	}, onAnswer(func(_ *walk, s *signIn) string {
		return when(s.answer.Has("iss") && !s.document.yes("authorization_response_iss_parameter_supported"), "iss is "+quoted(s.answer.Get("iss")))
	})},
}

func (w *walk) whyUntried() string {
	if w.signIn == nil {
		return ""
	}
	return w.signIn.untried
}

func bodyOf(e *exchange) []byte {
	if e == nil {
		return nil
	}
	return e.body
}

// onGrant looks at the first token of the doctor's own grant.
func onGrant(look func(w *walk, s *signIn) string) func(*walk) []string {
	return onSignIn(func(w *walk, s *signIn) string {
		if s.first == nil || !s.first.ok {
			return ""
		}
		return look(w, s)
	})
}

// grantChecks are about the code and the first token.
var grantChecks = []check{
	{Entry{
		ID: "code-refused", Severity: Error, Rule: "RFC 6749 section 4.1.3; RFC 7636 section 4.6",
		Title:    "The token endpoint does not redeem the code",
		Symptoms: []string{"token exchange failed", "invalid_grant after sign-in", "invalid_client at the token endpoint", "invalid_target at the token endpoint"},
		Mend:     "Redeem the code for the client, redirect URI, verifier and resource with which it was asked for. A public client has a client_id in the form and no secret.",
		Clients:  everyone,
	}, onSignIn(func(_ *walk, s *signIn) string {
		t := s.first
		return when(t != nil && !t.ok && t.answered() && t.code() != 200, t.told())
	})},
	{Entry{
		ID: "token-answer", Severity: Error, Rule: "RFC 6749 section 5.1; RFC 6750 section 2.1",
		Title:    "The answer of the token endpoint has no bearer token",
		Symptoms: []string{"access_token: Required", "token_type: Required", "Unsupported token_type"},
		Mend:     "Answer with access_token, token_type Bearer and expires_in as a number, as application/json.",
		Clients:  everyone,
	}, onSignIn(func(_ *walk, s *signIn) string {
		t := s.first
		if t == nil || t.ok || t.code() != 200 {
			return ""
		}
		return fmt.Sprintf("%s, access_token of %d characters, token_type %s", t.exchange, len(t.access), quoted(t.kind))
	})},
	{Entry{
		ID: "code-twice", Severity: Error, Rule: "RFC 6749 section 4.1.2",
		Title:    "A code can be redeemed twice",
		Symptoms: []string{"authorization code replay"},
		Mend:     "Redeem a code once, and revoke what was issued for it when it comes again.",
	}, onGrant(func(_ *walk, s *signIn) string {
		return when(s.again != nil && s.again.ok, s.again.said("a token, the second time too"))
	})},
	{Entry{
		ID: "token-lifetime-unknown", Severity: Warning, Rule: "RFC 6749 section 5.1",
		Title:    "The server does not say how long the token lives",
		Symptoms: []string{"client does not refresh in time", "signed out without a reason"},
		Mend:     "Send expires_in with each token, as a number of seconds.",
	}, onGrant(func(_ *walk, s *signIn) string {
		return when(s.first.lifetime <= 0, s.first.exchange.String()+" without a number expires_in")
	})},
	{Entry{
		ID: "token-lifetime", Severity: Warning, Rule: "MCP Token Theft; RFC 9700 section 2.2.1",
		Title:    "The token lives for more than a day, or for less than a minute",
		Symptoms: []string{"access token never expires", "client refreshes all the time"},
		Mend:     "Let access tokens live for five minutes to an hour, and issue refresh tokens.",
	}, onGrant(func(_ *walk, s *signIn) string {
		life := s.first.life()
		return when(life > longLife || life > 0 && life < shortLife, fmt.Sprintf("it lives for %s", life))
	})},
	{Entry{
		ID: "token-scope-silent", Severity: Warning, Rule: "RFC 6749 section 5.1",
		Title:    "The token has other scopes than were asked for, and the answer does not say so",
		Symptoms: []string{"client believes to have a scope", "insufficient_scope again and again"},
		Mend:     "Send scope with each token whose scopes differ from the request.",
	}, onGrant(func(_ *walk, s *signIn) string {
		got := strings.Fields(s.first.claim("scope"))
		return when(s.first.scope == "" && len(got) > 0 && len(lacking(s.asked, got)) > 0, fmt.Sprintf("asked for %s, the token has %s", quotedAll(s.asked), quotedAll(got)))
	})},
	{Entry{
		ID: "token-scope-fewer", Severity: Note, Rule: "RFC 6749 section 3.3",
		Title:    "The token has fewer scopes than were asked for",
		Symptoms: []string{"some tools are missing after sign-in"},
		Mend:     "Nothing is wrong if the person chose so. Else the metadata names scopes that this client or person cannot have.",
	}, onGrant(func(_ *walk, s *signIn) string {
		lost := lacking(s.asked, strings.Fields(s.first.scope))
		return when(s.first.scope != "" && len(lost) > 0, "asked for and not granted: "+quotedAll(lost))
	})},
}

// lacking returns which texts are not among others.
func lacking(texts, others []string) (all []string) {
	for _, text := range texts {
		if !slices.Contains(others, text) && text != "offline_access" { // which is never in a token
			all = append(all, text)
		}
	}
	return all
}

// unique leaves out what was seen before: three calls that fail alike are one fault.
func unique(texts []string) (all []string) {
	for _, text := range texts {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}
