package authz

import (
	"context"
	"errors"
	"net/http"

	"gatehouse.example/authz/internal/passkey"
	"gatehouse.example/dcr"
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
	// PartRegistration judges the registration of a client, or a change of one.
	PartRegistration Part = "registration"
	// PartClient finds a client, and at the token and revocation endpoints authenticates it.
	PartClient Part = "client"
	// PartDocument waits for the metadata document or the keys of a client, inside [PartClient]. What
	// is in a cache has no such part.
	PartDocument Part = "document"
	// PartResourceServer authenticates who introspects.
	PartResourceServer Part = "resource_server"
	// PartAuthorization checks an authorization request.
	PartAuthorization Part = "authorization"
	// PartRedeem and PartRefresh judge a code or a refresh token with its grant, and make tokens.
	PartRedeem  Part = "redeem"
	PartRefresh Part = "refresh"
	// PartSign signs an access token.
	PartSign Part = "sign"
	// PartRevoke judges the token that a client gives back, and ends it.
	PartRevoke Part = "revoke"
	// PartIntrospect judges a token for a resource server.
	PartIntrospect Part = "introspect"
	// PartPassword and PartPasskey check how a person signs in. The first contains the wait for a
	// processor.
	PartPassword Part = "password"
	PartPasskey  Part = "passkey"
	// PartSecondFactor checks the second factor of a person who signs in.
	PartSecondFactor Part = "second_factor"
	// PartProvider asks an identity provider who came back from it.
	PartProvider Part = "provider"
	// PartProviderLogout judges the logout token of an identity provider.
	PartProviderLogout Part = "provider_logout"
	// PartGrant stores what a person allowed.
	PartGrant Part = "grant"
	// PartAccount judges a form by which people change what is theirs: sessions, grants, passwords,
	// passkeys, second factors and accounts at providers.
	PartAccount Part = "account"
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

// asPart returns a handler that is a part of each of its requests.
func (s *Server) asPart(part Part, h handler) handler {
	if s.cfg.Trace.Part == nil {
		return h
	}
	return func(w http.ResponseWriter, r *http.Request) (err error) {
		r, end := s.part(r, part)
		defer func() { end(err) }()
		return h(w, r)
	}
}

// inPart is [Server.asPart] for a handler that writes its errors itself, and reports their code to
// [Server.sawRefusal].
func (s *Server) inPart(part Part, next http.Handler) http.Handler {
	if s.cfg.Trace.Part == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := s.cfg.Trace.Part(r.Context(), part)
		if ctx != nil {
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
		if seen := sightingOf(r.Context()); end != nil && seen != nil {
			end(seen.code)
		}
	})
}

// fetching begins [PartDocument], by the configuration in force: clients of an earlier one live on.
func (s *Server) fetching() func(context.Context) (context.Context, func(error)) {
	if s.cfg.Trace.Part == nil {
		return nil
	}
	latest := &s.latest
	return func(ctx context.Context) (context.Context, func(error)) {
		ctx, end := latest.Load().partIn(ctx, PartDocument)
		return ctx, func(err error) {
			if err != nil && !errors.Is(err, dcr.ErrUnreachable) {
				err = refuse(codeInvalidClient, "") // what was read is not what it should be
			}
			end(err)
		}
	}
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
