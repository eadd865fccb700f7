package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/internal/certificate"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// checkVerb checks the configuration of serve. It has the same flags, so that a command line of
// serve can be checked unchanged.
type checkVerb struct {
	serveSettings
	Effective bool `help:"Print every setting with its value and its source."`
}

// Run prints one line for each mistake. It opens no port and connects to no store.
func (v *checkVerb) Run(ctx context.Context, p *program, k *kong.Context) error {
	l, err := p.load(k, &v.serveSettings)
	if l == nil {
		return err
	}
	for _, sentence := range l.warnings {
		fmt.Fprintf(p.stderr, "authz: warning: %s\n", sentence)
	}
	if v.Effective {
		if err := v.print(p.stdout, k.Selected().Flags, l.origins); err != nil {
			return err
		}
	}
	if err != nil {
		l.registry = nil // its mistakes were reported
	}
	if err := errors.Join(err, v.storeMistake(), v.certificateMistake(), v.rehearse(ctx, l)); err != nil {
		return err
	}
	if !v.Effective {
		if err := v.acmeSettings.plan(p.stdout, v.Listen); err != nil {
			return err
		}
		_, err = fmt.Fprintln(p.stdout, "The configuration is good.")
	}
	return err
}

// certificateMistake loads the certificate and key, if both are named.
func (v *checkVerb) certificateMistake() error {
	if v.tlsMistake() != nil || v.TLSCert == "" {
		return nil
	}
	_, err := certificate.Load(v.TLSCert, v.TLSKey)
	return err
}

// rehearse builds the server over an embedded store, because some settings are only checked
// there. Settings that are missing or broken were reported before; rehearse replaces them.
func (v *checkVerb) rehearse(ctx context.Context, l *loaded) error {
	backend, err := redis.Open(ctx, redis.Options{URL: "embedded:"})
	if err != nil {
		return err
	}
	config, err := v.server()
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	if v.issuerMistake() != nil || v.Issuer == "" {
		config.Issuer = "https://auth.example.com"
	}
	if len(config.Resources) == 0 || l.broken {
		config.Resources = demoResources(nil)
	}
	if v.signInMistake() != nil || v.SignIn.broken {
		config.NoPasswords = false
	}
	config.Registration = cmp.Or(config.Registration, authz.RegistrationClosed)
	store, err := storage.New(backend, storage.Options{Issuer: config.Issuer, MasterKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	config.Store, config.Logger = store, slog.New(slog.DiscardHandler) // that store knows no groups or clients
	_, err = authz.New(ctx, config)
	if err == nil && l.registry != nil {
		_, err = l.registry.carried(ctx, &v.serveSettings, store, slog.New(slog.DiscardHandler))
	}
	return errors.Join(err, store.Close())
}

// print writes the settings as YAML. It never prints a secret, only that it is set.
func (v *checkVerb) print(w io.Writer, flags []*kong.Flag, origins map[string]settings.Origin) error {
	for _, flag := range flags {
		if reflect.ValueOf(flag.Target.Interface()).IsZero() || flag.Name == "config" || flag.Name == "effective" {
			continue
		}
		value, err := yaml.MarshalWithOptions(plain(flag.Target.Interface()), yaml.Flow(true))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: %s  # %s\n", flag.Name, strings.TrimSpace(string(value)), origins[flag.Name].Where)
	}
	lists := v.described()
	if len(lists) == 0 {
		return nil
	}
	text, err := yaml.Marshal(lists)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// described returns the lists and sections of the file, without secrets.
func (v *checkVerb) described() yaml.MapSlice {
	lists := yaml.MapSlice{}
	if len(v.Groups) > 0 {
		lists = append(lists, yaml.MapItem{Key: "groups", Value: v.Groups})
	}
	for _, list := range []struct {
		key   string
		value []yaml.MapSlice
	}{{"resources", describe(v.Resources)}, {"clients", describeClients(v.Clients)}, {"software-statements", describeIssuers(v.StatementIssuers)}, {"pre-approved", describeApprovals(v.PreApproved)}} {
		if len(list.value) > 0 {
			lists = append(lists, yaml.MapItem{Key: list.key, Value: list.value})
		}
	}
	if len(v.Pages.described) > 0 {
		lists = append(lists, yaml.MapItem{Key: "pages", Value: v.Pages.described})
	}
	if signIn := describeSignIn(v.SignIn); len(signIn) > 0 {
		lists = append(lists, yaml.MapItem{Key: "sign-in", Value: signIn})
	}
	return lists
}

// plain returns a value as a file has it.
func plain(v any) any {
	if s, ok := v.(fmt.Stringer); ok {
		return s.String()
	}
	return v
}

// describe returns resources as a file has them.
func describe(resources []authz.Resource) []yaml.MapSlice {
	var out []yaml.MapSlice
	for _, r := range resources {
		m := yaml.MapSlice{{Key: "uri", Value: r.URI}}
		if r.Name != "" {
			m = append(m, yaml.MapItem{Key: "name", Value: r.Name})
		}
		m = append(m, yaml.MapItem{Key: "default", Value: r.Default || len(resources) == 1 && !strings.Contains(r.URI, "{")})
		var scopes yaml.MapSlice
		for _, s := range r.Scopes {
			scopes = append(scopes, yaml.MapItem{Key: s.Name, Value: describeScope(s)})
		}
		if len(scopes) > 0 {
			m = append(m, yaml.MapItem{Key: "scopes", Value: scopes})
		}
		if len(r.DefaultScopes) > 0 {
			m = append(m, yaml.MapItem{Key: "default-scopes", Value: r.DefaultScopes})
		}
		m = append(m, describeAllow(r.Allow)...)
		if len(r.Claims) > 0 {
			m = append(m, yaml.MapItem{Key: "claims", Value: r.Claims})
		}
		if i := r.Introspection; i != nil {
			m = append(m, yaml.MapItem{Key: "introspection", Value: yaml.MapSlice{{Key: "client-id", Value: i.ID}, {Key: "client-secret", Value: settings.Redacted}}})
		}
		out = append(out, m)
	}
	return out
}
