package doctor

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// serverChecks are about where the metadata of an authorization server is, and whose it is.
var serverChecks = []check{
	{Entry{
		ID: "server-metadata-missing", Severity: Error, Rule: "RFC 8414 section 3; MCP Authorization Server Metadata Discovery",
		Title:    "The authorization server has no metadata",
		Symptoms: []string{"failed to discover OAuth metadata", "HTTP 404 trying to load well-known OAuth metadata", "client posts to /register of the wrong host"},
		Mend:     "Serve RFC 8414 metadata at /.well-known/oauth-authorization-server followed by the path of the issuer.",
		Mends: map[string]string{
			"Keycloak": "the issuer is https://host/realms/NAME, without /auth and without a slash at the end.",
			"Entra ID": "the issuer is https://login.microsoftonline.com/TENANT/v2.0; it has openid-configuration appended only.",
			"Okta":     "the issuer of a custom server is https://ORG.okta.com/oauth2/default.",
			"Cognito":  "the issuer is https://cognito-idp.REGION.amazonaws.com/POOL, and not the domain of its sign-in pages; it has openid-configuration appended only.",
		},
		Clients: everyone,
	}, func(w *walk) (found []string) {
		for _, s := range w.servers {
			if text := s.unfound(); text != "" {
				if s.guessed {
					text = "at " + clean(s.issuer) + ", which clients guess: " + text
				}
				found = append(found, text)
			}
		}
		return found
	}},
	{Entry{
		ID: "server-metadata-not-json", Severity: Error, Rule: "RFC 8414 section 3.2",
		Title:    "The metadata of the authorization server is not JSON",
		Symptoms: []string{"Unexpected token '<', \"<!DOCTYPE\"... is not valid JSON", "invalid character '<' looking for beginning of value"},
		Mend:     "Answer with the document, or with 404. Web applications that answer every path with their page must leave /.well-known/ out.",
		Clients:  everyone,
	}, eachDocument(func(d *document) string { return when(d.mistake != "", d.exchange.String()+", and "+d.mistake) })},
	{Entry{
		ID: "server-metadata-locked", Severity: Error, Rule: "RFC 8414 section 3",
		Title:    "The metadata of the authorization server is not for everybody",
		Symptoms: []string{"401 for /.well-known/oauth-authorization-server", "HTTP 403 trying to load well-known OAuth metadata"},
		Mend:     "Answer everybody with the document, or with 404.",
	}, eachDocument(func(d *document) string {
		return when(d.status == http.StatusUnauthorized || d.status == http.StatusForbidden, d.exchange.String())
	})},
	{Entry{
		ID: "server-metadata-type", Severity: Error, Rule: "RFC 8414 section 3.2",
		Title:    "The metadata of the authorization server has another content type than application/json",
		Symptoms: []string{"bad content type", "expected application/json"},
		Mend:     "Send Content-Type: application/json.",
		Clients:  []string{goSDK},
	}, eachDocument(func(d *document) string {
		return when(d.found() && d.media() != "application/json", fmt.Sprintf("%s with Content-Type %s", d.exchange, quoted(d.get("Content-Type"))))
	})},
	{Entry{
		ID: "server-metadata-redirected", Severity: Warning, Rule: "RFC 8414 section 3.2",
		Title:    "The metadata of the authorization server is behind a redirect",
		Symptoms: []string{"redirect while loading metadata", "CORS error: redirect is not allowed for a preflight request"},
		Mend:     "Answer 200 at the path itself.",
	}, redirected("server.")},
	{Entry{
		ID: "server-metadata-only-openid", Severity: Note, Rule: "MCP Authorization Server Metadata Discovery; RFC 8414 section 3",
		Title:    "There is OpenID Connect metadata only",
		Symptoms: []string{"older clients cannot find the authorization server"},
		Mend:     "Serve the same document at /.well-known/oauth-authorization-server too: clients from before 2025-11-25 look there only.",
	}, each(func(s *server, d *document) string {
		return when(d.form != "oauth" && s.documents[0].open() == "", s.documents[0].exchange.String())
	})},
	{Entry{
		ID: "openid-members", Severity: Error, Rule: "OIDC Discovery section 3",
		Title:    "There is OpenID Connect metadata only, and it lacks members that OpenID Connect requires",
		Symptoms: []string{"subject_types_supported: Required", "id_token_signing_alg_values_supported: Required", "ZodError: invalid_type"},
		Mend:     "Serve /.well-known/oauth-authorization-server, where they are not needed, or add them.",
		Clients:  []string{claudeCode, cursor, mcpRemote, typescriptSDK},
	}, each(func(s *server, d *document) string {
		lacks := d.lacks(openIDMembers...)
		return when(d.form != "oauth" && s.documents[0].open() == "" && len(lacks) > 0, clean(d.url)+" has no "+strings.Join(lacks, ", "))
	})},
	{Entry{
		ID: "server-metadata-differs", Severity: Warning, Rule: "RFC 8414 section 5",
		Title:    "The two kinds of metadata differ",
		Symptoms: []string{"some clients connect, others do not"},
		Mend:     "Make both documents from one source.",
	}, each(func(s *server, d *document) string {
		for _, other := range s.documents {
			if other != d && other.found() && differ(d, other, "issuer", "authorization_endpoint", "token_endpoint", "registration_endpoint", "code_challenge_methods_supported") {
				return fmt.Sprintf("%s and %s", clean(d.url), clean(other.url))
			}
		}
		return ""
	})},
	{Entry{
		ID: "issuer-missing", Severity: Error, Rule: "RFC 8414 section 2",
		Title:    "The metadata has no issuer",
		Symptoms: []string{"issuer: Required", "issuer mismatch"},
		Mend:     "Add issuer, byte for byte as in authorization_servers of the resource metadata.",
		Clients:  everyone,
	}, each(func(_ *server, d *document) string {
		return when(d.text("issuer") == "", clean(d.url)+" has no issuer")
	})},
	{Entry{
		ID: "issuer-slash", Severity: Error, Rule: "RFC 8414 section 3.3; MCP Authorization Server Metadata Discovery",
		Title:    "The issuer differs in the slash at the end",
		Symptoms: []string{"issuer mismatch", "Invalid issuer"},
		Mend:     "Write the issuer in authorization_servers exactly as the metadata of the authorization server has it.",
		Mends: map[string]string{
			"Auth0":     "the issuer has a slash at the end: https://TENANT.auth0.com/.",
			"authentik": "the issuer of a provider has a slash at the end: https://HOST/application/o/SLUG/.",
		},
		Clients: bySlash,
	}, issuerDiffers(true)},
	{Entry{
		ID: "issuer-mismatch", Severity: Error, Rule: "RFC 8414 section 3.3; MCP Authorization Server Metadata Discovery",
		Title:    "The metadata is of another issuer",
		Symptoms: []string{"issuer mismatch", "Issuer in metadata does not match", "mix-up"},
		Mend:     "Set the public URL of the authorization server as its issuer, and write the same into authorization_servers.",
		Mends: map[string]string{
			"Keycloak": "set KC_HOSTNAME to the public URL, and KC_PROXY_HEADERS behind a proxy.",
			"Entra ID": "the document of v1 has the issuer https://sts.windows.net/TENANT/; use the issuer with /v2.0.",
		},
		Clients: byIssuer,
	}, issuerDiffers(false)},
}

// openIDMembers are required in OpenID Connect metadata, beyond those of RFC 8414.
var openIDMembers = []string{"jwks_uri", "subject_types_supported", "id_token_signing_alg_values_supported"}

// unfound describes where metadata was looked for, "" if there is some or it was not asked.
func (s *server) unfound() string {
	if s.metadata() != nil {
		return ""
	}
	var seen []string
	for _, d := range s.documents {
		if d.open() != "" {
			return ""
		}
		if d.answered() && d.mistake == "" {
			seen = append(seen, d.exchange.String())
		}
	}
	if len(seen) == 0 {
		return ""
	}
	for _, e := range s.calls {
		if e.place == "server.stray" && e.ok() && jsonObject(e.body) {
			return "there is metadata at " + clean(e.url) + ", where clients do not look; " + strings.Join(seen, "; ")
		}
	}
	return strings.Join(seen, "; ")
}

// eachDocument looks at all metadata of all authorization servers, and reports the first fault of
// each.
func eachDocument(look func(*document) string) func(*walk) []string {
	return func(w *walk) (found []string) {
		for _, s := range w.servers {
			for _, d := range s.documents {
				if text := look(d); text != "" {
					found = append(found, text)
					break
				}
			}
		}
		return found
	}
}

func issuerDiffers(slash bool) func(*walk) []string {
	return each(func(s *server, d *document) string {
		issuer := d.text("issuer")
		if issuer == "" || issuer == s.issuer {
			return ""
		}
		onlySlash := strings.TrimSuffix(issuer, "/") == strings.TrimSuffix(s.issuer, "/")
		return when(onlySlash == slash, fmt.Sprintf("%s has issuer %s, expected %s", clean(d.url), quoted(issuer), quoted(s.issuer)))
	})
}

// memberChecks are about what the metadata of an authorization server says.
var memberChecks = []check{
	{Entry{
		ID: "endpoint-missing", Severity: Error, Rule: "RFC 8414 section 2",
		Title:    "The metadata lacks an endpoint",
		Symptoms: []string{"authorization_endpoint: Required", "Invalid URL"},
		Mend:     "List authorization_endpoint and token_endpoint as absolute URLs.",
		Clients:  everyone,
	}, each(func(_ *server, d *document) string {
		for _, name := range []string{"authorization_endpoint", "token_endpoint"} {
			if !sameOrigin(d.text(name), d.text(name)) || !strings.Contains(d.text(name), "://") {
				return fmt.Sprintf("%s has %s %s", clean(d.url), name, quoted(d.text(name)))
			}
		}
		return ""
	})},
	{Entry{
		ID: "pkce-missing", Severity: Error, Rule: "MCP Authorization Code Protection; RFC 8414 section 2",
		Title:    "The metadata does not say that PKCE is supported",
		Symptoms: []string{"does not support PKCE", "code_challenge_methods_supported is missing", "Incompatible auth server: does not support code challenge method S256"},
		Mend:     `Add "code_challenge_methods_supported": ["S256"]. A client must refuse a server without it, even if the server supports PKCE, and some do.`,
		Mends: map[string]string{
			"Entra ID": "its metadata has no such member, although it supports S256: put a server or gateway in front that publishes metadata of its own.",
			"Cognito":  "its metadata has no such member, although it supports S256: put a server or gateway in front that publishes metadata of its own.",
		},
		Clients: []string{goSDK},
	}, each(func(_ *server, d *document) string {
		return when(!d.has("code_challenge_methods_supported"), clean(d.url)+" has no code_challenge_methods_supported")
	})},
	{Entry{
		ID: "pkce-s256", Severity: Error, Rule: "MCP Authorization Code Protection; RFC 7636 section 4.2",
		Title:    "PKCE with S256 is not supported",
		Symptoms: []string{"Incompatible auth server: does not support code challenge method S256"},
		Mend:     `Support S256, and write "code_challenge_methods_supported": ["S256"] (an array).`,
		Clients:  []string{claudeCode, codex, cursor, inspector, mcpRemote, goSDK, typescriptSDK},
	}, each(func(_ *server, d *document) string {
		list, ok := d.list("code_challenge_methods_supported")
		return when(d.has("code_challenge_methods_supported") && (!ok || !slices.Contains(list, "S256")),
			"code_challenge_methods_supported is "+clean(string(marshal(d.members["code_challenge_methods_supported"]))))
	})},
	{Entry{
		ID: "pkce-plain", Severity: Warning, Rule: "RFC 9700 section 2.1.1",
		Title:    "PKCE with plain is supported",
		Symptoms: []string{"code_challenge_method plain"},
		Mend:     "Support S256 only: who can read the request learns the verifier of plain.",
		Mends:    map[string]string{"Keycloak": "set the PKCE method of the client, or of a client policy, to S256."},
	}, each(func(_ *server, d *document) string {
		list, _ := d.list("code_challenge_methods_supported")
		return when(slices.Contains(list, "plain"), "code_challenge_methods_supported has "+quotedAll(list))
	})},
	{Entry{
		ID: "response-types", Severity: Error, Rule: "RFC 8414 section 2",
		Title:    "The metadata does not list the response type code",
		Symptoms: []string{"Incompatible auth server: does not support response type code", "response_types_supported: Required"},
		Mend:     `Write "response_types_supported": ["code"].`,
		Clients:  []string{typescriptSDK, mcpRemote, inspector, claudeCode, cursor, codex},
	}, each(func(_ *server, d *document) string {
		list, _ := d.list("response_types_supported")
		return when(!slices.Contains(list, "code"), "response_types_supported is "+clean(string(marshal(d.members["response_types_supported"]))))
	})},
	{Entry{
		ID: "grant-code", Severity: Error, Rule: "RFC 8414 section 2",
		Title:    "The metadata lists grant types without authorization_code",
		Symptoms: []string{"unsupported grant type authorization_code"},
		Mend:     "Add authorization_code to grant_types_supported.",
	}, each(func(_ *server, d *document) string {
		list, _ := d.list("grant_types_supported")
		return when(d.has("grant_types_supported") && !slices.Contains(list, "authorization_code"), "grant_types_supported has "+quotedAll(list))
	})},
	{Entry{
		ID: "grant-refresh", Severity: Warning, Rule: "RFC 8414 section 2; MCP Refresh Tokens",
		Title:    "The metadata does not list refresh tokens",
		Symptoms: []string{"signed out every hour", "client asks to sign in again and again"},
		Mend:     "Issue refresh tokens to clients that ask for the grant type refresh_token, and list it.",
	}, each(func(_ *server, d *document) string {
		list, _ := d.list("grant_types_supported")
		return when(d.has("grant_types_supported") && !slices.Contains(list, "refresh_token"), "grant_types_supported has "+quotedAll(list))
	})},
	{Entry{
		ID: "grant-types-missing", Severity: Note, Rule: "RFC 8414 section 2; MCP Refresh Tokens",
		Title:    "The metadata does not say which grant types there are",
		Symptoms: []string{"signed out every hour"},
		Mend:     "List authorization_code and refresh_token: without the member, clients assume authorization_code and implicit. The server may issue refresh tokens all the same.",
	}, each(func(_ *server, d *document) string {
		return when(!d.has("grant_types_supported"), clean(d.url)+" has no grant_types_supported")
	})},
	{Entry{
		ID: "iss-missing", Severity: Warning, Rule: "RFC 9207 section 3; MCP Authorization Response Validation",
		Title:    "The server does not name itself in authorization responses",
		Symptoms: []string{"iss missing in the authorization response"},
		Mend:     "Send iss in each authorization response, also errors, and then write \"authorization_response_iss_parameter_supported\": true. It protects clients of several servers from mix-up.",
	}, each(func(_ *server, d *document) string {
		return when(!d.yes("authorization_response_iss_parameter_supported"), clean(d.url)+" has no authorization_response_iss_parameter_supported: true")
	})},
	{Entry{
		ID: "algorithm-none", Severity: Error, Rule: "RFC 8725 section 3.1; RFC 8414 section 2",
		Title:    "The metadata offers signatures with none",
		Symptoms: []string{"alg none"},
		Mend:     "Remove none from the lists of signing algorithms.",
	}, each(func(_ *server, d *document) string {
		for _, name := range []string{"token_endpoint_auth_signing_alg_values_supported", "dpop_signing_alg_values_supported"} {
			if list, _ := d.list(name); slices.Contains(list, "none") {
				return name + " has " + quotedAll(list)
			}
		}
		return ""
	})},
}
