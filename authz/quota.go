package authz

import (
	"context"
	"net/http"
	"time"

	"gatehouse.example/authz/internal/limit"
	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// quota bounds how many clients register: of one software from one network, so that
// hosted applications that share an address do not use up each other's share, and of all
// software together, because whoever registers chooses what software it is.
type quota struct {
	proxies  proxies
	software *limit.Rates
	network  *limit.Rates
}

// togetherFactor is how many times as many clients of all software may register.
const togetherFactor = 10

// newQuota returns nil if there is no bound.
func newQuota(cfg Config) *quota {
	if cfg.RegistrationQuota < 0 {
		return nil
	}
	return &quota{
		proxies:  cfg.TrustedProxies,
		software: limit.NewRates(cfg.RegistrationQuota, cfg.Now),
		network:  limit.NewRates(cfg.RegistrationQuota*togetherFactor, cfg.Now),
	}
}

// admit counts a registration, or says how long it must wait. One that then fails is
// counted back.
func (q *quota) admit(_ context.Context, r *http.Request, c storage.Client) (undo func(), err error) {
	if q == nil {
		return func() {}, nil
	}
	network := q.proxies.network(r)
	software := network + " " + c.Software
	wait := q.software.Take(software)
	if wait == 0 {
		if wait = q.network.Take(network); wait > 0 {
			q.software.Return(software)
		}
	}
	if wait > 0 {
		return nil, &dcr.TooMany{RetryAfter: max(wait, time.Second)}
	}
	return func() {
		q.software.Return(software)
		q.network.Return(network)
	}, nil
}
