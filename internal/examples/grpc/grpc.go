// Package grpc shows how a server of gRPC judges tokens by the guard of package middleware: the
// same issuers, keys and rules, in interceptors in place of a handler.
package grpc

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"gatehouse.example/middleware"
)

// Scopes are the scopes that each method needs, by its full name, such as
// "/notes.Notes/List". A method that is not named is allowed to nobody.
type Scopes map[string][]string

// Interceptors returns the options for a server whose calls need a token of the guard. Errors
// are Unauthenticated without a good token, PermissionDenied without the scopes, and Unavailable
// while the token cannot be verified: a client must not discard it then. The server needs TLS,
// like any that gets tokens.
func Interceptors(guard *middleware.Guard, scopes Scopes) []grpc.ServerOption {
	unary := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		ctx, cancel, err := admit(ctx, guard, scopes, info.FullMethod)
		if err != nil {
			return nil, err
		}
		defer cancel()
		return next(ctx, request)
	}
	stream := func(server any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		ctx, cancel, err := admit(s.Context(), guard, scopes, info.FullMethod)
		if err != nil {
			return err
		}
		defer cancel()
		return next(server, judged{s, ctx})
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

// leeway is for how long a guard accepts a token after its expiry, unless Issuer.Leeway says
// otherwise.
const leeway = 10 * time.Second

// admit returns the context for a call that is allowed: with the token, without its text, and with
// an end when the token is no longer accepted.
func admit(ctx context.Context, guard *middleware.Guard, scopes Scopes, method string) (context.Context, context.CancelFunc, error) {
	in, _ := metadata.FromIncomingContext(ctx)
	raw, err := bearer(in.Get("authorization"))
	if err != nil {
		return nil, nil, err
	}
	token, err := guard.Verify(ctx, raw)
	switch needed, named := scopes[method]; {
	case errors.Is(err, middleware.ErrUnavailable):
		return nil, nil, status.Error(codes.Unavailable, "the access token cannot be checked at the moment")
	case err != nil:
		return nil, nil, status.Error(codes.Unauthenticated, "the access token is not accepted")
	case !named:
		return nil, nil, status.Error(codes.PermissionDenied, "this method is allowed to nobody")
	case !token.HasScope(needed...):
		return nil, nil, status.Error(codes.PermissionDenied, "the access token needs the scopes "+strings.Join(needed, " "))
	}
	in = in.Copy()
	in.Delete("authorization")
	ctx = context.WithValue(metadata.NewIncomingContext(ctx, in), tokenKey{}, token)
	ctx, cancel := context.WithDeadline(ctx, token.Expiry.Add(leeway))
	return ctx, cancel, nil
}

// bearer returns the token in the metadata of a call.
func bearer(values []string) (string, error) {
	if len(values) == 1 {
		if scheme, token, ok := strings.Cut(values[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
			return token, nil
		}
	}
	return "", status.Error(codes.Unauthenticated, "send one access token, as authorization: Bearer")
}

type tokenKey struct{}

// TokenFrom returns the token of the caller, in the context of a call.
func TokenFrom(ctx context.Context) (*middleware.Token, bool) {
	token, ok := ctx.Value(tokenKey{}).(*middleware.Token)
	return token, ok
}

// judged is a stream with the context of admit.
type judged struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context of the call.
func (s judged) Context() context.Context { return s.ctx }
