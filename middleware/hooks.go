package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
)

// Hook begins to watch one piece of work for an issuer, for metrics and traces. It returns the
// context for the work, which descends from ctx, so that a span in it is the parent of those of
// [Config.Client]; and a function that is called once at the end, with the failure or nil. Either
// may be nil. The issuer is one of the configured ones, so it can be a label.
//
// ctx has the values of the request that needed the work first, and not its end: others wait for
// the same work. A hook runs in the way of requests and must not block. A hook that panics changes
// nothing: it is logged, and the work goes on.
type Hook func(ctx context.Context, issuer string) (context.Context, func(error))

// begin calls the hook, and returns a context and a function that are not nil.
func (h Hook) begin(ctx context.Context, issuer string, log *slog.Logger) (in context.Context, end func(error)) {
	in, end = ctx, func(error) {}
	if h == nil {
		return in, end
	}
	defer caught(log, issuer)
	given, ended := h(ctx, issuer)
	if given != nil {
		in = given
	}
	if ended != nil {
		end = func(err error) {
			defer caught(log, issuer)
			ended(err)
		}
	}
	return in, end
}

// caught ends a panic of a hook.
func caught(log *slog.Logger, issuer string) {
	if why := recover(); why != nil {
		log.Error("a hook panicked", slog.String("issuer", issuer), slog.String("panic", fmt.Sprint(why)))
	}
}

// outlived returns a context for work that others wait for too: with the values of ctx for a hook,
// and without any if there is none.
func (h Hook) outlived(ctx context.Context) context.Context {
	if h == nil {
		return withRequestID(ctx)
	}
	return context.WithoutCancel(ctx)
}

// fetchKeys fetches the keys of the issuer.
func (i *issuer) fetchKeys(ctx context.Context) (fetched, error) {
	ctx, end := i.watch.begin(ctx, i.name, i.log)
	got, err := i.fetch.keys(ctx, i)
	end(err)
	return got, err
}

// watchedRequest is [introspector.request] with the hook. A token that is not valid is no failure.
func (i *introspector) watchedRequest(ctx context.Context, token string) (answer, error) {
	ctx, end := i.watch.begin(ctx, i.issuer.name, i.issuer.log)
	got, err := i.request(ctx, token)
	if isRefusal(err) {
		end(nil)
	} else {
		end(err)
	}
	return got, err
}

// Reason is why a guard decided as it did: one of the constants below, so that it can be a label
// of metrics. A later version may have more.
type Reason string

// The reasons.
const (
	// ReasonAllowed is for a request that was let through.
	ReasonAllowed Reason = "allowed"
	// ReasonNoToken is for a request that needs a token and has none: 401.
	ReasonNoToken Reason = "no_token"
	// ReasonBadToken is for a token that is not valid here: 401.
	ReasonBadToken Reason = "bad_token"
	// ReasonScope is for a token that does not cover the operation: 403.
	ReasonScope Reason = "insufficient_scope"
	// ReasonNotNamed is for an operation or route that the policy allows to nobody: 403.
	ReasonNotNamed Reason = "not_named"
	// ReasonForeignPage is for a web page that may not call a server on loopback: 403.
	ReasonForeignPage Reason = "foreign_page"
	// ReasonSession is for a session of somebody else, or one that has ended: 404.
	ReasonSession Reason = "session"
	// ReasonMalformed is for malformed credentials: 400 with invalid_request.
	ReasonMalformed Reason = "malformed"
	// ReasonUnclear is for a message, a path or a handle that cannot be judged: any other 4xx.
	ReasonUnclear Reason = "unclear"
	// ReasonUnavailable is for a token that cannot be verified at the moment: 503.
	ReasonUnavailable Reason = "unavailable"
)

// reason returns the reason of a refusal.
func (c *challenge) reason() Reason {
	switch {
	case c.status >= http.StatusInternalServerError:
		return ReasonUnavailable
	case c.status == http.StatusUnauthorized && c.code == "":
		return ReasonNoToken
	case c.status == http.StatusUnauthorized:
		return ReasonBadToken
	case c.code == "insufficient_scope":
		return ReasonScope
	case c.status == http.StatusForbidden:
		return ReasonNotNamed
	case c.status == http.StatusNotFound:
		return ReasonSession
	case c.code == "invalid_request":
		return ReasonMalformed
	}
	return ReasonUnclear
}

// Part is a group of rules by which a guard judges a request.
type Part string

// The parts, in the order in which they come. A request that is refused has none after that.
const (
	// PartToken verifies the access token. It contains what its issuer is asked.
	PartToken Part = "token"
	// PartProof checks that the sender has what the token is bound to, where the guard accepts such
	// tokens.
	PartProof Part = "proof"
	// PartPolicy reads the message, if the policy needs it, and judges what the token may do.
	PartPolicy Part = "policy"
)

// PartHook begins to watch a part of a request. It returns the context for the part, which descends
// from ctx, and a function that is called once at the end with the outcome. Either may be nil. It runs
// in the goroutine of the request and must not block.
type PartHook func(ctx context.Context, part Part) (context.Context, func(Reason))

// begin begins a part of a request. The request that it returns is for the part. Without a hook it
// is the same, and nothing is allocated.
func (h PartHook) begin(r *http.Request, part Part) (*http.Request, func(Reason)) {
	if h == nil {
		return r, nil
	}
	ctx, end := h(r.Context(), part)
	if ctx != nil {
		r = r.WithContext(ctx)
	}
	return r, end
}

// ended calls a function of [PartHook.begin] with the reason of an error, nil for none.
func ended(end func(Reason), err error) {
	if end == nil {
		return
	}
	var c challenge
	switch {
	case err == nil:
		end(ReasonAllowed)
	case errors.As(err, &c):
		end(c.reason())
	default:
		end(ReasonUnavailable)
	}
}
