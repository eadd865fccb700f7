// Package opentelemetry shows spans of a guard of package middleware: one for each request to an
// issuer, inside the span of the request that needed it, and an event for each decision.
package opentelemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"gatehouse.example/middleware"
)

// Watch sets the hooks of a guard's configuration.
func Watch(config *middleware.Config, tracer trace.Tracer) {
	config.Observe = func(r *http.Request, e middleware.Event) {
		trace.SpanFromContext(r.Context()).AddEvent("guard.decision", trace.WithAttributes(
			attribute.String("guard.reason", string(e.Reason)), attribute.String("guard.route", e.Route),
		))
	}
	span := func(name string) middleware.Hook {
		return func(ctx context.Context, issuer string) (context.Context, func(error)) {
			ctx, span := tracer.Start(ctx, name, trace.WithAttributes(attribute.String("guard.issuer", issuer)))
			return ctx, func(err error) {
				if err != nil {
					span.SetStatus(codes.Error, err.Error())
				}
				span.End()
			}
		}
	}
	config.ObserveKeyFetch, config.ObserveIntrospection = span("guard.keys"), span("guard.introspection")
}
