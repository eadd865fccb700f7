package migration

import (
	"context"
	"net/http"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"gatehouse.example/middleware"
)

type subjectKey struct{}

func goOIDCBefore(resource, issuer string, handler http.Handler) (http.Handler, error) {
	provider, err := oidc.NewProvider(context.Background(), issuer)
	if err != nil {
		return nil, err
	}
	verifier := provider.Verifier(&oidc.Config{ClientID: resource})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		token, err := verifier.Verify(r.Context(), raw)
		if err != nil {
			http.Error(w, "no valid token", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), subjectKey{}, token.Subject)))
	}), nil
}

func goOIDCSubject(r *http.Request) string {
	subject, _ := r.Context().Value(subjectKey{}).(string)
	return subject
}

func goOIDCAfter(resource, issuer string, handler http.Handler) (http.Handler, error) {
	guard, err := middleware.New(middleware.Config{
		Resource:             resource,
		AuthorizationServers: []string{issuer},
	})
	if err != nil {
		return nil, err
	}
	return serve(guard, handler), nil
}
