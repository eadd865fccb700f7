package doctor

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/metadata"
)

// callChecks are about the status of answers to requests without a token.
var callChecks = []check{
	{Entry{
		ID: "open", Severity: Error, Rule: "MCP Token Handling; MCP Error Handling",
		Title:    "The server answers without a token",
		Symptoms: []string{"connected but no sign-in", "client never asks to sign in", "tools fail with unauthorized after connecting"},
		Mend:     "Judge every request before the protocol: 401 with a challenge for each POST, GET and DELETE without a token. Clients begin a sign-in at a 401, not at an error inside of an answer.",
		Clients:  everyone,
	}, func(w *walk) []string {
		use := w.use()
		if use.code() == http.StatusUnauthorized || use != nil && use.open() != "" {
			return nil
		}
		found := calls(firstCalls, (*exchange).opens)(w)
		if len(found) > 0 && use.opens() {
			found[0] += ", to tools/list and tools/call too"
		}
		return found
	}},
	{Entry{
		ID: "open-at-first", Severity: Note, Rule: "MCP Token Handling; MCP Error Handling",
		Title:    "The server asks for a token only when its tools are used",
		Symptoms: []string{"connected, and the sign-in comes at the first tool", "works until tools are listed"},
		Mend:     "Nothing, if that is on purpose: clients sign in at the first 401. Else judge every request before the protocol.",
	}, func(w *walk) []string {
		return saw(w.use().code() == http.StatusUnauthorized,
			fmt.Sprintf("%s, and %s answers 401", w.call("call.session"), map[bool]string{true: "tools/list", false: "tools/call"}[w.call("call.tool") == nil]))
	}},
	{Entry{
		ID: "sign-in-page", Severity: Error, Rule: "MCP Error Handling; RFC 9728 section 5.1",
		Title:    "The server redirects programs to a page, or answers with one",
		Symptoms: []string{"Unexpected token '<'", "expected JSON, got HTML", "client follows a redirect to a login page"},
		Mend:     "Answer 401 with a challenge. A proxy that signs people in (forward-auth, access) must leave the path of the server, and /.well-known/, to the server.",
		Mends:    map[string]string{"Cloudflare": "add a bypass policy of Access for the path of the server and for /.well-known/."},
		Clients:  everyone,
	}, calls(messages, (*exchange).page)},
	{Entry{
		ID: "target-moved", Severity: Warning, Rule: "RFC 9110 section 15.4; MCP Canonical Server URI",
		Title:    "The URL redirects to another URL of this host",
		Symptoms: []string{"307 Temporary Redirect for /mcp", "308 Permanent Redirect", "works with a slash at the end only"},
		Mend:     "Give people the URL to which it leads, and write that one as resource; then examine that one. Or serve both without a redirect.",
	}, calls(firstCalls, func(e *exchange) bool { return e.moved() && e.status >= http.StatusTemporaryRedirect })},
	{Entry{
		ID: "target-moved-get", Severity: Error, Rule: "RFC 9110 section 15.4",
		Title:    "The URL redirects to another URL of this host, and messages are lost on the way",
		Symptoms: []string{"301 Moved Permanently for /mcp", "302 Found", "signed in, then Method Not Allowed"},
		Mend:     "Give people the URL to which it leads, and examine that one: at 301, 302 and 303 clients go on with GET, without their message. If both must work, answer 307 or 308.",
		Clients:  everyone,
	}, calls(firstCalls, func(e *exchange) bool { return e.moved() && e.status < http.StatusTemporaryRedirect })},
	{Entry{
		ID: "wrong-status", Severity: Error, Rule: "MCP Error Handling",
		Title:    "A request without a token is refused, but not with 401",
		Symptoms: []string{"HTTP 403", "HTTP 400", "HTTP 404", "HTTP 405", "client registers nothing and opens no browser", "Streamable HTTP error"},
		Mend:     "Answer 401 before the body, the session and the protocol version are read. Clients do not sign in at 400, 403, 404 or 405.",
		Clients:  everyone,
	}, calls(firstCalls, func(e *exchange) bool {
		return e.status >= 300 && e.status < 500 && e.status != http.StatusUnauthorized && !e.redirect() && !e.page()
	})},
	{Entry{
		ID: "unknown-method-open", Severity: Warning, Rule: "MCP Token Handling",
		Title:    "An unknown method is answered before the token is judged",
		Symptoms: []string{"Method not found before sign-in"},
		Mend:     "Judge the token before the message: an answer that depends on the message tells strangers what the server can do.",
	}, func(w *walk) []string {
		e := w.call("call.unknown")
		first := w.call("call.session")
		return saw(e.answered() && e.status != http.StatusUnauthorized && first.answered() && first.status == http.StatusUnauthorized,
			fmt.Sprintf("%s, initialize answers 401", e))
	}},
	{Entry{
		ID: "stream-open", Severity: Error, Rule: "MCP Token Handling; MCP Transports",
		Title:    "GET opens a stream without a token",
		Symptoms: []string{"anybody reads the notifications of a session"},
		Mend:     "Judge GET as POST: 401, or 405 where the server has no streams.",
	}, calls([]string{"call.stream"}, func(e *exchange) bool { return e.ok() && e.media() == "text/event-stream" })},
	{Entry{
		ID: "revisions-differ", Severity: Warning, Rule: "MCP Versioning; MCP Error Handling",
		Title:    "The two kinds of revisions are answered differently",
		Symptoms: []string{"new clients cannot sign in, old ones can", "UnsupportedProtocolVersion before sign-in"},
		Mend:     "Answer 401 whatever MCP-Protocol-Version says: the token is judged before the revision.",
	}, func(w *walk) []string {
		a, b := w.call("call.stateless"), w.call("call.session")
		return saw(a.answered() && b.answered() && a.code() != b.code() && (a.code() == 401 || b.code() == 401),
			fmt.Sprintf("server/discover of %s answers %d, initialize of %s answers %d", stateless, a.code(), sessions, b.code()))
	}},
}

// calls reports the first of some requests whose answer has a fault.
func calls(places []string, fault func(*exchange) bool) func(*walk) []string {
	return func(w *walk) []string {
		for _, place := range places {
			if e := w.call(place); e.answered() && fault(e) {
				more := ""
				if at := e.get("Location"); at != "" {
					more = " and leads to " + quoted(at)
				} else if e.page() {
					more = " with a page"
				}
				return []string{e.String() + more}
			}
		}
		return nil
	}
}

// unauthorized returns the first answer with 401 to a request without a token.
func (w *walk) unauthorized() *exchange {
	for _, place := range challenged {
		if e := w.call(place); e.answered() && e.status == http.StatusUnauthorized {
			return e
		}
	}
	return nil
}

// onChallenge looks at the first challenge for bearer tokens.
func onChallenge(look func(w *walk, c metadata.Challenge) string) func(*walk) []string {
	return func(w *walk) []string {
		c, ok := bearer(w.unauthorized())
		if !ok {
			return nil
		}
		text := look(w, c)
		return saw(text != "", text)
	}
}

// hasEmpty reports whether a parameter has an empty value.
func hasEmpty(c metadata.Challenge) bool {
	return slices.ContainsFunc(c.Params, func(p metadata.Param) bool { return p.Value == "" })
}

// challengeChecks are about the header WWW-Authenticate of a 401.
var challengeChecks = []check{
	{Entry{
		ID: "challenge-missing", Severity: Warning, Rule: "RFC 9110 section 15.5.2; MCP Protected Resource Metadata Discovery Requirements",
		Title:    "401 has no challenge",
		Symptoms: []string{"no WWW-Authenticate header", "client guesses the metadata", "401 and nothing happens"},
		Mend:     `Send WWW-Authenticate: Bearer resource_metadata="URL of the resource metadata" with every 401.`,
		Mends: map[string]string{
			"nginx": "proxy_hide_header or error_page on 401 drops the header; send it with add_header WWW-Authenticate … always.",
			"Kong":  "with X-Kong-Response-Latency in the answer it is Kong that refuses, and not your server: look at its authentication plugins.",
		},
	}, func(w *walk) []string {
		e := w.unauthorized()
		return saw(e != nil && e.get("WWW-Authenticate") == "", fmt.Sprintf("%s without WWW-Authenticate", e))
	}},
	{Entry{
		ID: "challenge-malformed", Severity: Error, Rule: "RFC 9110 section 11.6.1",
		Title:    "The challenge cannot be parsed",
		Symptoms: []string{"invalid WWW-Authenticate header", "client ignores resource_metadata"},
		Mend:     `Put values in double quotes and commas between parameters: Bearer error="invalid_token", resource_metadata="https://…".`,
		Clients:  []string{goSDK},
	}, func(w *walk) []string {
		e := w.unauthorized()
		if e == nil {
			return nil
		}
		_, err := metadata.ParseChallenges(e.header.Values("WWW-Authenticate"))
		return saw(err != nil && !e.vast(), "WWW-Authenticate is "+quoted(strings.Join(e.header.Values("WWW-Authenticate"), ", ")))
	}},
	{Entry{
		ID: "challenge-empty", Severity: Error, Rule: "RFC 6749 section 3.3; RFC 6750 section 3",
		Title:    "A parameter of the challenge is empty",
		Symptoms: []string{"failed to parse WWW-Authenticate header", "no value for auth param"},
		Mend:     "Leave scope out where no scope is needed.",
		Clients:  []string{goSDK},
	}, func(w *walk) []string {
		e := w.unauthorized()
		if e == nil {
			return nil
		}
		all, _ := metadata.ParseChallenges(e.header.Values("WWW-Authenticate"))
		return saw(slices.ContainsFunc(all, hasEmpty), "WWW-Authenticate is "+quoted(strings.Join(e.header.Values("WWW-Authenticate"), ", ")))
	}},
	{Entry{
		ID: "challenge-not-bearer", Severity: Error, Rule: "RFC 6750 section 3",
		Title:    "The challenge is not for bearer tokens",
		Symptoms: []string{"browser shows a password dialog", "client asks for a user name and password"},
		Mend:     "Send the scheme Bearer. A proxy that asks for Basic must not stand in front of the server.",
	}, func(w *walk) []string {
		e := w.unauthorized()
		if e.get("WWW-Authenticate") == "" {
			return nil
		}
		all, err := metadata.ParseChallenges(e.header.Values("WWW-Authenticate"))
		return saw(err == nil && !slices.ContainsFunc(all, func(c metadata.Challenge) bool { return c.Is("Bearer") || c.Is("DPoP") }),
			"WWW-Authenticate is "+quoted(e.get("WWW-Authenticate")))
	}},
	{Entry{
		ID: "challenge-twice", Severity: Warning, Rule: "RFC 9110 section 11.6.1",
		Title:    "There are several challenges for bearer tokens",
		Symptoms: []string{"client reads the wrong resource_metadata"},
		Mend:     "Send one. Often a proxy and the server behind it send one each.",
	}, func(w *walk) []string {
		e := w.unauthorized()
		if e == nil {
			return nil
		}
		all, _ := metadata.ParseChallenges(e.header.Values("WWW-Authenticate"))
		count := 0
		for _, c := range all {
			if c.Is("Bearer") {
				count++
			}
		}
		return saw(count > 1, fmt.Sprintf("%d challenges: %s", count, quotedAll(e.header.Values("WWW-Authenticate"))))
	}},
	{Entry{
		ID: "challenge-without-metadata", Severity: Warning, Rule: "RFC 9728 section 5.1; MCP Protected Resource Metadata Discovery Requirements",
		Title:    "The challenge does not name the resource metadata",
		Symptoms: []string{"client looks for metadata at the wrong place", "client takes the server for its own authorization server"},
		Mend:     "Add resource_metadata with the absolute URL to the challenge.",
		Mends: map[string]string{
			"Envoy": "its JWT filter refuses before your server does, without resource_metadata: add the header in local_reply_config, or with responseOverride of Envoy Gateway.",
		},
	}, onChallenge(func(w *walk, c metadata.Challenge) string {
		_, named := c.Get("resource_metadata")
		return when(!named, "the challenge is "+quoted(c.String()))
	})},
	{Entry{
		ID: "challenge-url", Severity: Error, Rule: "RFC 9728 section 5.1",
		Title:    "resource_metadata is not an absolute URL",
		Symptoms: []string{"Invalid URL", "client ignores resource_metadata"},
		Mend:     "Write the whole URL, with https://.",
	}, onChallenge(func(w *walk, c metadata.Challenge) string {
		at, named := c.Get("resource_metadata")
		return when(named && !askable(at), "resource_metadata is "+quoted(at))
	})},
	{Entry{
		ID: "challenge-elsewhere", Severity: Warning, Rule: "RFC 9728 section 3.3; RFC 9728 section 5.1",
		Title:    "resource_metadata is at another origin than the server",
		Symptoms: []string{"client fetches http://localhost or an internal name", "client ignores resource_metadata"},
		Mend: "Nothing, if that is on purpose and resource in the document is the URL of the server: name the host with --allow-host to have it asked. " +
			"Else write the URL that clients outside use: behind a proxy, set the public URL in the configuration instead of taking it from the request.",
		Clients: []string{geminiCLI},
	}, func(w *walk) []string {
		more := when(w.unlinked() != "", ", which was not asked")
		return saw(w.away() != "", "resource_metadata is "+quoted(w.away())+more)
	}},
	{Entry{
		ID: "challenge-error", Severity: Warning, Rule: "RFC 6750 section 3.1",
		Title:    "A request without a token is told that its token is wrong",
		Symptoms: []string{"invalid_token before sign-in", "client throws its tokens away"},
		Mend:     "Send error only to requests that had a token.",
	}, onChallenge(func(w *walk, c metadata.Challenge) string {
		code, named := c.Get("error")
		return when(named, "the challenge has error="+quoted(code))
	})},
	{Entry{
		ID: "challenge-offline", Severity: Warning, Rule: "MCP Refresh Tokens",
		Title:    "The challenge asks for offline_access",
		Symptoms: []string{"invalid_scope", "consent asks for offline access each time"},
		Mend:     "Remove offline_access: refresh tokens are between the client and the authorization server, whose metadata lists it.",
	}, onChallenge(func(w *walk, c metadata.Challenge) string {
		scope, _ := c.Get("scope")
		return when(slices.Contains(strings.Fields(scope), "offline_access"), "the challenge has scope="+quoted(scope))
	})},
	{Entry{
		ID: "challenge-scope", Severity: Warning, Rule: "RFC 6750 section 3; RFC 6749 section 3.3",
		Title:    "scope of the challenge is not a list of scopes with spaces",
		Symptoms: []string{"invalid_scope"},
		Mend:     `Separate scopes by one space each: scope="notes:read notes:write".`,
		Clients:  everyone,
	}, onChallenge(func(w *walk, c metadata.Challenge) string {
		scope, named := c.Get("scope")
		wrong := strings.ContainsAny(scope, ",[]") || slices.ContainsFunc(strings.Split(scope, " "), func(s string) bool { return !metadata.ValidScope(s) })
		return when(named && wrong, "the challenge has scope="+quoted(scope))
	})},
}
