package main

import (
	"gatehouse.example/audit/trail"
	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/metrics"
	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/registry/mirror"
	"gatehouse.example/storage"
)

// measure makes the metrics of the process. There are none without an admin listener, and then
// nothing is counted.
func (st *site) measure() {
	if st.admin == nil {
		return
	}
	release := thisRelease()
	st.metrics = metrics.New(release.Version, release.Go, st.log)
	if st.pair != nil {
		st.metrics.Certificate(st.pair)
	}
}

// countStore returns a store whose calls are counted.
func (st *site) countStore(backend storage.Backend) storage.Backend {
	if st.metrics == nil {
		return backend
	}
	return metrics.Store(st.metrics, backend)
}

// countServer counts what the authorization server does that s configures.
func (st *site) countServer(s *serveSettings) (observe func(authz.Observation)) {
	if st.metrics == nil {
		return nil
	}
	counted := metrics.NewServer(st.metrics, s.providerIDs()...)
	s.fetched, s.counted = counted.Fetched, counted.Providers
	return counted.Observe
}

// providerIDs returns the ids of the providers where people sign in.
func (s *serveSettings) providerIDs() (ids []string) {
	for _, one := range s.SignIn.Providers {
		ids = append(ids, one.ID)
	}
	return ids
}

// countRecords counts the records of the store at each scrape.
func (st *site) countRecords(store *storage.Store, front *authz.Server) {
	if st.metrics != nil {
		metrics.Figures(st.metrics, store, front.PasswordsWaiting, front.GrantsCounted)
	}
}

// countTrail counts the lines of the audit trail.
func (st *site) countTrail(t *trail.Trail) {
	if st.metrics != nil {
		metrics.Trail(st.metrics, t.Figures)
	}
}

// countReloads counts reloads of the settings.
func (st *site) countReloads(r *reloader) {
	if st.metrics != nil {
		metrics.CountReloads(st.metrics, r.figures)
	}
}

// countCatalogue reads the status of the catalogue at each scrape.
func (st *site) countCatalogue(m *mirror.Mirror) {
	if st.metrics != nil {
		st.metrics.MustRegister(&catalogueMetrics{status: m.Status, log: st.log})
	}
}

// gatewayCounts makes the metrics of the resources of gateways.
func (st *site) gatewayCounts() *metrics.Gateways {
	if st.metrics == nil {
		return nil
	}
	return metrics.NewGateways(st.metrics)
}

// configuredIssuers returns the URLs of issuers, as hooks of a guard name them.
func configuredIssuers(all []middleware.Issuer) (urls []string) {
	for _, one := range all {
		urls = append(urls, one.URL)
	}
	return urls
}

// countGateway counts what the gateway does that c configures.
func countGateway(all *metrics.Gateways, c *gateway.Config) {
	if all == nil {
		return
	}
	one := all.Resource(c.Guard.Resource)
	c.Guard.Observe, c.Forwarded, c.Guard.ObserveKeyFetch = one.Decided, one.Forwarded, all.FetchedKeys
	for _, issuer := range append(configuredIssuers(c.Guard.Issuers), c.Guard.AuthorizationServers...) {
		all.Issuer(issuer)
	}
	if c.Guard.Client == nil {
		c.Guard.Client = all.Client
	}
}
