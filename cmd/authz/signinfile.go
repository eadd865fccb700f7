package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/cmd/authz/internal/settings"
)

// signInSettings are the section sign-in of the file: how people sign in. There are no flags for
// it.
type signInSettings struct {
	// NoPasswords is passwords: false.
	NoPasswords bool
	// Providers are the identity providers at which people sign in.
	Providers []upstream.Provider
	// RecheckGrace is the time for which people stay signed in while their provider does not say
	// whether they may; zero for the default.
	RecheckGrace settings.Duration
	// broken reports that the section has mistakes, so that it is incomplete.
	broken bool
}

// signInIn reads the section sign-in. It is read apart from the other settings because it may
// name files with secrets, which only serve needs to open.
func signInIn(d *settings.Document, dev bool) (signInSettings, error) {
	var s signInSettings
	section, ok := d.Values["sign-in"]
	if !ok {
		return s, nil
	}
	keys := d.Section(section, "sign-in", signInKeys)
	if f, ok := keys["passwords"]; ok {
		s.NoPasswords = !d.Truth(f, "passwords")
	}
	if f, ok := keys["recheck-grace"]; ok {
		s.RecheckGrace = durationIn(d, f, "recheck-grace")
		if s.RecheckGrace <= 0 && d.Failures() == 0 {
			d.Fail(f.Line, "recheck-grace %s is not a time: it must be more than 0", s.RecheckGrace)
		}
	}
	if f, ok := keys["providers"]; ok {
		lines := map[string]int{}
		for _, element := range d.Elements(f, "providers") {
			p := providerIn(d, element, dev)
			if first, twice := lines[p.ID]; twice && p.ID != "" {
				d.Fail(element.Line, "the provider %s is there twice, the first time in line %d", p.ID, first)
			}
			lines[p.ID] = element.Line
			s.Providers = append(s.Providers, p)
		}
	}
	err := d.Mistakes()
	if err != nil {
		s.Providers, s.broken = nil, true
	}
	return s, err
}

// signInKeys are the keys of the section.
var signInKeys = []string{"passwords", "providers", "recheck-grace"}

// providerKeys are the keys of a provider.
var providerKeys = []string{
	"id", "preset", "name", "issuer", "client-id", "client-secret", "client-secret-file", "client-key-file",
	"allow", "recheck", "claims", "logout-ends-grants", "scopes",
}

// providerIn reads one provider, and checks it by the rules of package upstream.
func providerIn(d *settings.Document, f settings.Field, dev bool) upstream.Provider {
	keys := d.Section(f, "a provider", providerKeys)
	before := d.Failures()
	var p upstream.Provider
	for key, target := range map[string]*string{"id": &p.ID, "preset": &p.Preset, "name": &p.Name, "issuer": &p.Issuer, "client-id": &p.ClientID} {
		if value, ok := keys[key]; ok {
			*target = d.Text(value, strings.ReplaceAll(key, "-", "_"))
		}
	}
	p.ClientSecret = d.GivenSecret(keys)
	if value, ok := keys["client-key-file"]; ok {
		p.ClientKey = clientKeyIn(d, value)
	}
	if value, ok := keys["scopes"]; ok {
		p.Scopes = d.OneOrMore(value, "scopes")
	}
	if value, ok := keys["recheck"]; ok {
		p.Recheck = time.Duration(durationIn(d, value, "recheck"))
	}
	if value, ok := keys["logout-ends-grants"]; ok {
		p.LogoutEndsGrants = d.Truth(value, "logout-ends-grants")
	}
	if value, ok := keys["claims"]; ok {
		if groups, ok := d.Section(value, "claims", []string{"groups"})["groups"]; ok {
			p.Claims.Groups = d.Text(groups, "groups")
		}
	}
	if value, ok := keys["allow"]; ok {
		p.Allow = admissionIn(d, value)
	}
	if d.Failures() == before { // else what is missing was reported
		reportProvider(d, f, keys, p, dev)
	}
	return p
}

// reportProvider records the mistakes of a provider in the lines of the keys at fault.
func reportProvider(d *settings.Document, f settings.Field, keys map[string]settings.Field, p upstream.Provider, dev bool) {
	for _, mistake := range mistakesIn(p.Validate(dev)) {
		sentence := mistake.Error()
		key, _, _ := strings.Cut(sentence, ":")
		key, _, _ = strings.Cut(strings.ReplaceAll(key, "_", "-"), ".")
		line := f.Line
		if at, ok := keys[key]; ok {
			line = at.Line
		}
		if p.ID != "" {
			sentence = "provider " + p.ID + ": " + sentence
		}
		d.Fail(line, "%s", sentence)
	}
}

// mistakesIn returns the errors that were joined.
func mistakesIn(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// admissionIn reads who may come in.
func admissionIn(d *settings.Document, f settings.Field) upstream.Allow {
	keys := d.Section(f, "allow", []string{"domains", "organisations", "groups", "people", "tenants", "anybody"})
	var a upstream.Allow
	for key, target := range map[string]*[]string{"domains": &a.Domains, "organisations": &a.Organisations, "groups": &a.Groups, "people": &a.People} {
		if value, ok := keys[key]; ok {
			if *target = d.OneOrMore(value, key); len(*target) == 0 && d.Failures() == 0 {
				d.Fail(value.Line, "%s is empty: name somebody, or leave it out", key)
			}
		}
	}
	if value, ok := keys["tenants"]; ok { // what Entra ID has for domains
		a.Domains = slices.Concat(a.Domains, d.OneOrMore(value, "tenants"))
	}
	if value, ok := keys["anybody"]; ok {
		a.Anybody = d.Truth(value, "anybody")
	}
	return a
}

func clientKeyIn(d *settings.Document, f settings.Field) *upstream.ClientKey {
	text := d.SecretFile(f, "client_key_file")
	if text == "" {
		return nil
	}
	key, err := upstream.ParseClientKey([]byte(text))
	if err != nil {
		d.Fail(f.Line, "client_key_file: %v", err)
	}
	return key
}

func durationIn(d *settings.Document, f settings.Field, key string) settings.Duration {
	var out settings.Duration
	if text := d.Text(f, key); text != "" {
		if err := out.UnmarshalText([]byte(text)); err != nil {
			d.Fail(f.Line, "%s: %v", key, err)
		}
	}
	return out
}

// describeSignIn returns the section as a file has it, without secrets.
func describeSignIn(s signInSettings) yaml.MapSlice {
	out := yaml.MapSlice{}
	if s.NoPasswords {
		out = append(out, yaml.MapItem{Key: "passwords", Value: false})
	}
	if s.RecheckGrace > 0 {
		out = append(out, yaml.MapItem{Key: "recheck-grace", Value: s.RecheckGrace.String()})
	}
	var providers []yaml.MapSlice
	for _, p := range s.Providers {
		providers = append(providers, describeProvider(p))
	}
	if len(providers) > 0 {
		out = append(out, yaml.MapItem{Key: "providers", Value: providers})
	}
	return out
}

func describeProvider(p upstream.Provider) yaml.MapSlice {
	m := yaml.MapSlice{{Key: "id", Value: p.ID}}
	add := func(set bool, key string, value any) {
		if set {
			m = append(m, yaml.MapItem{Key: key, Value: value})
		}
	}
	add(p.Preset != "", "preset", p.Preset)
	add(p.Name != "", "name", p.Name)
	add(p.Issuer != "", "issuer", p.Issuer)
	add(true, "client_id", p.ClientID)
	add(p.ClientSecret != "", "client_secret", settings.Redacted)
	add(p.ClientKey != nil, "client_key_file", settings.Redacted)
	add(len(p.Scopes) > 0, "scopes", p.Scopes)
	add(p.Claims.Groups != "", "claims", yaml.MapSlice{{Key: "groups", Value: p.Claims.Groups}})
	allow := yaml.MapSlice{}
	for _, rule := range []struct {
		key    string
		values []string
	}{{"domains", p.Allow.Domains}, {"organisations", p.Allow.Organisations}, {"groups", p.Allow.Groups}, {"people", p.Allow.People}} {
		if len(rule.values) > 0 {
			allow = append(allow, yaml.MapItem{Key: rule.key, Value: rule.values})
		}
	}
	if p.Allow.Anybody {
		allow = append(allow, yaml.MapItem{Key: "anybody", Value: true})
	}
	add(true, "allow", allow)
	add(p.Recheck > 0, "recheck", settings.Duration(p.Recheck).String())
	add(p.LogoutEndsGrants, "logout-ends-grants", true)
	return m
}
