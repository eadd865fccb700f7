package traces

import (
	"cmp"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/propagation"
)

// wanted reports whether the environment names an exporter (OpenTelemetry environment variable
// specification, "Exporter Selection"). Unlike the specification, no exporter at all means none, and
// not one to a collector on this machine.
func wanted(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpoint := getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	switch exporter := strings.TrimSpace(getenv("OTEL_TRACES_EXPORTER")); {
	case exporter == "none", exporter == "" && !endpoint:
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: this program has otlp and none", exporter)
	}
	protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if protocol != "http/protobuf" {
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: this program has http/protobuf, for which most collectors listen on port 4318", protocol)
	}
	return true, nil
}

// propagator returns what reads and writes the headers of the W3C Trace Context, or nothing if
// OTEL_PROPAGATORS does not name it. Baggage is never read nor written: others chose it.
func propagator(getenv func(string) string) propagation.TextMapPropagator {
	names := getenv("OTEL_PROPAGATORS")
	for name := range strings.SplitSeq(names, ",") {
		if names == "" || strings.TrimSpace(name) == "tracecontext" {
			return propagation.TraceContext{}
		}
	}
	return propagation.NewCompositeTextMapPropagator()
}
