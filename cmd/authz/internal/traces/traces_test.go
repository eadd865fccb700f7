package traces

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// TestWanted: there are traces if an exporter is named that this program has, and not otherwise.
func TestWanted(t *testing.T) {
	for _, tt := range []struct {
		environment string
		wanted      bool
		mistake     string
	}{
		{"", false, ""},
		{"OTEL_SERVICE_NAME=x OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://collector.example.com:4318", false, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector.example.com:4318", true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://collector.example.com:4318/v1/traces", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://collector.example.com:4318", false, ""},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_SDK_DISABLED=true", false, ""},
		{"OTEL_TRACES_EXPORTER=zipkin", false, "OTEL_TRACES_EXPORTER"},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", true, ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, ""},
	} {
		environment := map[string]string{}
		for pair := range strings.FieldsSeq(tt.environment) {
			name, value, _ := strings.Cut(pair, "=")
			environment[name] = value
		}
		is, err := wanted(func(name string) string { return environment[name] })
		if is != tt.wanted || (err == nil) != (tt.mistake == "") || err != nil && !strings.Contains(err.Error(), tt.mistake) {
			t.Errorf("%s: %t, %v", tt.environment, is, err)
		}
	}
}

// TestSampler: so many requests in a second are recorded, whatever their senders say; a request
// that its sender does not record is not, and a part goes with its request.
func TestSampler(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	s := newSampler(func() time.Time { return now })
	recorded := func(flags trace.TraceFlags, remote bool) bool {
		parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: remote})
		p := sdk.SamplingParameters{ParentContext: trace.ContextWithSpanContext(context.Background(), parent)}
		return s.ShouldSample(p).Decision == sdk.RecordAndSample
	}
	root := func() bool {
		return s.ShouldSample(sdk.SamplingParameters{ParentContext: context.Background()}).Decision == sdk.RecordAndSample
	}
	count := func(of func() bool) (n int) {
		for range 10 * perSecond {
			if of() {
				n++
			}
		}
		return n
	}
	if recorded(0, true) || recorded(0, false) {
		t.Error("what the sender does not record is recorded")
	}
	if n := count(root); n != perSecond {
		t.Errorf("%d requests of one moment are recorded", n)
	}
	if !recorded(trace.FlagsSampled, false) || recorded(trace.FlagsSampled, true) {
		t.Error("parts do not go with their request, or a sender decides")
	}
	now = now.Add(time.Hour)
	if n := count(func() bool { return recorded(trace.FlagsSampled, true) }); n != perSecond {
		t.Errorf("%d requests of one moment are recorded, after an hour", n)
	}
}

// TestCollectorThatHangs: a collector that takes connections and never answers delays no request,
// and the process ends.
func TestCollectorThatHangs(t *testing.T) {
	release := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer collector.Close()
	defer close(release)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	var log bytes.Buffer
	all, err := New(t.Context(), Service{"test", "1"}, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	h := all.Gateway(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	for range 10_000 { // the queue has places for 2048
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	all.Close()
	if served != 10_000 || !strings.Contains(log.String(), "traces could not be sent") {
		t.Errorf("%d requests, and the log says %q", served, log.String())
	}
}

// TestOff: without an exporter nothing is in the way.
func TestOff(t *testing.T) {
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	all, err := New(t.Context(), Service{}, nil, slog.New(slog.DiscardHandler))
	if all != nil || err != nil {
		t.Fatal(all, err)
	}
	defer all.Close()
	h := http.NotFoundHandler()
	if got, s := all.Gateway(h), all.Server(); got == nil || s.Request != nil || s.Part != nil || all.Store(nil) != nil {
		t.Error("something is in the way")
	}
}

// recording returns traces that are kept here.
func recording(trusted string) (*Traces, *tracetest.InMemoryExporter) {
	kept := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(kept))
	all := &Traces{provider: provider, tracer: provider.Tracer(scope), sends: propagator(func(string) string { return "" })}
	if trusted != "" {
		all.trusted = []netip.Prefix{netip.MustParsePrefix(trusted)}
	}
	return all, kept
}

// TestSenders: the traceparent of a trusted network is the parent, that of anybody else is linked,
// and what is not one is nothing.
func TestSenders(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, tt := range []struct {
		trusted, sent string
		joined        bool
		links         int
	}{
		{"192.0.2.0/24", parent, true, 0},
		{"198.51.100.0/24", parent, false, 1},
		{"", parent, false, 1},
		{"192.0.2.0/24", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", false, 0},
		{"192.0.2.0/24", "", false, 0},
	} {
		all, kept := recording(tt.trusted)
		r := httptest.NewRequest(http.MethodGet, "/", nil) // from 192.0.2.1
		r.Header.Set("Traceparent", tt.sent)
		var forwarded http.Header
		all.Gateway(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			forwarded = http.Header{"Traceparent": {tt.sent}, "Tracestate": {"a=b"}}
			all.inject(r.Context(), forwarded)
		})).ServeHTTP(httptest.NewRecorder(), r)
		span := kept.GetSpans()[0]
		if joined := span.SpanContext.TraceID().String() == "0af7651916cd43dd8448eb211c80319c"; joined != tt.joined || len(span.Links) != tt.links {
			t.Errorf("%+v: joined is %t, %d links", tt, joined, len(span.Links))
		}
		if got := forwarded.Get("Traceparent"); got != "00-"+span.SpanContext.TraceID().String()+"-"+span.SpanContext.SpanID().String()+"-01" || forwarded.Get("Tracestate") != "" {
			t.Errorf("%+v: the next server gets %v", tt, forwarded)
		}
	}
}

// TestDocumentsTellNothing: an issuer learns of a trace when it is asked about a token, and not
// when everybody's documents are fetched.
func TestDocumentsTellNothing(t *testing.T) {
	var told atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Traceparent") != "" {
			told.Add(1)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer issuer.Close()
	all, _ := recording("")
	client := all.client(nil)
	all.Gateway(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r, _ := http.NewRequestWithContext(in.Context(), method, issuer.URL, nil)
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if want := int64(0); method == http.MethodGet && told.Load() != want {
				t.Error("a request for a document tells of the trace")
			}
		}
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if told.Load() != 1 {
		t.Errorf("%d requests tell of the trace", told.Load())
	}
}
