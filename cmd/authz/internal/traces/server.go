package traces

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"

	"gatehouse.example/authz"
)

// otherCode stands for a code that is not among [authz.Codes].
const otherCode = "other"

// Server returns what an [authz.Config] has for traces.
func (t *Traces) Server() authz.Trace {
	if t == nil {
		return authz.Trace{}
	}
	return authz.Trace{Request: t.request, Part: t.part}
}

func (t *Traces) request(w http.ResponseWriter, r *http.Request) (context.Context, func(authz.Observation)) {
	r, span := t.begin(w, r)
	if !span.IsRecording() {
		span.End()
		return r.Context(), nil
	}
	method := oneOf(r.Method, methods, otherMethod)
	return r.Context(), func(o authz.Observation) {
		span.SetName(method + " " + string(o.Endpoint))
		attributes := append(answered(o.Status), keyRoute.String(string(o.Endpoint)))
		if o.Grant != "" {
			attributes = append(attributes, attribute.String("gatehouse.grant_type", oneOf(string(o.Grant), grantTypes, otherCode)))
		}
		finish(span, o.Status >= http.StatusInternalServerError || o.Status == 0, append(attributes, coded(o.Code)...)...)
	}
}

var grantTypes = []string{string(authz.GrantCode), string(authz.GrantRefresh)}

// coded is the attribute of an error code.
func coded(code string) []attribute.KeyValue {
	if code == "" {
		return nil
	}
	return []attribute.KeyValue{keyCode.String(oneOf(code, serverCodes, otherCode))}
}

var serverCodes = authz.Codes()

// faults are the codes for which the server is to blame, and not the request.
var faults = []string{"server_error", "temporarily_unavailable"}

func (t *Traces) part(ctx context.Context, part authz.Part) (context.Context, func(code string)) {
	ctx, span := t.child(ctx, string(part))
	if span == nil {
		return ctx, nil
	}
	return ctx, func(code string) { finish(span, oneOf(code, faults, "") != "", coded(code)...) }
}
