// Package traces makes spans of what the servers do and sends them to a collector, by the standard
// variables of OpenTelemetry. Without an exporter in these variables there are no [Traces].
//
// A span has nothing that a client, a person or a provider chose, and no secret: its name and its
// attributes are of closed sets, but for the id that this program drew for the request. The span
// of a request is in its context under a key of this package, so that no library of others adds
// spans with what it sees.
//
// What is sent has bounds: the sampler of [New] records so many requests in a second, a queue of
// fixed length waits for the collector, and what does not fit is dropped. Requests never wait.
package traces

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Traces makes the spans of a process. It is safe for concurrent use. A nil *Traces makes none.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	trusted  []netip.Prefix // whose traceparent is the parent
	sends    propagation.TextMapPropagator
}

// Service is what the process calls itself in spans, unless OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES say otherwise.
type Service struct{ Name, Version string }

// flushTime bounds what the end of a process waits for the collector.
const flushTime = 3 * time.Second

// scope names the spans of this program.
const scope = "gatehouse.example"

// New returns the traces that the environment asks for, nil if it asks for none. An error says in
// which way it asks for what this program cannot do. A request from one of the trusted networks
// continues the trace in its traceparent; any other begins one, with a link to that.
func New(ctx context.Context, s Service, trusted []netip.Prefix, log *slog.Logger) (*Traces, error) {
	wanted, err := wanted(os.Getenv)
	if err != nil || !wanted {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces could not be sent", "error", short(err)) }))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", s.Name), attribute.String("service.version", s.Version), attribute.String("service.instance.id", rand.Text()),
	), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	options := []sdk.TracerProviderOption{sdk.WithBatcher(exporter), sdk.WithResource(about)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdk.WithSampler(newSampler(time.Now)))
	}
	provider := sdk.NewTracerProvider(options...)
	return &Traces{provider: provider, tracer: provider.Tracer(scope), trusted: trusted, sends: propagator(os.Getenv)}, nil
}

// Close sends what waits, for some seconds at most. No span may begin after it.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// maxError bounds what a collector can write into the log, in bytes.
const maxError = 300

func short(err error) string {
	text := err.Error()
	return text[:min(len(text), maxError)]
}

type spanKey struct{}

// spanIn returns the span of a context, nil if it has none.
func spanIn(ctx context.Context) trace.Span {
	span, _ := ctx.Value(spanKey{}).(trace.Span)
	return span
}

func with(ctx context.Context, span trace.Span) context.Context {
	return context.WithValue(ctx, spanKey{}, span)
}

// child begins a span in that of ctx, and returns nil if that is not recorded.
func (t *Traces) child(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := spanIn(ctx)
	if parent == nil || !parent.IsRecording() {
		return ctx, nil
	}
	_, span := t.tracer.Start(trace.ContextWithSpan(context.Background(), parent), name, options...)
	return with(ctx, span), span
}

// finish ends a span. A fault is one of the service, not a refusal.
func finish(span trace.Span, fault bool, attributes ...attribute.KeyValue) {
	span.SetAttributes(attributes...)
	if fault {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// oneOf returns value if it is in the closed set, and other if not.
func oneOf(value string, set []string, other string) string {
	if slices.Contains(set, value) {
		return value
	}
	return other
}
