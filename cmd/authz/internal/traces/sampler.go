package traces

import (
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// perSecond is how many requests in a second are recorded, without OTEL_TRACES_SAMPLER: whoever
// sends requests, however many, and whatever flags they set, costs a collector no more.
const perSecond = 100

// sampler records every request, up to perSecond. It follows a parent that is not recorded, and the
// parts of a request follow the request.
type sampler struct {
	now func() time.Time

	mu    sync.Mutex
	left  float64
	until time.Time // when left was counted
}

func newSampler(now func() time.Time) *sampler {
	return &sampler{now: now, left: perSecond, until: now()}
}

// ShouldSample implements [sdk.Sampler].
func (s *sampler) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	result := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: parent.TraceState()}
	switch {
	case parent.IsValid() && !parent.IsSampled():
	case parent.IsValid() && !parent.IsRemote(), s.take():
		result.Decision = sdk.RecordAndSample
	}
	return result
}

// take takes the place of one request, and reports whether there was one.
func (s *sampler) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.left, s.until = min(s.left+now.Sub(s.until).Seconds()*perSecond, perSecond), now
	if s.left < 1 {
		return false
	}
	s.left--
	return true
}

// Description implements [sdk.Sampler].
func (*sampler) Description() string { return "GatehouseRate" }
