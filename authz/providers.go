package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/internal/fair"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// speaker is what the server needs of an [upstream.Client].
type speaker interface {
	Begin(ctx context.Context, a upstream.Attempt) (string, error)
	Finish(ctx context.Context, a upstream.Attempt, b upstream.Callback) (upstream.Arrival, error)
	Admits(a upstream.Arrival, pinned func(entry string) (subject string, ok bool)) (upstream.Decision, error)
	Recheck(ctx context.Context, h upstream.Held) (upstream.Arrival, error)
	CanRecheck(ctx context.Context) (ok bool, why string, err error)
	Check(ctx context.Context) error
	Logout(ctx context.Context, token string) (upstream.LogoutRequest, error)
}

// provider is an identity provider at which people sign in.
type provider struct {
	upstream.Provider
	client speaker

	// places bounds the sign-ins for which the provider is asked at a time. Each provider has its
	// own, so that one that is slow delays nobody who signs in elsewhere.
	places *fair.Queue
	wait   time.Duration // for one of them
}

// providers are the configured providers, in the order of the configuration.
type providers struct {
	ordered []*provider
	byID    map[string]*provider
}

const (
	// providerPlaces is the greatest number of sign-ins for which one provider is asked at a time,
	// providerWaiting the greatest number that wait, and providerWait the time for which they do.
	providerPlaces  = 16
	providerWaiting = 1024
	providerWait    = 15 * time.Second
)

// unprovenSignIns limits the sign-ins of one address at one provider that do not succeed, and
// unprovenLogouts its logout tokens that are not valid. Those that are valid are given back, so
// that an office behind one address is not limited.
var (
	unprovenSignIns = fair.Limit{Burst: 300, Per: 10 * time.Minute}
	unprovenLogouts = fair.Limit{Burst: 300, Per: time.Minute}
)

// providerMistakes returns the mistakes in the configuration of providers.
func (c Config) providerMistakes() []error {
	var errs []error
	seen := map[string]bool{}
	for _, p := range c.Providers {
		if err := p.Validate(c.InsecureProviders); err != nil {
			errs = append(errs, fmt.Errorf("authz: provider %q: %w", p.ID, err))
		}
		if seen[p.ID] {
			errs = append(errs, fmt.Errorf("authz: two providers have the id %q", p.ID))
		}
		seen[p.ID] = true
	}
	return errs
}

// needsGroups reports whether anything depends on the groups that a provider names, by the resources
// of this moment: those of the store come and go. A sign-in decides it once, at its beginning.
func (s *Server) needsGroups(ctx context.Context, provider string) bool {
	set := s.resources.take(ctx)
	return set.tellsGroups || set.groupsOf[provider]
}

// newProviders returns the configured providers. It does not speak with them. One that was
// configured before in the same words is the same one, with what it has learned; one that has
// changed keeps its queue.
func newProviders(cfg Config, before *Server) (providers, error) {
	all := providers{byID: map[string]*provider{}}
	for _, p := range cfg.Providers {
		known, same := before.provider(p)
		if same {
			all.keep(known)
			continue
		}
		client, err := upstream.New(p, upstream.Options{
			Redirect: cfg.Issuer + "/login/" + p.ID + "/callback", Dev: cfg.InsecureProviders,
			Proxy: cfg.ProviderProxy, Roots: cfg.ProviderRoots, Logger: cfg.Logger, Now: cfg.Now, Observe: cfg.askedProvider(p.ID),
		})
		if err != nil {
			return providers{}, fmt.Errorf("authz: provider %s: %w", p.ID, err)
		}
		one := &provider{Provider: client.Provider(), client: client, places: fair.NewQueue(providerPlaces, providerWaiting), wait: providerWait}
		if known != nil {
			one.places = known.places
		}
		all.keep(one)
	}
	return all, nil
}

// provider returns the provider with the id of p, nil for none, and whether it is configured as p.
func (s *Server) provider(p upstream.Provider) (one *provider, same bool) {
	if s == nil {
		return nil, false
	}
	same = slices.ContainsFunc(s.cfg.Providers, func(configured upstream.Provider) bool { return reflect.DeepEqual(configured, p) })
	return s.providers.byID[p.ID], same
}

func (p *providers) keep(one *provider) {
	p.ordered = append(p.ordered, one)
	p.byID[one.ID] = one
}

// shownProviders returns what the sign-in page shows of the providers.
func (p providers) shown() []templates.Provider {
	shown := make([]templates.Provider, len(p.ordered))
	for i, one := range p.ordered {
		shown[i] = templates.Provider{ID: one.ID, Name: one.Title()}
	}
	return shown
}

// enter returns when a sign-in from the requester's network may ask the provider, and the
// function that gives its place back. The error says that too many wait, or is the context's.
func (p *provider) enter(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	return p.places.Enter(ctx, "sign-in", fair.Requester(ctx))
}

// providerIn returns the provider that a path or form names.
func (s *Server) providerIn(id string) (*provider, error) {
	if p := s.providers.byID[id]; p != nil {
		return p, nil
	}
	return nil, &displayedError{
		status: http.StatusNotFound, code: codeInvalidRequest,
		title:   language.Say("error.provider.unknown.title"),
		message: language.Say("error.provider.unknown.message"),
		steps:   []language.Text{language.Say("step.connectAgain")},
	}
}

// ProviderReport is what a provider answered to a look at it.
type ProviderReport struct {
	// ID and Name are those of the configuration; Issuer is the provider's.
	ID, Name, Issuer string
	// Warnings are sentences about what the operator should know. None of them keeps the server
	// from running.
	Warnings []string
}

// reportTime bounds the look at all providers.
const reportTime = 5 * time.Second

// ReportProviders asks each provider for its metadata and compares it with the configuration.
// Call it at the start, for the operator: sign-ins do not depend on it. It takes at most five
// seconds.
func (s *Server) ReportProviders(ctx context.Context) []ProviderReport {
	s = s.latest.Load()
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	reports := make([]ProviderReport, len(s.providers.ordered))
	done := make(chan struct{}, len(reports))
	for i, p := range s.providers.ordered {
		go func() {
			reports[i] = p.report(ctx)
			done <- struct{}{}
		}()
	}
	for range reports {
		<-done
	}
	return reports
}

func (p *provider) report(ctx context.Context) ProviderReport {
	r := ProviderReport{ID: p.ID, Name: p.Title(), Issuer: p.Issuer}
	if p.Allow.Anybody {
		r.Warnings = append(r.Warnings, "everybody whom the provider knows can sign in (anybody: true)")
	}
	if err := p.client.Check(ctx); err != nil {
		var e *upstream.Error
		if errors.As(err, &e) && e.Kind != upstream.ErrUnavailable {
			return r.with("it does not fit the configuration, so nobody can sign in with it: " + err.Error())
		}
		return r.with("it does not answer now, so nobody can sign in with it until it does: " + err.Error())
	}
	if p.Recheck > 0 {
		if ok, why, err := p.client.CanRecheck(ctx); err == nil && !ok {
			return r.with("it gives no refresh tokens, so recheck has no effect: " + why)
		}
	}
	return r
}

func (r ProviderReport) with(warning string) ProviderReport {
	r.Warnings = append(r.Warnings, warning)
	return r
}
