package traces

import (
	"context"
	"net/http"
	"net/netip"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"gatehouse.example/internal/requestid"
)

// The attributes of requests. Those with names of our own are on the page for operators.
const (
	keyMethod  = attribute.Key("http.request.method")
	keyStatus  = attribute.Key("http.response.status_code")
	keyRoute   = attribute.Key("http.route")
	keyRequest = attribute.Key("gatehouse.request")
	keyCode    = attribute.Key("gatehouse.code")
)

// methods are the methods that spans name (RFC 9110 section 9.1, RFC 5789); others are otherMethod.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace,
}

const otherMethod = "_OTHER"

// begin begins the span of a request, which may not be recorded.
func (t *Traces) begin(w http.ResponseWriter, r *http.Request) (*http.Request, trace.Span) {
	r = requestid.Begin(w, r)
	method := oneOf(r.Method, methods, otherMethod)
	in, options := context.Background(), []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(keyMethod.String(method), keyRequest.String(requestid.From(r.Context()).Own)),
	}
	sent := t.sends.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	sender := trace.SpanContextFromContext(sent).WithTraceState(trace.TraceState{}) // which is any text
	switch {
	case !sender.IsValid():
	case t.trusts(r.RemoteAddr):
		in = trace.ContextWithRemoteSpanContext(in, sender)
	default:
		options = append(options, trace.WithLinks(trace.Link{SpanContext: sender}))
	}
	_, span := t.tracer.Start(in, method, options...)
	return r.WithContext(with(r.Context(), span)), span
}

// trusts reports whether the peer of a connection is in one of the trusted networks.
func (t *Traces) trusts(peer string) bool {
	at, err := netip.ParseAddrPort(peer)
	return err == nil && slices.ContainsFunc(t.trusted, func(network netip.Prefix) bool { return network.Contains(at.Addr().Unmap()) })
}

// inject writes the place of a request in its trace into a header, in place of that of the sender.
func (t *Traces) inject(ctx context.Context, header http.Header) {
	span := spanIn(ctx)
	if span == nil || len(t.sends.Fields()) == 0 {
		return
	}
	for _, name := range t.sends.Fields() {
		header.Del(name)
	}
	t.sends.Inject(trace.ContextWithSpan(context.Background(), span), propagation.HeaderCarrier(header))
}

// answered are the attributes of an answer: none has no status.
func answered(status int) []attribute.KeyValue {
	if status == 0 {
		return nil
	}
	return []attribute.KeyValue{keyStatus.Int(status)}
}
