package middleware

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"gatehouse.example/metadata"
)

// IssuersConfig configures [Issuers]. Issuers is required; the other fields are those of [Config]
// with the same names.
type IssuersConfig struct {
	// Issuers are the issuers, each with the rules for its tokens. Audiences, and with it
	// InsecureNoAudience, is refused: it would hold for the resource of every guard. Set
	// [Config.Audiences] instead.
	Issuers []Issuer
	// StaleKeys is the maximum age of keys while their issuer cannot be reached.
	StaleKeys time.Duration
	// Client sends all requests to the issuers, also introspection requests of guards.
	Client *http.Client
	// Now is the clock, also of the guards. The default is time.Now.
	Now func() time.Time
	// ObserveKeyFetch is called for every fetch of keys.
	ObserveKeyFetch Hook
	// Logger logs failures of issuers.
	Logger *slog.Logger
}

// Issuers are issuers that several guards share: their keys are fetched once for all of them. It
// is safe for concurrent use and has nothing to close.
//
// Guards share what the issuers publish, and never a verdict: each has its own cache of tokens, and
// its own introspection, whose answers may depend on the resource server that asks (RFC 7662
// section 2.2).
type Issuers struct {
	all []*issuer
	now func() time.Time
}

// NewIssuers checks the configuration and returns issuers for [Config.SharedIssuers]. The error
// describes every mistake. NewIssuers opens no connection.
func NewIssuers(c IssuersConfig) (*Issuers, error) {
	config := Config{Issuers: c.Issuers, StaleKeys: c.StaleKeys, Client: c.Client, Now: c.Now, Logger: c.Logger, ObserveKeyFetch: c.ObserveKeyFetch}
	var errs []error
	if len(c.Issuers) == 0 {
		errs = append(errs, errors.New("there is no issuer"))
	}
	for _, one := range c.Issuers {
		if len(one.Audiences) > 0 || one.InsecureNoAudience {
			errs = append(errs, fmt.Errorf("issuer %s: shared issuers have no audiences, which every guard would accept: set Audiences in Config", one.URL))
		}
	}
	if err := errors.Join(append(errs, config.validRules())...); err != nil {
		return nil, fmt.Errorf("middleware: issuers: %w", err)
	}
	shared, err := config.ownIssuers()
	if err != nil {
		return nil, fmt.Errorf("middleware: issuers: %w", err)
	}
	return shared, nil
}

// Only returns those of the issuers whose tokens have one of the values in "iss". They share keys
// with all others. Give it to a guard that accepts some of the issuers only, such as that of one
// tenant. The error names a value that is none of them.
func (s *Issuers) Only(issuers ...string) (*Issuers, error) {
	out := &Issuers{now: s.now}
	for _, name := range issuers {
		at := slices.IndexFunc(s.all, func(one *issuer) bool { return one.name == name })
		if at < 0 {
			return nil, fmt.Errorf("middleware: issuers: %s is not one of them", name)
		}
		out.all = append(out.all, s.all[at])
	}
	if len(out.all) == 0 {
		return nil, errors.New("middleware: issuers: name at least one")
	}
	return out, nil
}

// configured returns the issuers as they are configured, one for each value of "iss".
func (s *Issuers) configured() []Issuer {
	var out []Issuer
	for _, one := range s.all {
		out = append(out, one.as)
	}
	return out
}

// configured returns the values of "iss" in the tokens of Issuers and SharedIssuers.
func (c *Config) configured() []string {
	from := c.Issuers
	if c.SharedIssuers != nil {
		from = c.SharedIssuers.configured()
	}
	var out []string
	for _, one := range from {
		out = append(out, one.urls()...)
	}
	return out
}

// validShared finds mistakes in [Config.SharedIssuers], and in fields that it replaces.
func (c *Config) validShared() error {
	var errs []error
	if len(c.SharedIssuers.all) == 0 {
		errs = append(errs, errors.New("the shared issuers are empty: make them with NewIssuers"))
	}
	if len(c.Issuers) > 0 || c.StaleKeys != 0 || c.Client != nil || c.Now != nil || c.ObserveKeyFetch != nil {
		errs = append(errs, errors.New("ObserveKeyFetch, Issuers, StaleKeys, Client and Now belong to the shared issuers: set them in IssuersConfig"))
	}
	names := c.configured()
	for _, one := range c.AuthorizationServers {
		if !slices.Contains(names, one) {
			errs = append(errs, fmt.Errorf("authorization server %s: it is not one of the shared issuers", one))
		}
	}
	return errors.Join(errs...)
}

// trustedIssuers returns the shared issuers, or makes those of a guard that shares none.
func (c *Config) trustedIssuers() (*Issuers, error) {
	if c.SharedIssuers != nil {
		return c.SharedIssuers, nil
	}
	return c.ownIssuers()
}

// ownIssuers makes the issuers of the configuration.
func (c *Config) ownIssuers() (*Issuers, error) {
	out := &Issuers{now: c.Now}
	if out.now == nil {
		out.now = time.Now
	}
	fetcher, log := newFetcher(c.Client), c.logger()
	for _, one := range c.issuers() {
		urls, err := metadata.AuthorizationServerMetadataURLs(withoutSlash(one.URL))
		if err != nil {
			return nil, err
		}
		from := &issuer{name: one.URL, as: one, rules: tokenRulesOf(&one), urls: urls, fetch: fetcher,
			stale: cmp.Or(one.MaxStale, c.StaleKeys, defaultStaleKeys), now: out.now, log: log, watch: c.ObserveKeyFetch}
		if err := from.takeKeys(one.Keys); err != nil {
			return nil, err
		}
		out.all = append(out.all, from)
	}
	return out, nil
}

// logger returns Config.Logger as guards and issuers use it.
func (c *Config) logger() *slog.Logger {
	log := c.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return slog.New(LogHandler(log.Handler()))
}
