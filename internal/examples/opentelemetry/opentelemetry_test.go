package opentelemetry

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const resource = "https://notes.example.com/api"

// TestSpans sends requests in spans of their own, and expects those of the guard inside.
func TestSpans(t *testing.T) {
	issuer, dark := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t)
	id, secret := issuer.Credentials()
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	tracer := provider.Tracer("example")
	config := middleware.Config{
		Resource: resource, AuthorizationServers: []string{issuer.URL(), dark.URL()},
		Introspection: map[string]middleware.Introspection{issuer.URL(): {ClientID: id, ClientSecret: secret}},
	}
	Watch(&config, tracer)
	guard, err := middleware.New(config)
	if err != nil {
		t.Fatal(err)
	}
	handler := guard.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	dark.SetDown(true)
	send := func(name, token string) {
		ctx, span := tracer.Start(t.Context(), name)
		defer span.End()
		r := httptest.NewRequestWithContext(ctx, "GET", resource, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	good := issuer.Mint(middlewaretest.Claims{"aud": resource})
	send("first", good)
	send("second", good)
	send("dark", dark.Mint(middlewaretest.Claims{"aud": resource}))

	parents := map[string]string{}
	for _, span := range exporter.GetSpans() {
		parents[span.SpanContext.SpanID().String()] = span.Name
	}
	found := map[string]codes.Code{}
	decided := map[string]string{}
	for _, span := range exporter.GetSpans() {
		found[parents[span.Parent.SpanID().String()]+">"+span.Name] = span.Status.Code
		for _, event := range span.Events {
			decided[span.Name] = event.Attributes[0].Value.AsString()
		}
	}
	want := map[string]codes.Code{
		">first": codes.Unset, ">second": codes.Unset, ">dark": codes.Unset,
		"first>guard.keys": codes.Unset, "first>guard.introspection": codes.Unset, "dark>guard.keys": codes.Error,
	}
	for name, code := range want {
		if got, ok := found[name]; !ok || got != code {
			t.Errorf("%s: %v, found %v", name, code, found)
		}
	}
	if len(found) != len(want) {
		t.Errorf("spans: %v", found)
	}
	if decided["first"] != "allowed" || decided["second"] != "allowed" || decided["dark"] != "unavailable" {
		t.Errorf("decisions: %v", decided)
	}
}
