package upstream

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

var idForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Validate returns every mistake of the configuration, joined, each in a sentence that begins
// with the key at fault, such as "allow.groups: …". dev allows http on loopback addresses, a
// recheck of a second, and another issuer for Google.
func (p Provider) Validate(dev bool) error {
	var m mistakes
	if !idForm.MatchString(p.ID) {
		m.add("id: write 1 to 32 lower-case letters, digits and hyphens, not %q", p.ID)
	}
	if !plain(p.Name, 64) {
		m.add("name: write at most 64 bytes of text without control characters")
	}
	if _, ok := presets[p.preset()]; !ok {
		m.add("preset: there is no %q; write one of %s", p.Preset, strings.Join(Presets(), ", "))
		return m.joined()
	}
	p = p.filled()
	m.issuer(p, dev)
	m.client(p)
	m.scopes(p)
	m.recheck(p, dev)
	m.allow(p)
	return m.joined()
}

// mistakes collects sentences.
type mistakes []error

func (m *mistakes) add(format string, arguments ...any) {
	*m = append(*m, fmt.Errorf(format, arguments...))
}

func (m mistakes) joined() error { return errors.Join(m...) }

func (m *mistakes) issuer(p Provider, dev bool) {
	u, err := webAddress(p.Issuer, dev)
	switch {
	case p.Issuer == "":
		m.add("issuer: write the provider's issuer, the address before /.well-known/openid-configuration")
	case err != nil:
		m.add("issuer: %w", err)
	case u.RawQuery != "":
		m.add("issuer: an issuer has no query")
	case p.Preset == Google && p.Issuer != presets[Google].issuer && !dev:
		m.add("issuer: Google has one issuer only; leave it out")
	case p.Preset == GitHub && strings.Trim(u.Path, "/") != "":
		m.add("issuer: write the address of GitHub without a path, such as https://github.example.com")
	case p.Preset == Entra:
		m.entraIssuer(p)
	}
}

func (m *mistakes) entraIssuer(p Provider) {
	if _, name, ok := tenant(p.Issuer); !ok || !tenantless[name] && !guid.MatchString(name) {
		m.add("issuer: write https://login.microsoftonline.com/TENANT/v2.0, with a tenant ID in lower case, organizations or common as the TENANT, or leave it out")
	}
}

// webAddress reads an address of a provider: https, or http on loopback with dev.
func webAddress(raw string, dev bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return nil, errors.New("write an absolute https address")
	}
	if u.User != nil || u.Fragment != "" || strings.Contains(raw, "#") {
		return nil, errors.New("the address must have no user and no fragment")
	}
	if u.Scheme == "https" || u.Scheme == "http" && dev && loopback(u.Hostname()) {
		return u, nil
	}
	return nil, errors.New("the address must begin with https://")
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (m *mistakes) client(p Provider) {
	if p.ClientID == "" || !plain(p.ClientID, 512) {
		m.add("client_id: write the client ID that the provider gave")
	}
	switch {
	case p.ClientSecret == "" && p.ClientKey == nil:
		m.add("client_secret: write the secret that the provider gave, or a client_key")
	case p.ClientSecret != "" && p.ClientKey != nil:
		m.add("client_secret: write either client_secret or client_key, not both")
	case p.ClientKey != nil && !presets[p.Preset].keys:
		m.add("client_key: %s takes no signed assertion; write a client_secret", p.Title())
	case p.ClientKey != nil:
		if err := p.ClientKey.valid(); err != nil {
			m.add("client_key: %w", err)
		}
	}
}

func (m *mistakes) scopes(p Provider) {
	if len(p.Scopes) > 32 {
		m.add("scopes: at most 32 can be asked for")
	}
	for _, scope := range p.Scopes {
		if scope == "" || len(scope) > 256 || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			m.add("scopes: %q is no scope (RFC 6749 section 3.3)", scope)
		}
	}
	if !plain(p.Claims.Groups, 256) || p.Preset == GitHub && p.Claims.Groups != presets[GitHub].groups {
		m.add("claims.groups: %s has no such claim", p.Title())
	}
}

func (m *mistakes) recheck(p Provider, dev bool) {
	least := time.Minute
	if dev {
		least = time.Second
	}
	if p.Recheck != 0 && p.Recheck < least {
		m.add("recheck: write at least %s, or 0 for never", least)
	}
}

func (m *mistakes) allow(p Provider) {
	a := p.Allow
	some := len(a.Domains)+len(a.Organisations)+len(a.Groups)+len(a.People) > 0
	switch {
	case !some && !a.Anybody:
		m.add("allow: say who may come in, or anybody: true for everybody whom %s knows", p.Title())
	case some && a.Anybody:
		m.add("allow.anybody: true stands alone; take out the other keys, or this one")
	}
	m.unproven(p)
	m.entries(p)
}

// unproven refuses keys of allow that the preset cannot prove.
func (m *mistakes) unproven(p Provider) {
	a, is := p.Allow, presets[p.Preset]
	if len(a.Domains) > 0 && is.domain == noDomain {
		m.add("allow.domains: %s proves no domain; use organisations, groups or people", p.Title())
	}
	if len(a.Organisations) > 0 && p.Preset != GitHub {
		m.add("allow.organisations: only GitHub has organisations; use domains or groups")
	}
	if len(a.Groups) > 0 && is.groups == "" {
		m.add("allow.groups: %s names no groups in a sign-in; use domains or people", p.Title())
	}
	if p.Preset == Entra && !p.oneTenant() && len(a.Domains) == 0 && len(a.Groups)+len(a.People) > 0 {
		m.add("allow.domains: name the tenants too; groups and people of any tenant could be named alike")
	}
}

// entries checks the form of each value of allow, so that none can never match.
func (m *mistakes) entries(p Provider) {
	a := p.Allow
	for key, values := range map[string][]string{"domains": a.Domains, "organisations": a.Organisations, "groups": a.Groups, "people": a.People} {
		if len(values) > maxGroups {
			m.add("allow.%s: at most %d values", key, maxGroups)
		}
	}
	for _, d := range a.Domains {
		if wrong := p.domainMistake(d); wrong != "" {
			m.add("allow.domains: %s, not %q", wrong, d)
		}
	}
	for _, o := range a.Organisations {
		if !githubName.MatchString(o) {
			m.add("allow.organisations: write the organisation's login, not %q", o)
		}
	}
	for _, g := range a.Groups {
		if wrong := p.groupMistake(g); wrong != "" {
			m.add("allow.groups: %s, not %q", wrong, g)
		}
	}
	for _, one := range a.People {
		if wrong := p.personMistake(one); wrong != "" {
			m.add("allow.people: %s, not %q", wrong, one)
		}
	}
	slices.SortFunc(*m, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}

var githubName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

func (p Provider) domainMistake(d string) string {
	switch presets[p.Preset].domain {
	case tenantDomain:
		if !guid.MatchString(lower(d)) {
			return "write the tenant ID from the overview of the tenant"
		}
	case emailDomain, hostedDomain:
		if !hostname(lower(d)) {
			return "write a domain such as example.com"
		}
	}
	return ""
}

func (p Provider) groupMistake(g string) string {
	org, team, ok := strings.Cut(g, "/")
	switch {
	case p.Preset == GitHub && (!ok || !githubName.MatchString(org) || !githubName.MatchString(team)):
		return "write ORGANISATION/TEAM with the team's name in its address"
	case !groupName(g):
		return "write a name of 1 to 256 bytes without control characters and spaces at its ends"
	}
	return ""
}

func (p Provider) personMistake(one string) string {
	is := presets[p.Preset]
	_, _, mail := address(one)
	switch {
	case strings.Contains(one, "@") && !mail:
		return "write a whole e-mail address"
	case mail && !is.emails:
		return fmt.Sprintf("%s proves no e-mail addresses: write %s", p.Title(), is.people)
	case mail:
		return ""
	case is.people == "":
		return fmt.Sprintf("%s proves e-mail addresses only: write one", p.Title())
	}
	return p.loginMistake(one)
}

// loginMistake is for an entry of people that is no e-mail address.
func (p Provider) loginMistake(one string) string {
	switch {
	case one == "" || !plain(one, 255) || strings.TrimSpace(one) != one:
		return "write 1 to 255 bytes without control characters and spaces at its ends"
	case p.Preset == Entra && !guid.MatchString(lower(one)):
		return "write the user's object ID"
	case p.Preset == GitHub && !githubName.MatchString(one):
		return "write a login or an e-mail address"
	}
	return ""
}
