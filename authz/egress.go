package authz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
	"gatehouse.example/templates/language"
)

// EgressCheck configures how a server detects that it has no access to the public web, where
// it could read no metadata document. A dedicated check is necessary: a failure to reach a
// host that a client names does not show that there is no access.
type EgressCheck struct {
	// Hosts are names of public hosts, at most 8. There is access if one of them can be
	// reached: the check resolves the name, connects to port 443, completes a TLS handshake
	// and sends no request. Set it to hosts whose client documents you need. Without hosts
	// there is no check, and access is assumed.
	Hosts []string
	// Every is the time between a successful check and the next one. Default 5 minutes.
	Every time.Duration
	// Again is the time between the first failed check and the next one. It doubles with each
	// further failure, up to a fifth of Every. Default 5 seconds.
	Again time.Duration
}

func (c EgressCheck) validate() error {
	if len(c.Hosts) > 8 {
		return errors.New("authz: egress-check: there are more than 8 hosts")
	}
	var errs []error
	for _, host := range c.Hosts {
		if err := safefetch.ReachableHost(host); err != nil {
			errs = append(errs, fmt.Errorf("authz: egress-check: %s", strings.TrimPrefix(err.Error(), "safefetch: ")))
		}
	}
	return errors.Join(errs...)
}

// egress records whether there is access to the public web. A nil *egress assumes that there
// is.
type egress struct {
	check  EgressCheck
	reach  func(context.Context, []string) error
	log    *slog.Logger
	offers func() bool // whether documents are offered without access too

	begin  sync.Once
	looked chan struct{} // closed at the end of the first check

	missing  atomic.Bool
	mu       sync.Mutex
	failures int // consecutive failed checks
}

// newEgress returns nil if no check is needed: if no host is configured, or no document would
// be fetched.
func (s *Server) newEgress() *egress {
	cfg, all := s.cfg, s.lasting
	if len(cfg.Egress.Hosts) == 0 || !s.clients.FetchesDocuments() {
		return nil
	}
	check := cfg.Egress
	check.Every, check.Again = cmp.Or(check.Every, 5*time.Minute), cmp.Or(check.Again, 5*time.Second)
	offers := func() bool { return offersWithoutEgress(all.latest.Load()) }
	return &egress{check: check, offers: offers, reach: cfg.Fetcher.Reach, log: cfg.Logger, looked: make(chan struct{})}
}

// isMissing reports whether the last check found no access. It waits for the first check,
// which ends within seconds, but not for longer than ctx.
func (e *egress) isMissing(ctx context.Context) bool {
	if e == nil {
		return false
	}
	e.begin.Do(func() {
		go func() {
			defer close(e.looked)
			e.look(context.WithoutCancel(ctx)) // all requests share the result, and the check ends by itself
		}()
	})
	select {
	case <-e.looked:
	case <-ctx.Done():
	}
	return e.missing.Load()
}

// look checks once. At the start one failed check means that access is missing, later two in
// a row.
func (e *egress) look(ctx context.Context) {
	if e == nil {
		return
	}
	err := e.reach(ctx, e.check.Hosts)
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	was, is := e.missing.Load(), false
	if e.failures++; err == nil {
		e.failures = 0
	} else {
		is = was || e.failures > 1 || !e.hasLooked()
	}
	e.missing.Store(is)
	switch {
	case is && !was:
		e.log.WarnContext(ctx, "no way to the public web: metadata documents of clients cannot be read"+e.consequence(),
			"looked for", strings.Join(e.check.Hosts, ","), "reason", safefetch.Reason(err), "settings", "proxy, client-documents-pinned, egress-check")
	case was && !is:
		e.log.InfoContext(ctx, "there is a way to the public web again: metadata documents of clients are read, and offered")
	}
}

func (e *egress) hasLooked() bool {
	select {
	case <-e.looked:
		return true
	default:
		return false
	}
}

func (e *egress) consequence() string {
	if e.offers() {
		return ", except those that are pinned"
	}
	return ", and are not offered"
}

// egressIdle is the time between two looks whether a new configuration needs a check.
const egressIdle = 15 * time.Second

// wait returns the time until the next check, or until there may be something to check.
func (e *egress) wait() time.Duration {
	if e == nil {
		return egressIdle
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failures == 0 {
		return e.check.Every
	}
	return min(e.check.Again<<min(e.failures-1, 16), max(e.check.Every/5, e.check.Again))
}

// egressRun checks repeatedly until ctx ends. A configuration without a check may be replaced by
// one with it.
func (s *Server) egressRun(ctx context.Context) {
	for {
		e := s.latest.Load().egress
		e.isMissing(ctx)
		timer := time.NewTimer(e.wait())
		select {
		case <-timer.C:
			e.look(ctx)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// EgressMissing reports whether the server has found no access to the public web, so that it
// can read client metadata documents only if they are pinned. If there was no check yet,
// EgressMissing starts one and waits for its end, for about two seconds at most, or for ctx.
func (s *Server) EgressMissing(ctx context.Context) bool {
	return s.latest.Load().egress.isMissing(ctx)
}

// OffersDocuments reports whether the server metadata offers client metadata documents. While
// none can be fetched, clients that can register do so instead.
func (s *Server) OffersDocuments(ctx context.Context) bool {
	s = s.latest.Load()
	return s.offersDocuments(ctx)
}

func (s *Server) offersDocuments(ctx context.Context) bool {
	return s.clients.SupportsDocuments() && (offersWithoutEgress(s) || !s.egress.isMissing(ctx))
}

// offersWithoutEgress reports whether documents are offered while none can be fetched: if
// some are pinned and registration is not open. With open registration the offer would keep
// out the clients whose documents are not pinned, and the others lose nothing without it.
func offersWithoutEgress(s *Server) bool {
	return s.cfg.Registration != RegistrationOpen && len(s.clients.Pinned()) > 0
}

// noEgressPage returns the page for a client document that cannot be read for lack of access
// to the public web. It explains that the application is not at fault, and what the operator
// can change.
func (s *Server) noEgressPage(e *apiError) *displayedError {
	shown := &displayedError{
		status: e.status, code: e.code, cause: e.cause, title: language.Say("error.unidentified.title"),
		message: language.Say("error.noEgress.message"),
	}
	if s.cfg.Registration != RegistrationClosed {
		shown.steps = append(shown.steps, language.Say("error.noEgress.register"))
	}
	shown.steps = append(shown.steps,
		language.Say("error.noEgress.operator", "proxy", language.Code("proxy"), "pinned", language.Code("client-documents-pinned")),
		language.Say("error.noEgress.wait"))
	return shown
}

func pinnedNames(clients []storage.Client) []string {
	var names []string
	for _, c := range clients {
		names = append(names, c.Metadata.ClientName)
	}
	return names
}
