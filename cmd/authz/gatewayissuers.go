package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/middleware"
)

// issuerKeys are the keys of an issuer in the list of a resource.
var issuerKeys = []string{"url", "profile", "audiences", "algorithms", "type", "client-claim", "scope-claim", "scope-map", "leeway", "max-stale", "keys-url", "keys-file", "tenants",
	"insecure-no-audience", "introspection"}

// readIssuers reads the issuers of a resource. Each is a URL, or a mapping.
func (r *guardedResource) readIssuers(d *settings.Document, f settings.Field) {
	elements := d.Elements(f, "issuers")
	if len(elements) == 0 {
		d.Fail(f.Line, "issuers has no value: list at least one")
	}
	for _, element := range elements {
		if !element.Mapping() {
			r.issuers = append(r.issuers, middleware.Issuer{URL: d.Text(element, "issuers")})
			continue
		}
		keys := d.Section(element, "an issuer", issuerKeys)
		one := issuerIn(d, element, keys)
		r.issuers = append(r.issuers, one)
		if value, ok := keys["introspection"]; ok {
			r.ask(d, value, one)
		}
	}
	for _, one := range r.issuers {
		r.Issuer = append(r.Issuer, one.URL)
	}
	if len(r.announced) > 0 {
		r.Issuer = r.announced
	}
}

// issuerIn reads an issuer, without its introspection.
func issuerIn(d *settings.Document, f settings.Field, keys map[string]settings.Field) middleware.Issuer {
	var one middleware.Issuer
	texts := map[string]*string{"url": &one.URL, "type": &one.Type, "client-claim": &one.ClientClaim, "scope-claim": &one.ScopeClaim}
	lists := map[string]*[]string{"audiences": &one.Audiences, "algorithms": &one.Algorithms, "tenants": &one.Tenants}
	for key, value := range keys {
		switch {
		case texts[key] != nil:
			*texts[key] = d.Text(value, key)
		case lists[key] != nil:
			*lists[key] = d.OneOrMore(value, key)
		case key == "leeway":
			one.Leeway = timeIn(d, value, key)
		case key == "max-stale":
			one.MaxStale = maxStaleIn(d, value, key)
		case key == "profile":
			one.Profile = profileIn(d, value)
		case key == "scope-map":
			one.ScopeMap = scopeMapIn(d, value)
		case key == "insecure-no-audience":
			one.InsecureNoAudience = d.Truth(value, key)
		}
	}
	if _, ok := keys["url"]; !ok {
		d.Fail(f.Line, "an issuer needs the key \"url\"")
	}
	one.Keys = keySourceIn(d, keys)
	return one
}

// timeIn reads a time of more than zero, because zero is the default of package middleware.
func timeIn(d *settings.Document, f settings.Field, key string) time.Duration {
	before := d.Failures()
	t := durationIn(d, f, key)
	if t <= 0 && d.Failures() == before {
		d.Fail(f.Line, "%s %s is not a time: it must be more than 0", key, t)
	}
	return time.Duration(t)
}

// maxStaleIn reads the greatest age of the keys of one issuer, where zero means the same as in the
// setting stale-keys: the time that the issuer allows.
func maxStaleIn(d *settings.Document, f settings.Field, key string) time.Duration {
	t := durationIn(d, f, key)
	if t < 0 {
		d.Fail(f.Line, "%s %s is below 0; 0 is the time that the issuer allows", key, t)
	}
	return cmp.Or(time.Duration(t), -1) // zero is the default of middleware.Issuer
}

// scopeMapIn reads which values of claims grant scopes. A claim is a name, or a list of names for a
// claim within another one.
func scopeMapIn(d *settings.Document, f settings.Field) (rules []middleware.ScopeRule) {
	for _, element := range d.Elements(f, "scope-map") {
		keys := d.Section(element, "a rule of scope-map", []string{"claim", "value", "scopes"})
		var rule middleware.ScopeRule
		for key, value := range keys {
			switch key {
			case "claim":
				rule.Claim = d.OneOrMore(value, key)
			case "value":
				rule.Value = d.Text(value, key)
			case "scopes":
				rule.Scopes = scopeListIn(d, value, key)
			}
		}
		rules = append(rules, rule)
	}
	return rules
}

// keySourceIn reads where the keys of an issuer come from.
func keySourceIn(d *settings.Document, keys map[string]settings.Field) middleware.KeySource {
	at, fetched := keys["keys-url"]
	file, fixed := keys["keys-file"]
	switch {
	case fetched && fixed:
		d.Fail(file.Line, "keys-url and keys-file are both set: keep one")
	case fetched:
		return middleware.KeysAt(d.Text(at, "keys-url"))
	case fixed:
		return middleware.FixedKeys(d.JSONFile(file, "keys-file"))
	}
	return middleware.KeySource{}
}

// profiles returns all profiles by their names in lowercase.
func profiles() map[string]middleware.Profile {
	out := map[string]middleware.Profile{}
	for p := middleware.Profile(0); !strings.HasPrefix(p.String(), "Profile("); p++ {
		out[strings.ToLower(p.String())] = p
	}
	return out
}

func profileIn(d *settings.Document, f settings.Field) middleware.Profile {
	all := profiles()
	name := d.Text(f, "profile")
	profile, ok := all[strings.ToLower(name)]
	if !ok && name != "" {
		d.Fail(f.Line, "profile %q is not known: it is one of %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return profile
}

// ask reads the introspection at an issuer.
func (r *guardedResource) ask(d *settings.Document, f settings.Field, at middleware.Issuer) {
	keys := d.Section(f, "introspection", []string{"endpoint", "client-id", "client-secret", "client-secret-file", "opaque", "fresh", "per-hour"})
	asked := middleware.Introspection{ClientID: r.Resource}
	if asksProvider(at.Profile) {
		asked.ClientID = "" // an application there, or nothing
	}
	for key, value := range keys {
		switch key {
		case "endpoint":
			asked.Endpoint = d.Text(value, key)
		case "client-id":
			asked.ClientID = d.Text(value, key)
		case "opaque":
			asked.Opaque = d.Truth(value, key)
		case "fresh":
			asked.Fresh = timeIn(d, value, key)
		case "per-hour":
			asked.PerHour = sizeIn(d, value, key)
		}
	}
	before := d.Failures()
	if asked.ClientSecret = d.GivenSecret(keys); asked.ClientSecret == "" && d.Failures() == before && !asksProvider(at.Profile) {
		d.Fail(f.Line, "introspection needs client_secret or client_secret_file")
	}
	if r.introspection == nil {
		r.introspection = map[string]middleware.Introspection{}
	}
	r.introspection[at.URL] = asked
}

// asksProvider reports whether tokens of a profile are looked up in a way of the provider's own,
// which has credentials of its own or none.
func asksProvider(p middleware.Profile) bool { return p == middleware.Google || p == middleware.GitHub }
