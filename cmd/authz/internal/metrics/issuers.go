package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The kinds of requests to issuers: their documents and keys, which are fetched with GET, and
// introspection, which is POST (RFC 7662 section 2.1).
const (
	kindDocuments     = "documents"
	kindIntrospection = "introspection"
)

// asking is a transport to issuers that counts its requests.
type asking struct {
	http.RoundTripper
	requests map[[2]string]prometheus.Counter
	took     map[string]prometheus.Observer
}

// newAsking adds the metrics of requests to issuers, which are sent with another transport.
func newAsking(m *Registry, with http.RoundTripper) http.RoundTripper {
	values := map[[2]string][]string{}
	for _, kind := range []string{kindDocuments, kindIntrospection} {
		for _, outcome := range outcomes {
			values[[2]string{kind, string(outcome)}] = []string{kind, string(outcome)}
		}
	}
	return &asking{
		RoundTripper: with,
		requests:     counters(m, "gatehouse_gateway_issuer_requests_total", "Requests to issuers, for documents and keys or for introspection; aborted is one without an answer.", []string{"kind", "outcome"}, values),
		took:         histograms(m, "gatehouse_gateway_issuer_request_duration_seconds", "Time to the header of the answer of an issuer.", "kind", requestBuckets, kindDocuments, kindIntrospection),
	}
}

// RoundTrip implements [http.RoundTripper].
func (a *asking) RoundTrip(r *http.Request) (*http.Response, error) {
	kind, began, status := kindDocuments, time.Now(), 0
	if r.Method == http.MethodPost {
		kind = kindIntrospection
	}
	res, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		status = res.StatusCode
	}
	a.requests[[2]string{kind, string(outcomeOf(status))}].Inc()
	a.took[kind].Observe(time.Since(began).Seconds())
	return res, err
}
