package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/dcr"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
)

// serveReloads are the flags of serve whose new values a running server takes. All other flags need
// a restart. The lists and sections of the file are taken too, except registry.
var serveReloads = []string{
	"registration", "registration-quota", "registration-redirect-hosts", "registration-schemes", "registration-refuse", "registration-scopes",
	"registration-grant-types", "client-unused", "client-idle",
	"client-documents", "client-documents-allow", "client-documents-deny", "client-documents-pinned", "assertion-audience",
	"access-token-ttl", "code-ttl", "refresh-window", "refresh-idle", "refresh-max",
	"session-idle", "session-max", "consent-remember", "insecure-remember-unvouched",
	"limit-token", "limit-client", "limit-introspection", "limit-registration", "limit-documents", "limit-pages",
	"dev-resource", "dev-introspection-secret",
	"audit-verbs", // of the verbs, which read it themselves
}

// serving is what a running server was told last. It is used by one reload at a time.
type serving struct {
	*serveSettings
	program  *program
	args     []string // of the command line
	flags    []*kong.Flag
	origins  map[string]settings.Origin
	registry *registryServe // a copy, as it was read at the start; nil for none
	listed   pagesSection   // the look of its pages
	warnings []string
	front    *authz.Server
	log      *slog.Logger
}

// newServing describes a server that begins. front is set later.
func newServing(p *program, k *kong.Context, s *serveSettings, l *loaded, log *slog.Logger) *serving {
	return &serving{
		serveSettings: s, program: p, args: k.Args, flags: k.Selected().Flags, origins: l.origins,
		registry: registryCopy(l.registry), listed: s.Pages, warnings: l.warnings, log: log,
	}
}

func registryCopy(v *registryServe) *registryServe {
	if v == nil {
		return nil
	}
	out := *v
	return &out
}

// reload reads all settings, and lets the server take those that it can.
func (v *serving) reload(ctx context.Context) reloaded {
	next, err := v.read(ctx)
	if err != nil {
		return refused(err)
	}
	out := reloaded{Done: true}
	out.Changed, out.Restart = v.takeOver(next)
	if err := v.valid(next, len(out.Restart) > 0); err != nil {
		return refused(err)
	}
	config, err := next.server()
	if err != nil {
		return refused(err)
	}
	if next.RegistryAt != "" {
		config.Catalogue = next.catalogueURL()
	}
	if err := v.front.Reload(ctx, config); err != nil {
		return refused(err)
	}
	if next.counted = v.counted; next.counted != nil {
		next.counted(next.providerIDs()...)
	}
	out.Warnings = slices.DeleteFunc(slices.Clone(next.warnings), func(w string) bool { return slices.Contains(v.warnings, w) })
	if slices.ContainsFunc(out.Changed, func(c change) bool { return c.Key == "sign-in" }) {
		go reportProviders(context.WithoutCancel(ctx), v.front, v.log)
	}
	front, log := v.front, v.log
	*v = *next
	v.front, v.log = front, log
	return out
}

// read reads the settings from the command line, the environment and the file, as the start does.
func (v *serving) read(ctx context.Context) (*serving, error) {
	k, err := v.program.parse(ctx, v.args, func(int) {})
	if err != nil {
		return nil, err
	}
	verb, ok := k.Selected().Target.Addr().Interface().(*serveVerb)
	if !ok {
		return nil, errors.New("this is no server")
	}
	s := &verb.serveSettings
	s.before = v.serveSettings
	l, err := v.program.load(k, s)
	s.before = nil
	if err == nil && s.Dev != v.Dev {
		err = errors.New("dev has another value: it changes what all other settings mean, so restart the server")
	}
	if err != nil {
		return nil, err
	}
	return newServing(v.program, k, s, l, v.log), nil
}

// takeOver gives next the values from before of what needs a restart. It returns the settings that
// have changed, and those that have and need a restart.
func (v *serving) takeOver(next *serving) (changed, restart []change) {
	changed, restart = v.changes(next), []change{}
	otherRegistry := v.registryDiffers(next)
	for i, flag := range next.flags {
		if slices.Contains(serveReloads, flag.Name) || flag.Name == "config" {
			continue
		}
		if v.differs(next, i) {
			restart = append(restart, change{Key: flag.Name})
		}
		flag.Target.Set(v.flags[i].Target)
	}
	if otherRegistry {
		restart = append(restart, change{Key: "registry"})
	}
	if v.registry != nil && !reflect.DeepEqual(v.listed, next.listed) {
		restart = append(restart, change{Key: "registry", What: "the look of its pages"})
	}
	next.registry, next.listed = v.registry, v.listed
	return changed, restart
}

// differs reports whether a flag has another value. What --dev makes up is none, and of a secret it
// does not matter which file it is in.
func (v *serving) differs(next *serving, i int) bool {
	name := next.flags[i].Name
	if v.origins[name] == madeUp && next.origins[name] == madeUp || isTwin(next.flags, name) {
		return false
	}
	return !reflect.DeepEqual(v.flags[i].Target.Interface(), next.flags[i].Target.Interface())
}

// isTwin reports whether a flag names the file of a secret that is a flag itself.
func isTwin(flags []*kong.Flag, name string) bool {
	secret, ok := strings.CutSuffix(name, "-file")
	return ok && slices.ContainsFunc(flags, func(flag *kong.Flag) bool { return flag.Name == secret })
}

// valid checks settings of which some are those from before.
func (v *serving) valid(next *serving, mixed bool) error {
	if !mixed {
		return nil
	}
	err := next.mistakes()
	if next.registry != nil {
		err = errors.Join(err, next.registryAtMistake(next.registry))
	}
	if err != nil {
		return fmt.Errorf("with the settings that need a restart as they were: %w", err)
	}
	return nil
}

// registryDiffers reports whether the registry that the server carries is described in other words.
// Settings that it has from the server are compared there.
func (v *serving) registryDiffers(next *serving) bool {
	if v.registry == nil || next.registry == nil {
		return v.registry != next.registry && v.RegistryAt == next.RegistryAt // else registry-at says it
	}
	other := registryCopy(next.registry)
	other.Store, other.MasterKeys, other.proxySettings, other.Issuer = v.registry.Store, v.registry.MasterKeys, v.registry.proxySettings, v.registry.Issuer
	return !reflect.DeepEqual(v.registry, other)
}

// changes returns the settings with new values that the server takes.
func (v *serving) changes(next *serving) []change {
	out := []change{}
	add := func(key string, is bool, what string) {
		if is {
			out = append(out, change{key, what})
		}
	}
	for i, flag := range next.flags {
		if slices.Contains(serveReloads, flag.Name) && flag.Name != "client-documents-pinned" {
			add(flag.Name, !reflect.DeepEqual(v.flags[i].Target.Interface(), flag.Target.Interface()), "")
		}
	}
	add("client-documents-pinned", !reflect.DeepEqual(v.pinned, next.pinned), keysOf(v.pinned).with(keysOf(next.pinned)))
	lists := []struct {
		key           string
		before, after elements
	}{
		{"resources", elementsOf(v.Resources, func(r authz.Resource) string { return r.URI }), elementsOf(next.Resources, func(r authz.Resource) string { return r.URI })},
		{"groups", keysOf(v.Groups), keysOf(next.Groups)},
		{"clients", elementsOf(v.Clients, func(c storage.Client) string { return c.ID }), elementsOf(next.Clients, func(c storage.Client) string { return c.ID })},
		{"software-statements", elementsOf(v.StatementIssuers, func(i dcr.StatementIssuer) string { return i.Issuer }), elementsOf(next.StatementIssuers, func(i dcr.StatementIssuer) string { return i.Issuer })},
		{"pre-approved", elementsOf(v.PreApproved, approvalName), elementsOf(next.PreApproved, approvalName)},
		{"sign-in", elementsOf(v.SignIn.Providers, func(p upstream.Provider) string { return p.ID }), elementsOf(next.SignIn.Providers, func(p upstream.Provider) string { return p.ID })},
	}
	for _, list := range lists {
		what := list.before.with(list.after)
		add(list.key, what != "" || list.key == "sign-in" && !sameSignIn(v.SignIn, next.SignIn), what)
	}
	add("pages", !reflect.DeepEqual(withoutFiles(v.Pages.look), withoutFiles(next.Pages.look)) || v.Pages.files != next.Pages.files, "")
	return out
}

func withoutFiles(l templates.Look) templates.Look {
	l.Files = nil
	return l
}

func approvalName(a authz.PreApproval) string { return a.ClientID + " at " + a.Resource }

func sameSignIn(a, b signInSettings) bool {
	return a.NoPasswords == b.NoPasswords && a.RecheckGrace == b.RecheckGrace
}
