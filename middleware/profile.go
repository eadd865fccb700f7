package middleware

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Profile is a form of access tokens: the names of their claims, their types and algorithms, and
// the evidence that a token is an access token and not another token of the same issuer. The zero
// value is [RFC9068].
//
// All profiles check signature, issuer, audience, subject, client, time of issue and expiry, and
// refuse tokens that are bound to a key. Each names below what it gives up in comparison with
// RFC 9068.
type Profile int

const (
	// RFC9068 is the form of RFC 9068: the header says that the token is an access token ("typ"
	// at+jwt), the client is "client_id", and the scopes are "scope". Algorithms: ES256, EdDSA,
	// RS256, PS256.
	RFC9068 Profile = iota
	// Keycloak accepts access tokens of Keycloak. It gives up the type in the header, which is
	// JWT unless the client has the setting for at+jwt; the evidence is the claim "typ", which
	// must be Bearer. The client is "azp", the scopes are "scope". All algorithms are accepted,
	// because each realm chooses its own.
	//
	// Keycloak puts the resource into "aud" only where a client scope with an audience mapper
	// tells it to.
	Keycloak
	// Auth0 accepts access tokens of Auth0 in both of its forms: its own, and that of RFC 9068.
	// It gives up the type in the header, which may be JWT. The evidence is a client in "azp" or
	// "client_id", and one of the claims "scope", "permissions", "gty" and "client_id", which ID
	// tokens do not have. A token whose audience contains its client is refused, and so is one
	// with "nonce", "at_hash", "c_hash", "events" or "typ" among its claims. The scopes are
	// "scope"; set [Issuer.ScopeClaim] to permissions to use those instead. Algorithms: RS256,
	// PS256.
	Auth0
	// Okta accepts access tokens of Okta's custom authorization servers. It gives up the type in
	// the header, which is absent or JWT. The evidence is the client, in "cid". A token whose
	// audience contains its client is refused, and so is one with "nonce", "at_hash", "c_hash"
	// or "events". The scopes are the array "scp". Algorithm: RS256.
	//
	// Tokens of the authorization server of an organisation have a type of their own and are
	// refused: Okta publishes no rules by which others could judge them.
	Okta
	// Entra accepts access tokens of Microsoft Entra ID, of version 1.0 (the issuer is
	// https://sts.windows.net/TENANT/ and the client is "appid") and 2.0 (the issuer is
	// https://login.microsoftonline.com/TENANT/v2.0 and the client is "azp"). It gives up the
	// type in the header, which is JWT. The evidence is "scp", or "roles" together with "idtyp"
	// app, "azpacr" or "appidacr"; "ver" and "tid" must be those of the issuer. A token with
	// "nonce" in its header is meant for Microsoft's own services and is refused, and so is one
	// with "nonce", "at_hash", "c_hash" or "events" among its claims. The scopes are "scp", or
	// "roles" for a program that acts for itself. Algorithm: RS256.
	//
	// The subject is "sub", which is another one for each application.
	Entra
	// Cognito accepts access tokens of Amazon Cognito's user pools. It gives up the type in the
	// header, which is absent; the evidence is the claim "token_use", which must be access. The
	// client is "client_id", the scopes are "scope". Algorithm: RS256.
	//
	// Cognito puts an audience into an access token only if the client asked for one; see
	// [Issuer.InsecureNoAudience].
	Cognito
	// Google accepts access tokens of Google, which are opaque: each is looked up at Google's
	// tokeninfo, which needs [Config.Introspection] with Opaque and no credentials. It gives up the
	// audience, and so needs [Issuer.InsecureNoAudience]: any server that gets such a token can use
	// it here, and this server could use it at Google. The evidence is that Google knows the token,
	// and names one of the listed clients in "aud", and in "azp" if that is there. The subject is
	// "sub", which Google tells only for tokens with the scope openid, profile or email. The scopes
	// are those of Google; see [Issuer.ScopeMap]. ID tokens are refused, and so is everything else
	// that does not begin with ya29, without a question to Google. A revoked token works until
	// [Introspection.Fresh] is over.
	Google
	// GitHub accepts tokens of users for an OAuth application (gho_) or a GitHub App (ghu_), which
	// are opaque: each is looked up by GitHub's API, which needs [Config.Introspection] with Opaque
	// and the credentials of the application. It gives up the audience, and so needs
	// [Issuer.InsecureNoAudience], with the client ID of that application alone: any server that
	// gets such a token can use it here, and this server could use it at GitHub, as its user. The
	// evidence is that GitHub knows the token as one of the application. The subject is the
	// number of the user, because names pass from one user to another. The scopes are those of
	// GitHub; see [Issuer.ScopeMap]. Personal access tokens, tokens of installations and refresh
	// tokens are refused without a question to GitHub. A revoked token works until
	// [Introspection.Fresh] is over; of a token without an end, [Token.Expiry] is an hour after it
	// was looked up.
	GitHub
)

// String returns the name of the profile.
func (p Profile) String() string {
	if !p.known() {
		return fmt.Sprintf("Profile(%d)", int(p))
	}
	return tokenForms[p].name
}

func (p Profile) known() bool { return p >= 0 && int(p) < len(tokenForms) }

// tokenForm holds the defaults of a profile.
type tokenForm struct {
	name       string
	types      []string // as in tokenRules
	algorithms []jose.SignatureAlgorithm
	clients    []string // as in tokenRules
	scopes     []string // as in tokenRules
	lists      bool     // as in tokenRules
	evidence   func(*tokenRules, members, *jwtClaims) bool
	provider   *opaqueTokens // nil for tokens that are JWTs
}

var (
	// defaultAlgorithms are the algorithms of RFC9068. All algorithms are asymmetric: with
	// "none" or HS256, an attacker could sign (RFC 8725 section 3.1 and 3.2).
	defaultAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256, jose.PS256}
	// allAlgorithms are those that an issuer can have.
	allAlgorithms = append(slices.Clone(defaultAlgorithms), jose.ES384, jose.ES512, jose.RS384, jose.RS512, jose.PS384, jose.PS512)

	onlyRS256 = []jose.SignatureAlgorithm{jose.RS256}
)

// tokenForms holds the forms of all profiles. Their sources: "Securing applications and services"
// of Keycloak; "Access Token Profiles" of Auth0; "Access token payload" in "OpenID Connect & OAuth
// 2.0 API" of Okta; "Access token claims reference" of Microsoft; "Understanding the access token"
// of Amazon. Those of opaque tokens are at googleTokens and githubTokens.
var tokenForms = [...]tokenForm{
	RFC9068: {
		name: "RFC9068", types: []string{"at+jwt"}, algorithms: defaultAlgorithms,
		clients: []string{"client_id"}, scopes: []string{"scope"}, evidence: (*tokenRules).isTyped,
	},
	Keycloak: {
		name: "Keycloak", types: []string{"jwt", "at+jwt"}, algorithms: allAlgorithms,
		clients: []string{"azp"}, scopes: []string{"scope"}, evidence: (*tokenRules).isKeycloak,
	},
	Auth0: {
		name: "Auth0", types: []string{"jwt", "at+jwt"}, algorithms: []jose.SignatureAlgorithm{jose.RS256, jose.PS256},
		clients: []string{"azp", "client_id"}, scopes: []string{"scope"}, evidence: (*tokenRules).isAuth0,
	},
	Okta: {
		name: "Okta", types: []string{"", "jwt"}, algorithms: onlyRS256,
		clients: []string{"cid"}, scopes: []string{"scp"}, lists: true, evidence: (*tokenRules).isOkta,
	},
	Entra: {
		name: "Entra", types: []string{"jwt"}, algorithms: onlyRS256,
		scopes: []string{"scp", "roles"}, lists: true, evidence: (*tokenRules).isEntra,
	},
	Cognito: {
		name: "Cognito", types: []string{""}, algorithms: onlyRS256,
		clients: []string{"client_id"}, scopes: []string{"scope"}, evidence: (*tokenRules).isCognito,
	},
	Google: {
		name: "Google", algorithms: onlyRS256, scopes: []string{"scope"}, evidence: (*tokenRules).isNoJWT, provider: &googleTokens,
	},
	GitHub: {
		name: "GitHub", algorithms: onlyRS256, scopes: []string{"scopes"}, lists: true, evidence: (*tokenRules).isNoJWT, provider: &githubTokens,
	},
}

// isTyped is the evidence of RFC 9068: the type in the header, which is checked elsewhere. If
// that is configured to be another type, the token must not look like an ID token.
func (r *tokenRules) isTyped(m members, c *jwtClaims) bool {
	return slices.Contains(r.types, "at+jwt") || !m.mark("nonce") && !c.sentToItsClient()
}

func (r *tokenRules) isKeycloak(m members, c *jwtClaims) bool {
	typ := m.text("typ") // of a token that is bound to a key it is DPoP
	return (typ == "Bearer" || typ == dpopScheme && c.Confirmation != nil) && !m.mark()
}

func (r *tokenRules) isAuth0(m members, c *jwtClaims) bool {
	return m.has("scope", "permissions", "gty", "client_id") && !m.mark("nonce", "typ") && !c.sentToItsClient()
}

func (r *tokenRules) isOkta(m members, c *jwtClaims) bool {
	return m.text("cid") != "" && !m.mark("nonce") && !c.sentToItsClient()
}

func (r *tokenRules) isEntra(m members, _ *jwtClaims) bool {
	granted := m.text("scp") != "" || m.has("roles") && (m.text("idtyp") == "app" || m.text("azpacr") != "" || m.text("appidacr") != "")
	return granted && m.text("tid") == r.tenant && m.text("ver") == r.version && !m.mark("nonce")
}

func (r *tokenRules) isCognito(m members, _ *jwtClaims) bool {
	return m.text("token_use") == "access" && !m.mark("nonce")
}

// mark reports whether a token has a claim that ID tokens and logout tokens have and access tokens
// do not (OpenID Connect Core section 3.1.3.6 and 3.3.2.11, Back-Channel Logout section 2.4), or
// one of the further claims.
func (m members) mark(further ...string) bool {
	return m.has("at_hash", "c_hash", "events") || m.has(further...)
}

// sentToItsClient reports whether the client of a token is in its audience, as in an ID token
// (OpenID Connect Core section 2).
func (c *jwtClaims) sentToItsClient() bool {
	return slices.Contains(c.Audience, c.ClientID)
}

// entraTemplate is the place of the tenant in the issuers of Entra, as Microsoft's metadata of
// several tenants writes it.
const entraTemplate = "{tenantid}"

// entraIssuer returns the tenant and the version of tokens of an issuer of Entra. It returns
// false for a URL that has neither form.
func entraIssuer(issuer string) (tenant, version string, ok bool) {
	_, rest, _ := strings.Cut(issuer, "://")
	parts := strings.Split(rest, "/")
	switch {
	case len(parts) != 3:
		return "", "", false
	case parts[2] == "":
		return parts[1], "1.0", true
	case parts[2] == "v2.0":
		return parts[1], "2.0", true
	}
	return "", "", false
}

// validTenant reports whether a text is a tenant ID as tokens have it: a UUID in lower case.
func validTenant(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i, c := range []byte(id) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdef", rune(c)) {
			return false
		}
	}
	return true
}
