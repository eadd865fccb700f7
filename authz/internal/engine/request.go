package engine

import (
	"net/http"
	"net/url"
	"time"

	"github.com/ory/fosite"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// client is the view of a client in one run: only the redirect URI, resources and scopes that
// were decided on.
type client struct {
	id          string
	public      bool
	grantTypes  []string
	redirectURI string
	resources   []string
	scopes      []string
}

func newClient(c storage.Client, redirectURI string, resources, scopes []string) client {
	return client{id: c.ID, public: c.Metadata.Public(), grantTypes: c.Metadata.GrantTypes, redirectURI: redirectURI, resources: resources, scopes: scopes}
}

func (c *client) GetID() string                      { return c.id }
func (c *client) GetHashedSecret() []byte            { return nil }
func (c *client) GetRedirectURIs() []string          { return []string{c.redirectURI} }
func (c *client) GetGrantTypes() fosite.Arguments    { return c.grantTypes }
func (c *client) GetResponseTypes() fosite.Arguments { return responseTypes }
func (c *client) GetScopes() fosite.Arguments        { return c.scopes }
func (c *client) GetAudience() fosite.Arguments      { return c.resources }
func (c *client) IsPublic() bool                     { return c.public }

// session implements fosite.Session without content: the claims of a token come from the unit
// of work.
type session struct{}

func (*session) SetExpiresAt(fosite.TokenType, time.Time)    {}
func (*session) GetExpiresAt(fosite.TokenType) (t time.Time) { return t }
func (*session) GetUsername() string                         { return "" }
func (*session) GetSubject() string                          { return "" }
func (s *session) Clone() fosite.Session                     { return s }

// The types of the runs. They are shared and never changed.
var (
	responseTypes = fosite.Arguments{"code"}
	ofCode        = fosite.Arguments{metadata.GrantAuthorizationCode}
	ofRefresh     = fosite.Arguments{metadata.GrantRefreshToken}
)

// request is a unit of work as fosite reads it: the request of the client, and the stored
// authorization that belongs to it. Both say what was decided, so what fosite copies from one to the
// other is there already.
type request struct{ *unit }

var (
	_ fosite.AuthorizeRequester = request{}
	_ fosite.AccessRequester    = request{}
)

func (r request) GetID() string                                { return r.grant.ID }
func (r request) GetRequestedAt() time.Time                    { return r.grant.Created }
func (r request) GetClient() fosite.Client                     { return &r.client }
func (r request) GetRequestedScopes() fosite.Arguments         { return r.client.scopes }
func (r request) GetGrantedScopes() fosite.Arguments           { return r.client.scopes }
func (r request) GetRequestedAudience() fosite.Arguments       { return r.client.resources }
func (r request) GetGrantedAudience() fosite.Arguments         { return r.client.resources }
func (r request) GetSession() fosite.Session                   { return &session{} }
func (r request) GetRequestForm() url.Values                   { return r.form }
func (r request) GetGrantTypes() fosite.Arguments              { return r.grantType }
func (r request) Sanitize([]string) fosite.Requester           { return r } // nothing of it is stored
func (request) SetID(string)                                   {}
func (request) SetRequestedScopes(fosite.Arguments)            {}
func (request) SetRequestedAudience(fosite.Arguments)          {}
func (request) AppendRequestedScope(string)                    {}
func (request) GrantScope(string)                              {}
func (request) GrantAudience(string)                           {}
func (request) SetSession(fosite.Session)                      {}
func (request) Merge(fosite.Requester)                         {}
func (request) GetResponseTypes() fosite.Arguments             { return responseTypes }
func (request) SetResponseTypeHandled(string)                  {}
func (request) DidHandleAllResponseTypes() bool                { return true }
func (request) GetRedirectURI() *url.URL                       { return nil } // matched before
func (request) IsRedirectURIValid() bool                       { return true }
func (request) GetState() string                               { return "" } // it does not pass through fosite
func (request) GetResponseMode() fosite.ResponseModeType       { return fosite.ResponseModeQuery }
func (request) SetDefaultResponseMode(fosite.ResponseModeType) {}
func (request) GetDefaultResponseMode() fosite.ResponseModeType {
	return fosite.ResponseModeQuery
}

// answer is a unit of work as fosite writes it: it keeps the tokens.
type answer struct{ *unit }

var (
	_ fosite.AuthorizeResponder = answer{}
	_ fosite.AccessResponder    = answer{}
)

func (a answer) GetCode() string             { return a.code }
func (a answer) SetAccessToken(token string) { a.tokens.Access = token }
func (a answer) GetAccessToken() string      { return a.tokens.Access }

// SetExtra implements [fosite.AccessResponder].
func (a answer) SetExtra(key string, value any) {
	if token, ok := value.(string); ok && key == "refresh_token" {
		a.tokens.Refresh = token
	}
}

func (answer) AddParameter(string, string) {}
func (answer) AddHeader(string, string)    {}
func (answer) GetHeader() http.Header      { return nil }
func (answer) GetParameters() url.Values   { return nil }
func (answer) GetExtra(string) any         { return nil }
func (answer) SetExpiresIn(time.Duration)  {}
func (answer) SetScopes(fosite.Arguments)  {}
func (answer) SetTokenType(string)         {}
func (answer) GetTokenType() string        { return fosite.BearerAccessToken }
func (answer) ToMap() map[string]any       { return nil }
