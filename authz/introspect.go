package authz

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"strings"

	"gatehouse.example/authz/internal/keyring"
	"gatehouse.example/storage"
)

// introspection is the response of RFC 7662 section 2.2. For an inactive token it has no
// member but active.
type introspection struct {
	Active    bool             `json:"active"`
	Scope     string           `json:"scope,omitempty"`
	ClientID  string           `json:"client_id,omitempty"`
	TokenType string           `json:"token_type,omitempty"`
	Expires   int64            `json:"exp,omitempty"`
	IssuedAt  int64            `json:"iat,omitempty"`
	Subject   string           `json:"sub,omitempty"`
	Audience  keyring.Audience `json:"aud,omitempty"`
	Issuer    string           `json:"iss,omitempty"`
	ID        string           `json:"jti,omitempty"`
	keyring.About
}

// introspect handles POST /introspect (RFC 7662). Resource servers authenticate with their
// own credentials and learn about access tokens for themselves only: a token for another
// resource, a refresh token or a forged token is inactive, without a reason.
func (s *Server) introspect(w http.ResponseWriter, r *http.Request) error {
	f, err := introspectForm.body(w, r)
	if err != nil {
		return err
	}
	set := s.resources.take(r.Context())
	resource, err := s.resourceServer(r, set)
	if err != nil {
		return err
	}
	if f.get("token") == "" {
		return invalidRequest("the parameter token is missing")
	}
	answer, err := s.inspect(r, set, resource, f.get("token"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// inspect returns the state of a token. The grant determines whether the family is alive, and
// whether the calling resource is still part of it and with which scopes; where that or what the
// resource is told depends on the person, the person now (see [resourceSet.goodFor]). If the record cannot be read, it is unknown whether the token is active, and
// inspect returns an error.
func (s *Server) inspect(r *http.Request, set *resourceSet, resource Resource, token string) (_ introspection, err error) {
	r, end := s.part(r, PartIntrospect)
	defer func() { end(err) }()
	claims, err := s.keys.Verify(token)
	switch {
	case errors.Is(err, keyring.ErrToken):
		return introspection{}, nil
	case err != nil:
		return introspection{}, err
	case !slices.Contains(claims.Audience, resource.URI):
		return introspection{}, nil
	}
	g, holder, err := s.people.Grant(r.Context(), claims.GrantID, set.isPersonal)
	if errors.Is(err, storage.ErrNotFound) || (err == nil && g.State != storage.GrantActive) {
		return introspection{}, nil
	}
	if err != nil {
		return introspection{}, err
	}
	now, err := set.goodFor(set.allowedBy(g), holder)
	if err != nil {
		return introspection{}, err
	}
	allowed, ok := now.At(resource.URI)
	if !ok {
		return introspection{}, nil
	}
	here := slices.DeleteFunc(strings.Fields(claims.Scope), func(scope string) bool { return !slices.Contains(allowed.Scopes, scope) })
	return introspection{
		Active: true, Scope: strings.Join(here, " "), ClientID: claims.ClientID, TokenType: "Bearer", Expires: claims.Expires,
		IssuedAt: claims.IssuedAt, Subject: claims.Subject, Audience: claims.Audience, Issuer: claims.Issuer, ID: claims.ID,
		About: about(holder, resource.Claims, maxToldGroups),
	}, nil
}

// resourceServer authenticates a resource server with HTTP Basic. These credentials are
// separate from those of clients: neither kind is accepted in place of the other.
func (s *Server) resourceServer(r *http.Request, set *resourceSet) (_ Resource, err error) {
	r, end := s.part(r, PartResourceServer)
	defer func() { end(err) }()
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return Resource{}, invalidClient("a resource server authenticates with one HTTP Basic header")
	}
	credentials, err := basic(headers[0], "")
	if err != nil {
		return Resource{}, err
	}
	wrong := ""
	for _, c := range credentials.readings {
		resource, name, right := set.server(c.id, c.secret)
		if right {
			return resource, nil
		}
		if name != "" {
			wrong = "resource server " + name
		}
	}
	return Resource{}, s.wrongSecret(r, wrong, invalidClient("the resource server is not known, or its secret is not right"))
}

// sameSecret compares in constant time, also for different lengths.
func sameSecret(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
