package traces

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

const (
	keyResource = attribute.Key("gatehouse.resource")
	keyReason   = attribute.Key("gatehouse.reason")
)

// Gateway returns a handler that calls next in a span of the request.
func (t *Traces) Gateway(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, span := t.begin(w, r)
		defer span.End()
		next.ServeHTTP(w, r)
	})
}

// Configure makes the gateway that c configures tell what it decides, asks and forwards.
func (t *Traces) Configure(c *gateway.Config) {
	if t == nil {
		return
	}
	counted, resource := c.Guard.Observe, c.Guard.Resource
	c.Guard.Observe = func(r *http.Request, e middleware.Event) {
		t.decided(r, e, resource)
		if counted != nil {
			counted(r, e)
		}
	}
	c.Guard.ObservePart = t.judging(c.Guard.ObservePart)
	c.Guard.ObserveIntrospection = t.asking("introspection", c.Guard.ObserveIntrospection)
	c.Guard.ObserveKeyFetch = t.asking("key_fetch", c.Guard.ObserveKeyFetch)
	c.Guard.Client = t.client(c.Guard.Client)
	c.WrapTransport = func(to http.RoundTripper) http.RoundTripper { return forwarding{to, t} }
}

// decided writes into the span of a request what a guard decided about it.
func (t *Traces) decided(r *http.Request, e middleware.Event, resource string) {
	whole := spanIn(r.Context())
	if whole == nil || !whole.IsRecording() {
		return
	}
	whole.SetAttributes(append(answered(e.Status), keyResource.String(resource), keyReason.String(string(e.Reason)))...)
	if e.Status >= http.StatusInternalServerError {
		whole.SetStatus(codes.Error, "")
	}
}

// judging makes a span of each part of a decision.
func (t *Traces) judging(counted middleware.PartHook) middleware.PartHook {
	return func(ctx context.Context, part middleware.Part) (context.Context, func(middleware.Reason)) {
		var end func(middleware.Reason)
		if counted != nil {
			ctx, end = counted(ctx, part)
		}
		ctx, span := t.child(ctx, string(part))
		if span == nil {
			return ctx, end
		}
		return ctx, func(reason middleware.Reason) {
			finish(span, reason == middleware.ReasonUnavailable, keyReason.String(string(reason)))
			if end != nil {
				end(reason)
			}
		}
	}
}

// asking returns a hook that makes a span of each request to an issuer, and calls counted unless
// it is nil.
func (t *Traces) asking(name string, counted middleware.Hook) middleware.Hook {
	return func(ctx context.Context, issuer string) (context.Context, func(error)) {
		var end func(error)
		if counted != nil {
			ctx, end = counted(ctx, issuer)
		}
		ctx, span := t.child(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
		if span == nil {
			return ctx, end
		}
		return ctx, func(err error) {
			finish(span, err != nil)
			if end != nil {
				end(err)
			}
		}
	}
}

// client returns a client that tells an issuer the trace of a request for introspection. Requests
// for documents tell nothing: they are for everybody who waits for the same document, and their
// issuer may be a third party.
func (t *Traces) client(with *http.Client) *http.Client {
	out := &http.Client{}
	if with != nil {
		*out = *with
	}
	to := out.Transport
	if to == nil {
		to = http.DefaultTransport
	}
	out.Transport = telling{to, t}
	return out
}

// telling is a transport to issuers.
type telling struct {
	http.RoundTripper
	t *Traces
}

// RoundTrip implements [http.RoundTripper].
func (a telling) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		r = r.Clone(r.Context())
		a.t.inject(r.Context(), r.Header)
	}
	return a.RoundTripper.RoundTrip(r)
}

// forwarding is a transport to the server behind a gateway, which makes a span of each request
// and tells the server its place in the trace.
type forwarding struct {
	http.RoundTripper
	t *Traces
}

// RoundTrip implements [http.RoundTripper]. The span ends with the header of the answer.
func (f forwarding) RoundTrip(r *http.Request) (*http.Response, error) {
	whole := spanIn(r.Context())
	ctx, span := f.t.child(r.Context(), "forward", trace.WithSpanKind(trace.SpanKindClient))
	r = r.Clone(ctx)
	f.t.inject(ctx, r.Header)
	res, err := f.RoundTripper.RoundTrip(r)
	if span == nil {
		return res, err
	}
	status := http.StatusBadGateway
	if err == nil {
		status = res.StatusCode
		span.SetAttributes(answered(status)...)
	}
	fault := status >= http.StatusInternalServerError
	finish(span, fault)
	whole.SetAttributes(answered(status)...)
	if fault {
		whole.SetStatus(codes.Error, "")
	}
	return res, err
}
