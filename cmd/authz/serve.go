package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/internal/passwords"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/internal/requestid"
	"gatehouse.example/storage"
)

// serveVerb runs the authorization server.
type serveVerb struct {
	serveSettings
}

// Run serves until ctx ends. It opens the listeners first, because the issuer of --dev depends
// on the port, then the store, and then announces that the server is ready.
func (v *serveVerb) Run(ctx context.Context, p *program, k *kong.Context) error {
	s := &v.serveSettings
	loaded, err := p.load(k, s)
	if err != nil {
		return err
	}
	log, flush := p.logger(s.LogFormat)
	defer flush()
	signals, deaf := p.listen()
	defer deaf()
	for _, sentence := range loaded.warnings {
		log.Warn(sentence)
	}
	st, err := newSite(ctx, s.Listen, s.AdminListen, s.TLSCert, s.TLSKey)
	if err != nil {
		return err
	}
	defer st.close()
	st.log, st.grace, st.bounds = log, p.grace, s.listenSettings
	st.trusted, _ = s.trustedProxies() // a mistake was reported
	st.measure()
	defer st.trace(ctx, "gatehouse")()
	if loaded.origins["issuer"] == madeUp {
		s.follow(st.public.Addr().String()) // now the port is known
	}
	return p.serve(ctx, newServing(p, k, s, loaded, log), st, loaded, signals)
}

// serve runs the server on listeners that are open.
func (p *program) serve(ctx context.Context, now *serving, st *site, l *loaded, signals <-chan os.Signal) error {
	s := now.serveSettings
	store, err := s.openStore(ctx, st, l.origins["store"] == stateOfUser)
	if err != nil {
		return err
	}
	defer store.Close()
	config, recorded, err := s.watched(ctx, p, st, store, l)
	if err != nil {
		return err
	}
	defer recorded.end(st)
	if p.passwordCheckers != nil {
		checkers := passwords.NewProcesses(st.log, p.passwordCheckers)
		defer checkers.Close()
		config.CheckPassword = checkers.Check
	}
	if s.RegistryAt != "" {
		config.Catalogue = s.catalogueURL()
	}
	front, err := authz.New(ctx, config)
	switch {
	case errors.Is(err, storage.ErrRecord):
		return fmt.Errorf("the signing keys in the store cannot be opened, a new server needs an empty store: %w", err)
	case err != nil:
		return err
	}
	st.countRecords(store, front)
	go front.EgressMissing(ctx) // starts the first check while the rest is made ready
	if s.Dev {
		if err := s.admitDemo(ctx, store, &l.relaxed); err != nil {
			return fmt.Errorf("the person %s: %w", demoPerson, err)
		}
	}
	if err := errors.Join(s.adviseOnRecords(ctx, store, st.log), s.adviseOnPeople(ctx, store, st.log)); err != nil {
		return err
	}
	public, admin, work := recorded.over(front, harmlessAtServer), st.probes(recorded.ready(front.Ready), without(front, store.Room)), []worker{front.Run, recorded.run}
	if l.registry != nil {
		c, err := l.registry.carried(ctx, s, store, st.log)
		if err != nil {
			return fmt.Errorf("the registry: %w", err)
		}
		public, admin, work = front.OnBehalf(c.over(public)), st.catalogueProbes(admin, c.mirror), append(work, c.mirror.Run)
	}
	now.front = front
	reloads := newReloader(recorded.told(now.reload), st.log, p.reloadRest)
	admin, work = st.reloading(admin, reloads), append(work, func(ctx context.Context) error { return reloads.run(ctx, signals) })
	go reportProviders(ctx, front, st.log) // it may take seconds, and nothing waits for it
	p.announce(ctx, s, st, l.relaxed, front)
	p.beforeAnswers(ctx)
	return runWith(ctx, func() error { return st.serve(ctx, public, admin) }, work...)
}

// reportProviders logs what the operator should know about the identity providers. A provider
// that does not answer keeps nobody from signing in elsewhere.
func reportProviders(ctx context.Context, front *authz.Server, log *slog.Logger) {
	reports := front.ReportProviders(ctx)
	if ctx.Err() != nil {
		return // the server ended meanwhile
	}
	for _, r := range reports {
		for _, warning := range r.Warnings {
			log.Warn("provider "+r.ID+": "+warning, "name", r.Name, "issuer", r.Issuer)
		}
	}
}

// without returns a function that names the features that are not available while the server is
// ready.
func without(front *authz.Server, room func() storage.Room) func(context.Context) []string {
	return func(ctx context.Context) []string {
		names := tight(room)(ctx)
		if front.EgressMissing(ctx) {
			names = append(names, noEgress+" unless they are pinned: see proxy, client-documents-pinned and egress-check")
		}
		return names
	}
}

// adviseOnRecords logs the next step towards a store in which every record is sealed, so that
// records forged by an attacker with access to the store are detected. An embedded store needs
// none.
func (s *serveSettings) adviseOnRecords(ctx context.Context, store *storage.Store, log *slog.Logger) error {
	form, _, err := store.Form(ctx)
	switch {
	case err != nil || s.Store.Embedded():
	case form == storage.FormPlain:
		log.Warn("records in the store are accepted without a seal: when every server runs this release, run authz key seal-records")
	case form == storage.FormSealed && s.Records != recordsSealed:
		log.Info("every record in the store is sealed: set records: sealed, so that a store without this switch is detected")
	}
	return err
}

// worker is a background task. It returns when ctx ends.
type worker = func(ctx context.Context) error

// runWith runs serve with background tasks, and returns when all have ended. It ends the tasks
// after serve has returned, which is some time after the end of ctx.
func runWith(ctx context.Context, serve func() error, work ...worker) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	worked := make(chan error, len(work))
	for _, run := range work {
		go func() { worked <- run(ctx) }()
	}
	errs := []error{serve()}
	stop()
	for range work {
		errs = append(errs, <-worked)
	}
	return errors.Join(errs...)
}

// announce prints that the server is ready and the addresses that users need, and with --dev,
// after that, every relaxation. Only --dev prints secrets, and only those that it made up.
func (p *program) announce(ctx context.Context, s *serveSettings, st *site, made relaxed, front *authz.Server) {
	var text strings.Builder // written at once, so that log lines do not interrupt it
	line := func(label, value string) { fmt.Fprintf(&text, "  %-14s %s\n", label, value) }
	fmt.Fprintln(&text, "Gatehouse is ready.")
	line("issuer", s.Issuer)
	line("listening on", st.public.Addr().String())
	if st.admin != nil {
		line("admin on", st.admin.Addr().String())
	}
	s.acmeSettings.announce(line, st.challenges)
	if path, _ := s.Store.File(); path != "" {
		line("store", path)
	}
	s.announceEgress(&text, front.EgressMissing(ctx), front.OffersDocuments(ctx))
	if s.Dev {
		line("sign in", made.signIn())
	}
	if made.introspection != "" {
		line("introspect", "client_id: the URI of the resource, secret: "+made.introspection)
	}
	if s.RegistryAt != "" {
		line("catalogue", s.catalogueURL())
	}
	for _, provider := range s.SignIn.Providers {
		line("sign in with", provider.Title()+", "+cmp.Or(provider.Issuer, provider.Preset))
	}
	for _, r := range s.Resources {
		line("connect to", r.URI)
	}
	made.print(&text)
	_, _ = io.WriteString(p.announcements(s.auditSettings), text.String())
}

// logger returns the log of a server and a function to call at the end. The log counts lines
// that clients can cause in any number instead of writing each.
func (p *program) logger(format string) (*slog.Logger, func()) {
	quiet := quietlog.New(p.logHandler(format))
	return slog.New(requestid.LogHandler(quiet)), quiet.Flush
}

func (p *program) logHandler(format string) slog.Handler {
	if format == "json" {
		return slog.NewJSONHandler(inertWriter{p.stderr}, nil)
	}
	return slog.NewTextHandler(p.stderr, nil) // it quotes text that is not printable
}
