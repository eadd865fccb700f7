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

	"gatehouse.example/dcr"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
)

// EgressCheck is how a server notices that it has no way to the public web, where it could
// read no metadata document. Nothing else tells: that some stranger's host cannot be reached
// says nothing.
type EgressCheck struct {
	// Hosts are names of public hosts, at most 8, of which one has to be reached: it is looked
	// up, connected to at port 443, spoken TLS with, and asked nothing. Set it to hosts whose
	// documents are wanted here. Without any, nothing is looked for, and the way is taken to be
	// there.
	Hosts []string
	// Every is how long after a look that found the way the next one begins. Default 5 minutes.
	Every time.Duration
	// Again is how long after the first look in vain the next one begins; each further one takes
	// twice as long, up to a fifth of Every. Default 5 seconds.
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

// egress knows whether there is a way to the public web. A nil one takes it to be there.
type egress struct {
	check  EgressCheck
	reach  func(context.Context, []string) error
	log    *slog.Logger
	offers bool // documents are offered all the same

	begin  sync.Once
	looked chan struct{} // closed when the first look has ended

	missing atomic.Bool
	mu      sync.Mutex
	vain    int // looks in vain since the last one that was not
}

// newEgress returns nil where nothing is to be looked for: no host is named, or no document
// would be fetched.
func newEgress(cfg Config, clients *dcr.Clients) *egress {
	if len(cfg.Egress.Hosts) == 0 || !clients.FetchesDocuments() {
		return nil
	}
	check := cfg.Egress
	check.Every, check.Again = cmp.Or(check.Every, 5*time.Minute), cmp.Or(check.Again, 5*time.Second)
	return &egress{check: check, reach: cfg.Fetcher.Reach, log: cfg.Logger, offers: offersWithoutEgress(cfg, clients), looked: make(chan struct{})}
}

// isMissing reports whether no way was found when it was last looked for, and waits for the
// first look, which ends within seconds, but not for longer than ctx.
func (e *egress) isMissing(ctx context.Context) bool {
	if e == nil {
		return false
	}
	e.begin.Do(func() {
		go func() {
			defer close(e.looked)
			e.look(context.WithoutCancel(ctx)) // it is everybody's, and ends by itself
		}()
	})
	select {
	case <-e.looked:
	case <-ctx.Done():
	}
	return e.missing.Load()
}

// look looks once. At the beginning one look in vain is believed, later the second in a row.
func (e *egress) look(ctx context.Context) {
	err := e.reach(ctx, e.check.Hosts)
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	was, is := e.missing.Load(), false
	if e.vain++; err == nil {
		e.vain = 0
	} else {
		is = was || e.vain > 1 || !e.hasLooked()
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
	if e.offers {
		return ", but for those that are pinned"
	}
	return ", and are not offered"
}

// wait is how long the next look waits.
func (e *egress) wait() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.vain == 0 {
		return e.check.Every
	}
	return min(e.check.Again<<min(e.vain-1, 16), max(e.check.Every/5, e.check.Again))
}

// run looks until ctx ends.
func (e *egress) run(ctx context.Context) {
	if e == nil {
		return
	}
	e.isMissing(ctx)
	for {
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

// EgressMissing reports whether the server has found no way to the public web, so that metadata
// documents of clients cannot be read unless they are pinned. It begins to look if nobody has
// yet, and waits for the end of that, some two seconds at most, or for ctx.
func (s *Server) EgressMissing(ctx context.Context) bool { return s.egress.isMissing(ctx) }

// OffersDocuments reports whether the metadata says that documents are read: while none can be
// fetched, clients that can register do so instead.
func (s *Server) OffersDocuments(ctx context.Context) bool {
	return s.clients.SupportsDocuments() && (offersWithoutEgress(s.cfg, s.clients) || !s.egress.isMissing(ctx))
}

// offersWithoutEgress reports whether documents are offered while none can be fetched: where some
// are pinned and not everybody can register. Where everybody can, those whose documents are
// not pinned would be kept out by the offer, and the others lose nothing without it.
func offersWithoutEgress(cfg Config, clients *dcr.Clients) bool {
	return len(clients.Pinned()) > 0 && cfg.Registration != RegistrationOpen
}

// enclosed tells a person that the application is not to blame, and what ends it.
func (s *Server) enclosed(e *apiError) *displayedError {
	shown := &displayedError{
		status: e.status, code: e.code, cause: e.cause, title: "The application cannot be identified right now",
		message: "It identifies itself by an address on the public web, and this server has no way there at the moment. Nothing was changed.",
	}
	if s.cfg.Registration != RegistrationClosed {
		shown.steps = append(shown.steps, "In the application, remove the connection to this server and connect again: it may register instead, which needs nothing of the web.")
	}
	shown.steps = append(shown.steps,
		"If you run this server: the setting proxy names a way to the web, and client-documents-pinned keeps what an application publishes here.",
		"Otherwise wait a minute and load this page again, and tell the people who run this server if it stays like this.")
	return shown
}

func pinnedNames(clients []storage.Client) []string {
	var names []string
	for _, c := range clients {
		names = append(names, c.Metadata.ClientName)
	}
	return names
}
