package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/metadata"
	"gatehouse.example/registry"
)

// The file of a registry is one of its own, whose keys are the names of flags, besides
// servers, which is a list of servers of our own. Or it is that of the authorization server:
// then all of this stands under the key registry, and what the two share is taken from
// around it, unless it is there as well.

// registryKeys are the keys of a file of a registry.
func registryKeys(app *kong.Application) []string {
	keys := []string{"servers"}
	for _, node := range app.Children {
		if node.Name != "registry" {
			continue
		}
		for _, verb := range node.Children {
			for _, name := range settings.FileKeys(verb.Flags) {
				if !slices.Contains(keys, name) && !slices.Contains(orders, name) {
					keys = append(keys, name)
				}
			}
		}
	}
	return keys
}

// orders are the flags that say what to do once, and are no settings.
var orders = []string{"full", "accept-shrink", "accept-changed", "json"}

// loadRegistry fills s, whose flags are those of the verb, from all sources. It returns
// sentences about the environment, and every mistake.
func (p *program) loadRegistry(k *kong.Context, s *registrySettings) ([]string, error) {
	flags, own, servers := k.Selected().Flags, registryKeys(k.Model), settingNames(k.Model)
	from, err := settings.FindSources(k.Path, flags, p.env, append(slices.Clone(own), servers...))
	if from == nil {
		return nil, err
	}
	errs := []error{err}
	if from.File != nil {
		errs = append(errs, asRegistryIn(from.File, own, servers))
	}
	origins, err := from.Fill(flags)
	errs = append(errs, err)
	if from.File != nil {
		errs = append(errs, s.ownFrom(from.File))
	}
	s.keepsOwn = s.keepsOwn || s.ServersFile != ""
	warnings := append(p.env.UnknownVariables(settings.EveryFlag(k.Model.Node)), settings.SecretRisks(flags, origins, from.File)...)
	return warnings, errors.Join(append(errs, s.registryMistakes())...)
}

// asRegistryIn leaves of the file of an authorization server what is for its registry. Keys of
// the registry that stand outside of their section are mistakes. A file that has nothing
// but keys of a registry stays as it is.
func asRegistryIn(d *settings.Document, own, servers []string) error {
	around := d.Values
	theirs := false
	for key := range around {
		theirs = theirs || !slices.Contains(own, key)
	}
	if !theirs {
		return nil
	}
	for key, value := range around {
		if slices.Contains(own, key) && !slices.Contains(servers, key) {
			d.Fail(value.Line, "%s belongs under the key registry in the file of an authorization server", key)
		}
	}
	d.Values = map[string]settings.Field{}
	if section, ok := around["registry"]; ok {
		d.Values = d.Section(section, "registry", own)
	}
	for _, shared := range [][]string{{"store", "store-file"}, {"master-keys", "master-keys-file"}, {"issuer"}, {"log-format"}, {"proxy", "proxy-file"}, {"proxy-by-name"}} {
		if slices.ContainsFunc(shared, func(key string) bool { return d.Values[key] != settings.Field{} }) {
			continue
		}
		for _, key := range shared {
			if value, ok := around[key]; ok {
				d.Values[key] = value
			}
		}
	}
	if resources, ok := around["resources"]; ok {
		d.Values["resources"] = resources
	}
	return d.Mistakes()
}

// ownFrom reads the servers of our own that a file names: the list servers, and the servers
// that tokens are for.
func (s *registrySettings) ownFrom(d *settings.Document) error {
	if f, ok := d.Values["servers"]; ok {
		s.named, s.keepsOwn = ownServersIn(d, f), true
	}
	if f, ok := d.Values["resources"]; ok && s.ListResources {
		s.keepsOwn = true
		for _, element := range d.Elements(f, "resources") {
			if server := resourceServerIn(d, element); server.URL != s.Resource {
				s.resources = append(s.resources, server)
				if _, err := server.Item(); err != nil {
					d.Fail(element.Line, "the registry cannot list %s: %s; describe it under servers, or say no-list-resources", server.URL, ownMistake(err))
				}
			}
		}
	}
	return d.Mistakes()
}

// ownMistake is what is wrong with a server of our own.
func ownMistake(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "registry: "), "own server: ")
}

// resourceServerIn reads of a resource what others may know.
func resourceServerIn(d *settings.Document, f settings.Field) (s registry.OwnServer) {
	for key, value := range d.Section(f, "a resource", resourceKeys) {
		switch key {
		case "uri":
			s.URL = d.Text(value, key)
		case "name":
			s.Title = d.Text(value, key)
		case "scopes":
			s.Scopes = ownScopes(scopesIn(d, value))
		}
	}
	return s
}

// ownScopes returns scopes as a record of ours names them.
func ownScopes(scopes []authz.Scope) (out []registry.OwnScope) {
	for _, scope := range scopes {
		out = append(out, registry.OwnScope(scope))
	}
	return out
}

// resourceKeys are the keys of a resource in the file of an authorization server.
var resourceKeys = []string{"uri", "name", "default", "scopes", "default-scopes", "introspection"}

// together returns named servers and those of resources. What is said of a resource by name
// counts, and is completed.
func together(named, resources []registry.OwnServer) []registry.OwnServer {
	out := slices.Clone(named)
	for _, resource := range resources {
		known := false
		for i := range out {
			if s := &out[i]; s.URL == resource.URL {
				known = true
				s.Title = cmp.Or(s.Title, resource.Title)
				if s.Scopes == nil {
					s.Scopes = resource.Scopes
				}
			}
		}
		if !known {
			out = append(out, resource)
		}
	}
	return out
}

// registryMistakes returns what is wrong with the settings of both verbs.
func (s *registrySettings) registryMistakes() error {
	var errs []error
	if s.Resource != "" && len(s.Issuer) == 0 {
		errs = append(errs, errors.New("issuer is not set: give the authorization server whose tokens are accepted for "+s.Resource+", for example --issuer https://auth.example.com"))
	}
	for _, issuer := range s.Issuer {
		if err := metadata.ValidIssuer(issuer); err != nil {
			errs = append(errs, fmt.Errorf("issuer %s cannot be used: %s", issuer, withoutPackage(err)))
		}
	}
	_, err := s.client()
	return errors.Join(append(errs, err, s.proxyMistakes(), s.MasterKeys.Mistakes(), logFormatMistake(s.LogFormat))...)
}

// mistakes returns what else is wrong with the settings of the server.
func (v *registryServe) mistakes() error {
	var errs []error
	if err := validAddress(v.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen %w", err))
	}
	if err := validAddress(v.AdminListen); err != nil && v.AdminListen != off {
		errs = append(errs, fmt.Errorf("admin-listen %w, or off", err))
	}
	if v.MetaFile != "" && v.MetaKey == "" {
		errs = append(errs, errors.New("meta-key is not set: say under which key of _meta the meta-file is told, for example --meta-key com.example.registry/catalogue"))
	}
	for _, time := range []struct {
		name string
		settings.Duration
	}{{"interval", v.Interval}, {"full-interval", v.FullInterval}} {
		if time.Duration <= 0 {
			errs = append(errs, fmt.Errorf("%s %s is no time between two rounds: it must be more than 0", time.name, time.Duration))
		}
	}
	if v.CacheAge < 0 {
		errs = append(errs, fmt.Errorf("cache-age %s is below 0", v.CacheAge))
	}
	return errors.Join(append(errs, v.boundMistakes(), tlsMistake(v.TLSCert, v.TLSKey))...)
}

// doubts returns a sentence for each setting that does nothing or weakens the registry.
func (v *registryServe) doubts(addr net.Addr) []string {
	var out risks
	doubt := func(applies bool, sentence string) { out.add(applies, "%s", sentence) }
	out.keys(v.MasterKeys)
	out.admin(v.AdminListen)
	out.store(v.Store)
	doubt(v.Store == "" || v.Store.Embedded(), "the catalogue is kept in this process and lost at exit: --store redis://… keeps it")
	doubt(v.Upstream == "" && !v.keepsOwn, "the catalogue stays as it is: there is neither an upstream to mirror nor a server of your own")
	upstream, err := url.Parse(v.Upstream)
	doubt(err == nil && upstream.Scheme == "http" && !metadata.IsLoopbackHost(upstream.Hostname()),
		"the upstream is http on another machine: whoever is on the way there decides what is in the catalogue")
	doubt(!loopback(addr) && v.TLSCert == "", addr.String()+" is open to other machines without TLS: only a proxy that ends TLS should reach it")
	return out
}

// pathOf is the path of a URL without a slash at its end.
func pathOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.EscapedPath(), "/")
}
