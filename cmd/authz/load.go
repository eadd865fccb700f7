package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
)

// loaded is what came with the settings of a server.
type loaded struct {
	origins map[string]settings.Origin
	relaxed relaxed
	// broken says that the resources could not be read as they are meant.
	broken bool
	// registry is carried by the server, nil for none.
	registry *registryServe
	// warnings are sentences about settings that have no effect or a bad one.
	warnings []string
}

// load fills s, whose flags are those of the verb, from all sources, completes it for
// --dev and returns every mistake. It returns nil if the file cannot be read at all:
// everything in it would seem to be missing.
func (p *program) load(k *kong.Context, s *serveSettings) (*loaded, error) {
	flags := k.Selected().Flags
	from, err := settings.FindSources(k.Path, flags, p.env, settingNames(k.Model))
	if from == nil {
		return nil, err
	}
	l := &loaded{}
	errs := []error{err}
	l.origins, err = from.Fill(flags)
	errs = append(errs, err)
	if from.File != nil {
		s.Resources, err = resourcesIn(from.File)
		errs = append(errs, err)
		l.broken = err != nil
		if s.Clients, err = clientsIn(from.File); err != nil {
			s.Clients = nil // what they are meant to be is not known
		}
		errs = append(errs, err)
		if s.StatementIssuers, err = statementIssuersIn(from.File); err != nil {
			s.StatementIssuers = nil
		}
		errs = append(errs, err)
		l.warnings = from.File.Doubts
	}
	errs = append(errs, s.readPinned())
	asked := func(name string) bool { return l.origins[name].Rank > settings.ByDefault }
	l.warnings = append(append(l.warnings, p.env.UnknownVariables(settings.EveryFlag(k.Model.Node))...), append(s.doubts(asked), s.egressDoubts(asked)...)...)
	if s.Dev {
		l.relaxed, err = s.relax(l.origins, p.rand)
		errs = append(errs, err)
	}
	l.warnings = slices.Concat(l.warnings, settings.SecretRisks(flags, l.origins, from.File), s.risks())
	l.registry, err = s.registry(k.Model, from.File)
	return l, errors.Join(append(errs, err, s.mistakes())...)
}

// loadStore fills the settings of a verb that only needs the store.
func (p *program) loadStore(k *kong.Context) error {
	flags := k.Selected().Flags
	from, err := settings.FindSources(k.Path, flags, p.env, settingNames(k.Model))
	if err != nil {
		return err
	}
	_, err = from.Fill(flags)
	return err
}

// doubts returns a sentence for each setting that does nothing or weakens the server.
func (s *serveSettings) doubts(asked func(string) bool) []string {
	var out []string
	for _, name := range []string{"dev-resource", "dev-password", "dev-introspection-secret"} {
		if asked(name) && !s.Dev {
			out = append(out, name+" has no effect without --dev")
		}
	}
	if asked("dev-resource") && s.Dev && len(s.Resources) > 0 {
		out = append(out, "dev-resource has no effect, because the file lists resources")
	}
	if s.Store.Embedded() && !s.Dev {
		out = append(out, "store "+strings.TrimSpace(s.Store.String())+" keeps people, clients and grants in this process: they are lost at exit")
	}
	if s.AssertionAudience == string(authz.AudienceIssuerOrEndpoint) {
		out = append(out, "assertion-audience issuer-or-endpoint lets another server that a client uses be taken for that client here (CVE-2025-27370): issuer ends that, if the clients can name it")
	}
	return out
}

// settingNames are the flags of serve that the file may set: all but config.
func settingNames(app *kong.Application) []string {
	return append([]string{"resources", "clients", "software-statements", "registry"}, settings.FileKeys(serveFlags(app))...)
}

// serveFlags are the flags of serve, in the order of the struct serveSettings.
func serveFlags(app *kong.Application) []*kong.Flag { return settings.FlagsOf(app, "serve") }
