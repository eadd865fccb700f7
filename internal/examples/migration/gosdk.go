package migration

import (
	"context"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
)

func goSDKBefore(resource, issuer string, handler http.Handler) (http.Handler, error) {
	provider, err := oidc.NewProvider(context.Background(), issuer)
	if err != nil {
		return nil, err
	}
	verifier := provider.Verifier(&oidc.Config{ClientID: resource})
	check := func(ctx context.Context, raw string, _ *http.Request) (*auth.TokenInfo, error) {
		token, err := verifier.Verify(ctx, raw)
		if err != nil {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: token.Subject, Expiration: token.Expiry}, nil
	}
	where, err := metadata.ResourceMetadataURL(resource)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", auth.RequireBearerToken(check, &auth.RequireBearerTokenOptions{ResourceMetadataURL: where})(handler))
	mux.Handle("/.well-known/oauth-protected-resource/mcp", auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource:             resource,
		AuthorizationServers: []string{issuer},
	}))
	return mux, nil
}

func goSDKSubject(r *http.Request) string {
	info := auth.TokenInfoFromContext(r.Context())
	if info == nil {
		return ""
	}
	return info.UserID
}

func goSDKAfter(resource, issuer string, handler http.Handler) (http.Handler, error) {
	guard, err := middleware.New(middleware.Config{
		Resource:             resource,
		AuthorizationServers: []string{issuer},
	})
	if err != nil {
		return nil, err
	}
	return serve(guard, knownToSDK(handler)), nil
}

// knownToSDK tells the SDK whom the guard let through, so that tools find auth.TokenInfo as before.
func knownToSDK(next http.Handler) http.Handler {
	check := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		token, ok := middleware.TokenFrom(ctx)
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: token.Principal(), Scopes: token.Scopes, Expiration: token.Expiry}, nil
	}
	known := auth.RequireBearerToken(check, &auth.RequireBearerTokenOptions{ClockSkew: time.Minute})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer verified")
		known.ServeHTTP(w, r)
	})
}
