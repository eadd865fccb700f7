package migration

import (
	"net/http"
	"net/url"
	"time"

	jwtmiddleware "github.com/auth0/go-jwt-middleware/v2"
	"github.com/auth0/go-jwt-middleware/v2/jwks"
	"github.com/auth0/go-jwt-middleware/v2/validator"

	"gatehouse.example/middleware"
)

func auth0Before(resource, issuer string, handler http.Handler) (http.Handler, error) {
	issuerURL, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	keys := jwks.NewCachingProvider(issuerURL, 5*time.Minute)
	check, err := validator.New(keys.KeyFunc, validator.RS256, issuer, []string{resource})
	if err != nil {
		return nil, err
	}
	return jwtmiddleware.New(check.ValidateToken).CheckJWT(handler), nil
}

func auth0Subject(r *http.Request) string {
	claims, ok := r.Context().Value(jwtmiddleware.ContextKey{}).(*validator.ValidatedClaims)
	if !ok {
		return ""
	}
	return claims.RegisteredClaims.Subject
}

func auth0After(resource, issuer string, handler http.Handler) (http.Handler, error) {
	guard, err := middleware.New(middleware.Config{
		Resource: resource,
		Issuers:  []middleware.Issuer{{URL: issuer, Profile: middleware.Auth0}},
	})
	if err != nil {
		return nil, err
	}
	return serve(guard, handler), nil
}

func guardSubject(r *http.Request) string {
	token, ok := middleware.TokenFrom(r.Context())
	if !ok {
		return ""
	}
	return token.Subject
}
