package main

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
)

// guardedResource is one resource of several. Its settings are those of the gateway, with its own
// in their place.
type guardedResource struct {
	gatewaySettings
	line          int
	good          bool // whether its keys could be read
	issuers       []middleware.Issuer
	announced     []string // the issuers that its metadata names; nil for all
	audiences     []string
	introspection map[string]middleware.Introspection
	rules         scopeRules
}

// resourceIn reads one resource of the list.
func (s *gatewaySettings) resourceIn(d *settings.Document, f settings.Field) guardedResource {
	r := guardedResource{gatewaySettings: *s, line: f.Line}
	before := d.Failures()
	texts := map[string]*string{
		"resource": &r.Resource, "resource-name": &r.ResourceName, "upstream": &r.Upstream, "identity": &r.Identity, "assertion-binding": &r.AssertionBinding,
		"upstream-headers-file": &r.UpstreamHeadersFile, "upstream-cert": &r.UpstreamCert, "upstream-key": &r.UpstreamKey, "upstream-ca": &r.UpstreamCA,
		"upstream-server-name": &r.UpstreamServerName, "dpop": &r.DPoP, "client-cert-header": &r.ClientCertHeader,
	}
	lists := map[string]*[]string{"pass-headers": &r.PassHeaders, "allowed-origins": &r.AllowedOrigins, "authorization-servers": &r.announced, "audiences": &r.audiences}
	truths := map[string]*bool{"end-streams": &r.EndStreams, "insecure-trust-mcp-headers": &r.InsecureTrustMCPHeaders, "dpop-nonce": &r.DPoPNonce, "dpop-content-digest": &r.DPoPContentDigest}
	sizes := map[string]*int{"max-body": &r.MaxBody, "max-token": &r.MaxToken}
	others := []string{"issuers", "scopes", "dpop-window"}
	keys := d.Section(f, "a resource", slices.Concat([]string{"resource"}, slices.Sorted(maps.Keys(texts)), slices.Sorted(maps.Keys(lists)),
		slices.Sorted(maps.Keys(truths)), slices.Sorted(maps.Keys(sizes)), others))
	for key, value := range keys {
		switch {
		case texts[key] != nil:
			*texts[key] = d.Text(value, key)
		case lists[key] != nil:
			*lists[key] = d.OneOrMore(value, key)
		case truths[key] != nil:
			*truths[key] = d.Truth(value, key)
		case sizes[key] != nil:
			*sizes[key] = sizeIn(d, value, key)
		case key == "dpop-window":
			r.DPoPWindow = durationIn(d, value, key)
		}
	}
	r.ownProofs(keys)
	r.required(d, keys)
	if value, ok := keys["scopes"]; ok {
		r.readScopes(d, value)
	}
	if value, ok := keys["issuers"]; ok {
		r.readIssuers(d, value) // their credentials are those of the resource by default
	}
	r.good = d.Failures() == before
	return r
}

// ownProofs forgets what a resource that accepts no proofs has from the settings of all.
func (r *guardedResource) ownProofs(keys map[string]settings.Field) {
	for key, on := range map[string]*bool{"dpop-nonce": &r.DPoPNonce, "dpop-content-digest": &r.DPoPContentDigest} {
		if _, own := keys[key]; !own && !r.proves() {
			*on = false
		}
	}
}

// required records the keys that are missing.
func (r *guardedResource) required(d *settings.Document, keys map[string]settings.Field) {
	for _, key := range []string{"resource", "upstream", "issuers"} {
		_, ok := keys[key]
		switch {
		case key == "upstream" && r.VerifyOnly:
			if ok {
				d.Fail(keys[key].Line, "upstream is set, and verify-only forwards nothing: leave out one of them")
			}
		case !ok:
			d.Fail(r.line, "a resource needs the key %q", key)
		}
	}
}

// readScopes reads the rules of a resource: the name of a file, or the same keys in place.
func (r *guardedResource) readScopes(d *settings.Document, f settings.Field) {
	if f.Mapping() {
		r.Scopes = "scopes in " + resourceList
		r.rules = scopeRulesIn(d, d.Section(f, "scopes", scopeKeys))
		return
	}
	var err error
	if r.Scopes = d.Text(f, "scopes"); r.Scopes == "" {
		return
	}
	if r.rules, err = r.gatewaySettings.rules(); err != nil {
		r.fail(d, err)
	}
}

func sizeIn(d *settings.Document, f settings.Field, key string) int {
	n, err := strconv.Atoi(d.Text(f, key))
	if err != nil || n <= 0 {
		d.Fail(f.Line, "%s must be a number of more than 0", key)
	}
	return n
}

// config returns the configuration of the gateway of a resource.
func (r *guardedResource) config(keys gatewayKeys, w *watched) (gateway.Config, error) {
	config, err1 := r.guarding(r.rules, keys, w)
	config.Guard.Issuers, config.Guard.AuthorizationServers, config.Guard.Introspection = r.issuers, r.announced, r.introspection
	config.Guard.Audiences = r.audiences
	return config, errors.Join(err1, keys.bind(&config.Guard))
}

// doubts returns a warning for each setting that has no effect or weakens the gateway of the
// resource.
func (r *guardedResource) doubts() []string {
	var out risks
	for _, one := range r.issuers {
		out.add(one.InsecureNoAudience, "insecure-no-audience: any server that gets a token of these clients of %s can use it here", one.URL)
	}
	own := r.boundSettings
	own.VerifyMethodHeader = "" // of all resources
	own.boundDoubts(&out, !own.proves())
	return append(r.ownDoubts(), out...)
}
