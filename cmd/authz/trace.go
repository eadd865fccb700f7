package main

import (
	"context"

	"gatehouse.example/cmd/authz/internal/traces"
)

// trace makes the spans of the process, if the environment names an exporter. The function that it
// returns sends what waits; it is called when no request is served any more. A server whose
// exporter cannot be used serves without one.
func (st *site) trace(ctx context.Context, name string) (flush func()) {
	all, err := traces.New(ctx, traces.Service{Name: name, Version: thisRelease().Version}, st.trusted, st.log)
	if err != nil {
		st.log.Warn("no traces are sent", "error", err)
	}
	st.traces = all
	return all.Close
}

// trace makes spans of what the gateways of the plan do.
func (plan *gatewayPlan) trace(all *traces.Traces) {
	for i := range plan.configs {
		all.Configure(&plan.configs[i])
	}
}
