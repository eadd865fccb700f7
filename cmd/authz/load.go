package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
)

// loaded is the result of loading the settings of a server, beside the settings themselves.
type loaded struct {
	origins map[string]settings.Origin
	relaxed relaxed
	// broken reports that the list of resources has mistakes, so that it is incomplete.
	broken bool
	// registry is the registry that the server carries, nil for none.
	registry *registryServe
	// warnings are about settings that have no effect or weaken the server.
	warnings []string
}

// load sets s, which has the flags of the selected verb, from all sources, completes it for
// --dev, and returns every mistake. The result is nil if the file cannot be read: each setting
// in it would be reported as missing.
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
			s.Clients = nil // they are incomplete
		}
		errs = append(errs, err)
		if s.StatementIssuers, err = statementIssuersIn(from.File); err != nil {
			s.StatementIssuers = nil
		}
		errs = append(errs, err)
		s.Pages, err = pagesIn(from.File)
		errs = append(errs, err)
		if s.PreApproved, err = preApprovedIn(from.File); err != nil {
			s.PreApproved = nil
		}
		errs = append(errs, err)
		s.SignIn, err = signInIn(from.File, s.Dev)
		errs = append(errs, err)
		l.warnings = from.File.Doubts
	}
	if from.File != nil {
		s.Groups, err = groupsIn(from.File)
		errs = append(errs, err)
	}
	errs = append(errs, s.readPinned())
	if s.Store == "" && !s.Dev {
		s.Store, err = defaultStore()
		errs = append(errs, err)
		l.origins["store"] = stateOfUser
	}
	set := func(name string) bool { return l.origins[name].Rank > settings.ByDefault }
	l.warnings = append(append(l.warnings, p.unknownVariables(k.Model)...), append(s.doubts(set), s.egressDoubts(set)...)...)
	if s.Dev {
		l.relaxed, err = s.relax(l.origins, p.rand)
		errs = append(errs, err)
	}
	l.warnings = slices.Concat(l.warnings, settings.SecretRisks(flags, l.origins, from.File), s.risks())
	l.registry, err = s.registry(k.Model, from.File)
	return l, errors.Join(append(errs, err, s.mistakes())...)
}

// loadStore sets the settings of a verb that only needs the store, and returns the file of the
// server, nil if none is named.
func (p *program) loadStore(k *kong.Context) (*settings.Document, error) {
	flags := k.Selected().Flags
	from, err := settings.FindSources(k.Path, flags, p.env, settingNames(k.Model))
	if err != nil {
		return nil, err
	}
	if _, err := from.Fill(flags); err != nil {
		return nil, err
	}
	return from.File, nil
}

// loadEnvironment sets the flags of a verb that reads no file.
func (p *program) loadEnvironment(k *kong.Context) error {
	from, err := p.sourcesWithoutFile(k)
	if err != nil {
		return err
	}
	_, err = from.Fill(k.Selected().Flags)
	return err
}

// sourcesWithoutFile returns the command line and the environment, also if that names the file of a
// server.
func (p *program) sourcesWithoutFile(k *kong.Context) (*settings.Sources, error) {
	env := maps.Clone(p.env)
	delete(env, settings.Variable("config"))
	return settings.FindSources(k.Path, nil, env, nil)
}

// doubts returns a warning for each setting that has no effect or weakens the server. Set
// reports whether the operator set a setting.
func (s *serveSettings) doubts(set func(string) bool) []string {
	var out []string
	for _, name := range []string{"dev-resource", "dev-password", "dev-introspection-secret"} {
		if set(name) && !s.Dev {
			out = append(out, name+" has no effect without --dev")
		}
	}
	if set("dev-resource") && s.Dev && len(s.Resources) > 0 {
		out = append(out, "dev-resource has no effect, because the file lists resources")
	}
	out = slices.Concat(out, s.resourceDoubts(), s.acmeDoubts(), s.actDoubts())
	if s.Store.Embedded() && !s.Dev {
		out = append(out, "store "+strings.TrimSpace(s.Store.String())+" keeps people, clients and grants in this process: they are lost at exit")
		if len(s.SignIn.Providers) == 0 && !s.SignIn.broken {
			out = append(out, "nobody can sign in: no command can add people to a store in this process, and there is no provider: give a store that other programs reach, list a provider under sign-in.providers, or use --dev")
		}
	}
	if s.AssertionAudience == string(authz.AudienceIssuerOrEndpoint) {
		out = append(out, "assertion-audience issuer-or-endpoint allows another authorization server of a client to use its assertions here (CVE-2025-27370): set issuer if all clients can name it")
	}
	return out
}

// resourceDoubts returns a warning if the file lists no resources. In an embedded store nobody can
// add any, so there that is a mistake.
func (s *serveSettings) resourceDoubts() []string {
	if len(s.Resources) > 0 || s.Dev || s.Store == "" || s.Store.Embedded() {
		return nil
	}
	return []string{"resources is not set: tokens are issued only for resources in the store, see authz resource ls; add one with authz resource add URI"}
}

// settingNames returns the keys of the file of serve: its lists, and its flags but config.
func settingNames(app *kong.Application) []string {
	return append([]string{"resources", "groups", "clients", "software-statements", "pre-approved", "sign-in", "registry", "pages"}, settings.FileKeys(serveFlags(app))...)
}

// serveFlags returns the flags of serve in the order of the struct serveSettings.
func serveFlags(app *kong.Application) []*kong.Flag { return settings.FlagsOf(app, "serve") }
