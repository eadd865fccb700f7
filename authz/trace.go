package authz

import (
	"context"
	"errors"
	"net/http"

	"gatehouse.example/authz/internal/passkey"
)

// Trace are functions by which a server tells which parts a request has and how long each takes,
// for traces. Either may be nil. They are called from the goroutine of the request and must not
// block. As in an [Observation], every value is of a closed set; only the request itself is what a
// client sent, so an implementation must not keep its path, query, headers or body.
type Trace struct {
	// Request is called at the beginning of a request. It returns a context for it, which descends
	// from that of r, and a function that is called once at its end, with the [Answered]
	// observation; Grant and Code are those of a refusal. Either may be nil.
	Request func(w http.ResponseWriter, r *http.Request) (context.Context, func(Observation))
	// Part is called at the beginning of a part. It returns a context for what is done in it, and a
	// function that is called once at its end: with "" or with one of [Codes]; or with any other
	// word, if there is no code for what happened. Either may be nil.
	Part func(ctx context.Context, part Part) (context.Context, func(code string))
}

// Part is a part of a request: a group of rules, or work that takes time.
type Part string

// The parts.
const (
	// PartClient finds a client, and at the token and revocation endpoints authenticates it. It
	// contains the fetch of a client metadata document.
	PartClient Part = "client"
	// PartResourceServer authenticates who introspects.
	PartResourceServer Part = "resource_server"
	// PartAuthorization checks an authorization request.
	PartAuthorization Part = "authorization"
	// PartRedeem and PartRefresh judge a code or a refresh token with its grant, and make tokens.
	PartRedeem  Part = "redeem"
	PartRefresh Part = "refresh"
	// PartSign signs an access token.
	PartSign Part = "sign"
	// PartIntrospect judges a token for a resource server.
	PartIntrospect Part = "introspect"
	// PartPassword and PartPasskey check how a person signs in. The first contains the wait for a
	// processor.
	PartPassword Part = "password"
	PartPasskey  Part = "passkey"
	// PartProvider asks an identity provider who came back from it.
	PartProvider Part = "provider"
	// PartGrant stores what a person allowed.
	PartGrant Part = "grant"
)

// begin begins a request. Neither result is nil.
func (t Trace) begin(w http.ResponseWriter, r *http.Request) (context.Context, func(Observation)) {
	ctx, end := r.Context(), func(Observation) {}
	if t.Request == nil {
		return ctx, end
	}
	given, ended := t.Request(w, r)
	if given != nil {
		ctx = given
	}
	if ended != nil {
		end = ended
	}
	return ctx, end
}

func untraced(error) {}

// partIn begins a part. It returns the context for what is done in it, and a function to call at
// its end with the error. Without [Config.Trace] that costs nothing.
func (s *Server) partIn(ctx context.Context, part Part) (context.Context, func(error)) {
	if s.cfg.Trace.Part == nil {
		return ctx, untraced
	}
	given, end := s.cfg.Trace.Part(ctx, part)
	if given != nil {
		ctx = given
	}
	if end == nil {
		return ctx, untraced
	}
	return ctx, func(err error) { end(s.codeOf(err)) }
}

// part is [Server.partIn] for a request.
func (s *Server) part(r *http.Request, part Part) (*http.Request, func(error)) {
	if s.cfg.Trace.Part == nil {
		return r, untraced
	}
	ctx, end := s.partIn(r.Context(), part)
	return r.WithContext(ctx), end
}

// signing begins [PartSign].
func (s *Server) signing(ctx context.Context) func(error) {
	_, end := s.partIn(ctx, PartSign)
	return end
}

// codeOf returns the error code of an error, "" for nil.
func (s *Server) codeOf(err error) string {
	var (
		api        *apiError
		shown      *displayedError
		redirected *redirectedError
		refused    *refusedSignIn
		passkeys   *passkey.Refused
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &api):
		return api.code
	case errors.As(err, &redirected):
		return redirected.code
	case errors.As(err, &shown):
		return shown.code
	case errors.As(err, &refused), errors.As(err, &passkeys):
		return codeAccessDenied
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return s.internal(nil, err).code
}
