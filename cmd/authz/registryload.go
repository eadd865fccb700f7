package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse.example/authz"
	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/metadata"
	"gatehouse.example/registry"
)

// The settings of a registry come from one of two kinds of file. A file for the registry alone
// has the names of flags as keys, and the list servers with the operator's own servers. In the
// file of an authorization server the same keys are under the key registry; settings that both
// share are taken from the top level unless they are also under registry.

// registryKeys returns the keys that the file of a registry may have.
func registryKeys(app *kong.Application) []string {
	keys := []string{"servers", "pages"}
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

// orders are the flags that apply to one run only. They are no settings of a file.
var orders = []string{"full", "accept-shrink", "accept-changed", "json"}

// loadRegistry sets s, which has the flags of the selected verb, from all sources. It returns
// warnings and every mistake.
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
		s.file = from.File
		errs = append(errs, s.ownFrom(from.File))
	}
	s.keepsOwn = s.keepsOwn || s.ServersFile != ""
	warnings := append(p.unknownVariables(k.Model), settings.SecretRisks(flags, origins, from.File)...)
	return warnings, errors.Join(append(errs, s.registryMistakes())...)
}

// asRegistryIn reduces the file of an authorization server to the settings of its registry.
// Keys of the registry at the top level are mistakes there. A file that has only keys of a
// registry stays as it is. Own are the keys of a registry, servers those of an authorization
// server.
func asRegistryIn(d *settings.Document, own, servers []string) error {
	top := d.Values
	if !hasOtherKeys(top, own) {
		return nil
	}
	for key, value := range top {
		if slices.Contains(own, key) && !slices.Contains(servers, key) {
			d.Fail(value.Line, "%s belongs under the key registry in the file of an authorization server", key)
		}
	}
	d.Values = map[string]settings.Field{}
	if section, ok := top["registry"]; ok {
		d.Values = d.Section(section, "registry", own)
	}
	takeShared(d.Values, top)
	return d.Mistakes()
}

// hasOtherKeys reports whether values has a key that is not in keys.
func hasOtherKeys(values map[string]settings.Field, keys []string) bool {
	for key := range values {
		if !slices.Contains(keys, key) {
			return true
		}
	}
	return false
}

// sharedKeys are the settings that a registry shares with the authorization server in whose file
// it is. The keys of one group are two ways to set one value.
var sharedKeys = [][]string{{"store", "store-file"}, {"master-keys", "master-keys-file"}, {"issuer"}, {"log-format"}, {"proxy", "proxy-file"}, {"proxy-by-name"}, {"pages"}}

// takeShared adds to the values of a registry the shared settings at the top level of the file,
// unless the registry has its own, and the list resources.
func takeShared(values, top map[string]settings.Field) {
	for _, group := range sharedKeys {
		if !slices.ContainsFunc(group, func(key string) bool { return values[key] != settings.Field{} }) {
			takeKeys(values, top, group)
		}
	}
	takeKeys(values, top, []string{"resources"})
}

func takeKeys(to, from map[string]settings.Field, keys []string) {
	for _, key := range keys {
		if value, ok := from[key]; ok {
			to[key] = value
		}
	}
}

// ownFrom reads the operator's own servers from a file: the list servers, and the resources
// that the authorization server issues tokens for.
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
					d.Fail(element.Line, "the registry cannot list %s: %s; describe it under servers, or write no-list-resources", server.URL, ownMistake(err))
				}
			}
		}
	}
	return d.Mistakes()
}

// ownMistake returns the text of an error about one of the operator's own servers, without the
// names of packages.
func ownMistake(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "registry: "), "own server: ")
}

// resourceServerIn reads the public part of a resource.
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

// ownScopes converts scopes to those of a registry record.
func ownScopes(scopes []authz.Scope) (out []registry.OwnScope) {
	for _, scope := range scopes {
		out = append(out, registry.OwnScope{Name: scope.Name, Description: scope.Description})
	}
	return out
}

// resourceKeys are the keys of a resource in the file of an authorization server.
var resourceKeys = []string{"uri", "name", "default", "scopes", "default-scopes", "introspection"}

// together returns the named servers and the servers of resources. If both have the same URL,
// the named one counts, and the resource only supplies what it lacks.
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

// registryMistakes returns the mistakes in the settings that both verbs have.
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

// shortestInterval keeps a slip, such as 1ms for 1m, from asking an upstream without a pause.
const shortestInterval = settings.Duration(time.Second)

// mistakes returns the mistakes in the settings that only the server has.
func (v *registryServe) mistakes() error {
	var errs []error
	if err := validAddress(v.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen %w", err))
	}
	if err := validAddress(v.AdminListen); err != nil && v.AdminListen != off {
		errs = append(errs, fmt.Errorf("admin-listen %w, or off", err))
	}
	if v.MetaFile != "" && v.MetaKey == "" {
		errs = append(errs, errors.New("meta-key is not set: name the key of _meta for the content of meta-file, for example --meta-key com.example.registry/catalogue"))
	}
	for _, between := range []struct {
		name string
		settings.Duration
	}{{"interval", v.Interval}, {"full-interval", v.FullInterval}} {
		if between.Duration < shortestInterval {
			errs = append(errs, fmt.Errorf("%s %s is too short: it must be at least %s, and an upstream of others deserves minutes", between.name, between.Duration, shortestInterval))
		}
	}
	if v.CacheAge < 0 {
		errs = append(errs, fmt.Errorf("cache-age %s is below 0", v.CacheAge))
	}
	return errors.Join(append(errs, collision(v.Listen, v.AdminListen, ""), v.boundMistakes(), tlsMistake(v.TLSCert, v.TLSKey))...)
}

// doubts returns a warning for each setting that has no effect or weakens the registry.
func (v *registryServe) doubts(addr net.Addr) []string {
	var out risks
	doubt := func(applies bool, sentence string) { out.add(applies, "%s", sentence) }
	out.keys(v.MasterKeys)
	out.admin(v.AdminListen)
	out.store(v.Store)
	doubt(v.Store == "" || v.Store.Embedded(), "the catalogue is kept in this process and lost at exit: --store file:PATH keeps it")
	doubt(v.Upstream == "" && !v.keepsOwn, "the catalogue stays as it is: there is neither an upstream to mirror nor a server of your own")
	upstream, err := url.Parse(v.Upstream)
	doubt(err == nil && upstream.Scheme == "http" && !metadata.IsLoopbackHost(upstream.Hostname()),
		"the upstream is http on another machine: an attacker on the network path can change the records of the catalogue")
	doubt(!loopback(addr) && v.TLSCert == "", addr.String()+" is open to other machines without TLS: only a proxy that ends TLS should reach it")
	return out
}

// pathOf returns the path of a URL without a trailing slash.
func pathOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.EscapedPath(), "/")
}
