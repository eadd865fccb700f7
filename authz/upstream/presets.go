package upstream

import (
	"regexp"
	"strings"
)

// preset is what is particular about a product.
type preset struct {
	title  string // the product's name
	issuer string // the default; empty must be configured
	groups string // the default claim; empty: the provider cannot prove groups
	// domain says what allow.domains are.
	domain domainKind
	// login is the claim with the provider's own unique name of a person, see Arrival.Login.
	login string
	// people says in words what allow.people may hold besides e-mail addresses.
	people string
	// emails says that the provider can prove e-mail addresses.
	emails bool
	// groupsScope says that groups come with the scope groups, if the provider lists it.
	groupsScope bool
	// userinfo says that the ID token lacks claims that userinfo has.
	userinfo bool
	// keys says that private_key_jwt is possible.
	keys bool
	// tokenAudience says that an assertion is for the token endpoint, not for the issuer.
	tokenAudience bool
	// offlineConsent says that a refresh token is only given with prompt=consent.
	offlineConsent bool
}

// domainKind is what a preset counts as a domain.
type domainKind int

const (
	noDomain     domainKind = iota
	emailDomain             // of a verified e-mail address
	hostedDomain            // hd of Google
	tenantDomain            // tid of Entra
)

var presets = map[string]preset{
	Google: {
		title: "Google", issuer: "https://accounts.google.com", domain: hostedDomain,
		emails: true, offlineConsent: true,
	},
	Entra: {
		title: "Microsoft", groups: "groups", domain: tenantDomain, login: "oid",
		people: "object IDs", keys: true, tokenAudience: true,
	},
	Okta: {
		title: "Okta", groups: "groups", domain: emailDomain, login: "preferred_username",
		people: "user names", emails: true, groupsScope: true, userinfo: true, keys: true, tokenAudience: true,
	},
	Keycloak: {
		title: "Keycloak", groups: "groups", domain: emailDomain, login: "preferred_username",
		people: "user names", emails: true, userinfo: true, keys: true,
	},
	GitHub: {
		title: "GitHub", issuer: "https://github.com", groups: "teams", domain: noDomain, login: "login",
		people: "logins", emails: true,
	},
	GitLab: {
		title: "GitLab", issuer: "https://gitlab.com", groups: "groups", domain: emailDomain,
		login: "preferred_username", people: "user names", emails: true, userinfo: true,
	},
	OIDC: {
		groups: "groups", domain: emailDomain, people: "subjects", emails: true, groupsScope: true, userinfo: true,
		keys: true, offlineConsent: true,
	},
}

var guid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// entraHost is where the public service of Entra is.
const entraHost = "https://login.microsoftonline.com/"

// tenantless are the last parts of Entra issuers that stand for more than one tenant.
var tenantless = map[string]bool{"organizations": true, "common": true}

// tenant returns the part of an Entra issuer that names the tenant, and what stands before it.
func tenant(issuer string) (before, name string, ok bool) {
	rest, ok := strings.CutSuffix(issuer, "/v2.0")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", "", false
	}
	return rest[:i+1], rest[i+1:], true
}

// filled returns the configuration with the defaults of its preset. What is wrong in it stays.
func (p Provider) filled() Provider {
	p.Preset = p.preset()
	is := presets[p.Preset]
	p.Name = p.Title()
	if p.Issuer == "" {
		p.Issuer = is.issuer
		if p.Preset == Entra {
			p.Issuer = entraHost + "organizations/v2.0"
			if len(p.Allow.Domains) == 1 {
				p.Issuer = entraHost + lower(p.Allow.Domains[0]) + "/v2.0"
			}
		}
	}
	if p.Claims.Groups == "" {
		p.Claims.Groups = is.groups
	}
	return p
}

// oneTenant reports an Entra provider whose issuer names one tenant.
func (p Provider) oneTenant() bool {
	_, name, ok := tenant(p.Issuer)
	return ok && guid.MatchString(name)
}

// Issues reports whether a token or callback of this issuer comes from the provider. At Entra the
// metadata of several tenants has a template instead of an issuer.
func (p Provider) Issues(issuer string) bool {
	switch p.Preset {
	case Entra:
		before, name, ok := tenant(p.Issuer)
		ofBefore, of, isOne := tenant(issuer)
		if !ok || !isOne || ofBefore != before || !guid.MatchString(of) {
			return false
		}
		return tenantless[name] || of == name
	case Google:
		// Tokens of Google's older endpoints lack the scheme; Google documents both forms.
		return issuer == p.Issuer || p.Issuer == "https://accounts.google.com" && issuer == "accounts.google.com"
	case GitHub:
		return issuer == p.Issuer || issuer == strings.TrimSuffix(p.Issuer, "/")+"/login/oauth"
	}
	return issuer == p.Issuer
}

// metadataIssuer is the issuer that the metadata must name (OpenID Connect Discovery section 4.3).
func (p Provider) metadataIssuer() string {
	if p.Preset == Entra {
		if before, name, ok := tenant(p.Issuer); ok && tenantless[name] {
			return before + "{tenantid}/v2.0"
		}
	}
	return p.Issuer
}
