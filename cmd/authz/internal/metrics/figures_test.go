package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/metrics"
	"gatehouse.example/storage"
)

// records are counts and keys, or the error of a store that does not answer.
type records struct {
	err    error
	noKeys error // of the keys alone
	grants int
	within time.Duration // that the last call was given
}

// Counts implements [metrics.Records].
func (r *records) Counts(ctx context.Context) (storage.Counts, error) {
	end, _ := ctx.Deadline()
	r.within = time.Until(end)
	return storage.Counts{UnusedClients: 1, UsedClients: 2, People: 3}, r.err
}

// Retries implements [metrics.Records].
func (r *records) Retries() int64 { return 7 }

// KeySet implements [metrics.Records].
func (r *records) KeySet(context.Context) (storage.KeySet, error) {
	return storage.KeySet{Keys: []storage.SigningKey{
		{State: storage.KeyPending}, {State: storage.KeyActive, Activated: time.Unix(1234, 0)}, {State: storage.KeyRetired}, {State: storage.KeyRetired}, {State: "of another release"},
	}}, r.noKeys
}

// A scrape shows the records of each kind, and no records when the store does not answer in time.
func TestFigures(t *testing.T) {
	m, from := newRegistry(), &records{}
	metrics.Figures(m, from, func() int { return 4 }, func() (int, bool) { return from.grants, from.grants > 0 })
	got := series(t, m)
	for name, want := range map[string]string{
		"gatehouse_store_up": "1", `gatehouse_clients{state="unused"}`: "1", `gatehouse_clients{state="used"}`: "2", "gatehouse_people": "3",
		`gatehouse_signing_keys{state="pending"}`: "1", `gatehouse_signing_keys{state="active"}`: "1", `gatehouse_signing_keys{state="retired"}`: "2",
		"gatehouse_signing_key_activated_timestamp_seconds": "1234", "gatehouse_password_checks_waiting": "4", "gatehouse_grants": "NaN", `gatehouse_signing_keys{state="of another release"}`: "",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if from.within <= 0 || from.within > time.Second {
		t.Errorf("the store has %s to answer", from.within)
	}
	from.noKeys = errors.New("away")
	if got = series(t, m); got["gatehouse_store_up"] != "0" || got[`gatehouse_signing_keys{state="active"}`] != "" {
		t.Errorf("of a store without keys: %v", got)
	}
	from.err, from.noKeys, from.grants = errors.New("away"), nil, 5
	got = series(t, m)
	if got["gatehouse_grants"] != "5" {
		t.Errorf("of five grants: %v", got)
	}
	if got["gatehouse_store_up"] != "0" || got["gatehouse_people"] != "" || got[`gatehouse_clients{state="unused"}`] != "" || got[`gatehouse_signing_keys{state="active"}`] != "" {
		t.Errorf("of a store that does not answer: %v", got)
	}
}

// Requests to issuers are counted by their kind and the status of the answer.
func TestAskingIssuers(t *testing.T) {
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			w.WriteHeader(http.StatusMultipleChoices)
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	}))
	defer issuer.Close()
	m := newRegistry()
	client := metrics.NewGateways(m).Client
	for _, ask := range []func() (*http.Response, error){
		func() (*http.Response, error) { return client.Get(issuer.URL) },
		func() (*http.Response, error) { return client.Get(issuer.URL + "/moved") },
		func() (*http.Response, error) { return client.Post(issuer.URL, "text/plain", nil) },
		func() (*http.Response, error) { return client.Post(issuer.URL+"/cut", "text/plain", nil) },
	} {
		if res, err := ask(); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}
	got := series(t, m)
	for name, want := range map[string]string{
		`gatehouse_gateway_issuer_requests_total{kind="documents",outcome="ok"}`:          "1",
		`gatehouse_gateway_issuer_requests_total{kind="documents",outcome="redirected"}`:  "1",
		`gatehouse_gateway_issuer_requests_total{kind="introspection",outcome="ok"}`:      "1",
		`gatehouse_gateway_issuer_requests_total{kind="introspection",outcome="aborted"}`: "1",
		`gatehouse_gateway_issuer_request_duration_seconds_count{kind="introspection"}`:   "2",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
}

// Requests to providers are counted under the ids of the configuration; any other counts as other.
func TestProviders(t *testing.T) {
	m := newRegistry()
	server := metrics.NewServer(m, "company")
	before := len(series(t, m))
	for i := range 10 {
		server.Observe(authz.Observation{What: authz.ProviderAsked, Provider: "company", Status: 200, Took: time.Second})
		server.Observe(authz.Observation{What: authz.ProviderAsked, Provider: fmt.Sprint("later", i)})
	}
	got := series(t, m)
	for name, want := range map[string]string{
		`gatehouse_provider_requests_total{outcome="ok",provider="company"}`:    "10",
		`gatehouse_provider_requests_total{outcome="aborted",provider="other"}`: "10",
		`gatehouse_provider_request_duration_seconds_sum{provider="company"}`:   "10",
	} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
	if len(got) != before {
		t.Errorf("%d series, before there were %d", len(got), before)
	}
	server.Providers("company", "later1") // as a reload does
	server.Observe(authz.Observation{What: authz.ProviderAsked, Provider: "later1", Status: 200})
	got = series(t, m)
	if got[`gatehouse_provider_requests_total{outcome="ok",provider="later1"}`] != "1" || got[`gatehouse_provider_requests_total{outcome="ok",provider="company"}`] != "10" {
		t.Error("a provider that a reload brought has no series of its own, or another one lost its count")
	}
	for i := range 100 {
		server.Providers(fmt.Sprint("more", i))
	}
	if got := strings.Count(strings.Join(slices.Collect(maps.Keys(series(t, m))), "\n"), `provider_requests_total{outcome="ok"`); got != 65 {
		t.Errorf("%d providers have series", got)
	}
}

// The keys of an issuer have an age once they were fetched, and a failure does not change it.
func TestKeysOfIssuers(t *testing.T) {
	const name = `gatehouse_gateway_keys_fetched_timestamp_seconds{issuer="https://auth.example.com"}`
	m := newRegistry()
	gateways := metrics.NewGateways(m)
	gateways.Issuer("https://auth.example.com")
	for _, err := range []error{errors.New("no answer"), nil} {
		if got := series(t, m)[name]; got != "0" {
			t.Errorf("before the keys were fetched: %s", got)
		}
		_, end := gateways.FetchedKeys(t.Context(), "https://auth.example.com")
		end(err)
	}
	if got := series(t, m)[name]; got == "0" || got == "" {
		t.Errorf("afterwards: %q", got)
	}
}
