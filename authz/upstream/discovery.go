package upstream

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"gatehouse.example/internal/strictjson"
)

// metadata is what is used of a provider's metadata (OpenID Connect Discovery section 3,
// RFC 8414, RFC 9207 section 3).
type metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	UserinfoEndpoint      string   `json:"userinfo_endpoint"`
	JWKSURI               string   `json:"jwks_uri"`
	Scopes                []string `json:"scopes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	Algorithms            []string `json:"id_token_signing_alg_values_supported"`
	SendsIssuer           bool     `json:"authorization_response_iss_parameter_supported"`
	Logout                bool     `json:"backchannel_logout_supported"`
}

// discover fetches the metadata, or makes that of GitHub, which publishes none.
func (c *Client) discover(ctx context.Context) (metadata, error) {
	if c.p.Preset == GitHub {
		return githubMetadata(c.p.Issuer), nil
	}
	m, err := c.fetchMetadata(ctx)
	if err != nil {
		c.o.Logger.Warn("a sign-in provider's metadata cannot be used", "provider", c.p.ID, "error", err)
	}
	return m, err
}

func (c *Client) fetchMetadata(ctx context.Context) (m metadata, err error) {
	// OpenID Connect Discovery section 4.1: a slash at the end of the issuer goes first.
	r, err := get(strings.TrimSuffix(c.p.Issuer, "/") + "/.well-known/openid-configuration")
	if err != nil {
		return m, c.own(err)
	}
	answer, err := c.do(ctx, context.Background(), r)
	if err != nil {
		return m, err
	}
	if answer.status != http.StatusOK {
		return m, c.error(ErrUnavailable, ReasonDown, "%s answered %d", place(r), answer.status)
	}
	if err := strictjson.Unmarshal(answer.body, &m, strictjson.Options{MaxBytes: maxBody}); err != nil {
		return m, c.error(ErrInvalid, ReasonNonsense, "%s: %s", place(r), shown(err.Error(), 200))
	}
	return m, c.checkMetadata(m)
}

// checkMetadata compares metadata with the configuration.
func (c *Client) checkMetadata(m metadata) error {
	// The issuer must be the one that was asked for (OpenID Connect Discovery section 4.3).
	if m.Issuer != c.p.metadataIssuer() {
		return c.error(ErrInvalid, ReasonIssuer, "its metadata names the issuer %q, the configuration %q", shown(m.Issuer, 200), c.p.metadataIssuer())
	}
	for name, address := range map[string]string{
		"authorization_endpoint": m.AuthorizationEndpoint, "token_endpoint": m.TokenEndpoint, "jwks_uri": m.JWKSURI, "userinfo_endpoint": m.UserinfoEndpoint,
	} {
		if address == "" && name == "userinfo_endpoint" {
			continue
		}
		if _, err := webAddress(address, c.o.Dev); err != nil {
			return c.error(ErrInvalid, ReasonNonsense, "its metadata has a wrong %s: %s", name, err)
		}
	}
	if !free(m.AuthorizationEndpoint) {
		return c.error(ErrInvalid, ReasonNonsense, "its authorization_endpoint has a query that cannot be read, or parameters of the request itself")
	}
	if len(m.algorithms()) == 0 {
		return c.error(ErrMisconfigured, ReasonUnsupported, "it signs ID tokens with %q, of which none is accepted", shown(strings.Join(m.Algorithms, " "), 200))
	}
	if c.authMethod(m) == "" {
		return c.error(ErrMisconfigured, ReasonUnsupported, "it takes none of the ways this server can prove who it is with the configured secret or key: %q", shown(strings.Join(m.AuthMethods, " "), 200))
	}
	return nil
}

// free reports that the query of an authorization endpoint has none of the parameters that
// [Client.Begin] adds: none may be there twice (RFC 6749 section 3.1).
func free(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	query, err := url.ParseQuery(u.RawQuery)
	return err == nil && !slices.ContainsFunc([]string{
		"response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge", "code_challenge_method",
		"prompt", "max_age", "login_hint", "access_type", "hd",
	}, query.Has)
}

// asymmetric are the algorithms that an ID token may have. A secret between two parties proves
// nothing about who signed, so no HMAC is here, and "none" is not.
var asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// algorithms are those that the provider says it uses and that may be used.
func (m metadata) algorithms() []string {
	if len(m.Algorithms) == 0 {
		return asymmetric
	}
	return slices.DeleteFunc(slices.Clone(asymmetric), func(a string) bool { return !slices.Contains(m.Algorithms, a) })
}

// The ways in which this server proves who it is (OpenID Connect Core section 9).
const (
	secretBasic   = "client_secret_basic"
	secretPost    = "client_secret_post"
	privateKeyJWT = "private_key_jwt"
)

// authMethod returns how this server proves who it is: the first way that the provider lists.
// Without a list it is client_secret_basic (RFC 8414 section 2). Empty is none.
func (c *Client) authMethod(m metadata) string {
	if c.p.ClientKey != nil {
		if m.AuthMethods == nil || slices.Contains(m.AuthMethods, privateKeyJWT) {
			return privateKeyJWT
		}
		return ""
	}
	if m.AuthMethods == nil {
		return secretBasic
	}
	for _, method := range m.AuthMethods {
		if method == secretBasic || method == secretPost {
			return method
		}
	}
	return ""
}

// metadata returns the metadata that all sign-ins share.
func (c *Client) metadata(ctx context.Context) (metadata, error) {
	m, _, err := c.document.get(ctx)
	if err != nil {
		return m, c.waited(ctx, err)
	}
	return m, nil
}

// waited is the error of a wait for something shared.
func (c *Client) waited(ctx context.Context, err error) *Error {
	if ctx.Err() != nil {
		return c.interrupted(ctx)
	}
	return c.own(err)
}
