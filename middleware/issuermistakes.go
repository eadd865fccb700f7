package middleware

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
)

// validIssuers finds mistakes in [Config.Issuers] and [Config.SharedIssuers].
func (c *Config) validIssuers() error {
	if c.SharedIssuers != nil {
		return c.validShared()
	}
	errs := []error{c.validRules()}
	for _, one := range c.Issuers {
		if one.ofSeveralTenants() && len(c.AuthorizationServers) == 0 {
			errs = append(errs, fmt.Errorf("issuer %s: the metadata cannot name it to clients: set AuthorizationServers", one.URL))
		}
	}
	return errors.Join(errs...)
}

// validRules finds mistakes in the rules of issuers.
func (c *Config) validRules() error {
	var errs []error
	for _, one := range c.Issuers {
		if err := one.validate(); err != nil {
			errs = append(errs, fmt.Errorf("issuer %s: %w", one.URL, err))
		}
	}
	var urls []string
	for _, one := range c.issuers() {
		if slices.Contains(urls, one.URL) {
			errs = append(errs, fmt.Errorf("issuer %s: it occurs twice", one.URL))
		}
		urls = append(urls, one.URL)
	}
	return errors.Join(errs...)
}

func (i *Issuer) validate() error {
	if !i.Profile.known() {
		return fmt.Errorf("there is no profile %s", i.Profile)
	}
	return errors.Join(i.validURL(), i.validAudiences(), i.validAlgorithms(), i.validClaims(), i.validScopeMap(), i.validKeys(), i.validTimes())
}

func (i *Issuer) validURL() error {
	for _, url := range i.urls() {
		if err := metadata.ValidIssuer(withoutSlash(url)); err != nil {
			return err
		}
	}
	if i.Profile != Entra {
		if len(i.Tenants) > 0 {
			return errors.New("only issuers of the profile Entra have tenants")
		}
		return nil
	}
	return i.validTenants()
}

// withoutSlash returns an issuer without the slash at its end, which the well-known URLs leave
// out (RFC 8414 section 3.1). Our own metadata has no such issuers, but Auth0 and Entra do.
func withoutSlash(issuer string) string { return strings.TrimSuffix(issuer, "/") }

// validDocument validates the metadata of the resource. Of the issuers that it names, those in
// Issuers and SharedIssuers may end in a slash.
func (c *Config) validDocument(doc metadata.Resource) error {
	doc.AuthorizationServers = slices.Clone(doc.AuthorizationServers)
	for _, url := range c.configured() {
		if at := slices.Index(doc.AuthorizationServers, url); at >= 0 {
			doc.AuthorizationServers[at] = withoutSlash(url)
		}
	}
	return doc.Validate()
}

func (i *Issuer) validTenants() error {
	tenant, _, ok := entraIssuer(i.URL)
	switch {
	case !ok:
		return errors.New("an issuer of Entra has the form https://sts.windows.net/TENANT/ or https://login.microsoftonline.com/TENANT/v2.0")
	case tenant != entraTemplate && len(i.Tenants) > 0:
		return errors.New("its URL names the tenant: write {tenantid} there, or leave out Tenants")
	case tenant != entraTemplate && !validTenant(tenant):
		return fmt.Errorf("%q is not a tenant ID as tokens have it: a UUID in lower case", tenant)
	case tenant == entraTemplate && len(i.Tenants) == 0:
		return errors.New("{tenantid} stands for every tenant that there is: name those that are accepted in Tenants")
	case tenant == entraTemplate && i.Keys.kind != discoveredKeys:
		return errors.New("the keys of several tenants come from their metadata: for other keys, write one issuer for each tenant")
	}
	for _, id := range i.Tenants {
		if !validTenant(id) {
			return fmt.Errorf("%q is not a tenant ID as tokens have it: a UUID in lower case", id)
		}
	}
	return nil
}

func (i *Issuer) validAudiences() error {
	switch {
	case slices.Contains(i.Audiences, ""):
		return errors.New("an audience is empty")
	case i.InsecureNoAudience && i.Profile != Cognito && !i.Profile.asksProvider():
		return errors.New("InsecureNoAudience is for the profiles Cognito, Google and GitHub alone: let the issuer put the resource into \"aud\"")
	case !i.InsecureNoAudience && i.Profile.asksProvider():
		return errors.New("its tokens have no audience: set InsecureNoAudience, and name the clients whose tokens are accepted in Audiences")
	case i.InsecureNoAudience && len(i.Audiences) == 0:
		return errors.New("with InsecureNoAudience, name the clients whose tokens are accepted in Audiences")
	}
	return nil
}

func (i *Issuer) validAlgorithms() error {
	for _, name := range i.Algorithms {
		if !slices.Contains(allAlgorithms, jose.SignatureAlgorithm(name)) {
			return fmt.Errorf("%q is not an accepted algorithm: write one of %v", name, allAlgorithms)
		}
	}
	return nil
}

// ownClaims are claims that always have their own meaning.
var ownClaims = []string{"iss", "aud", "exp", "nbf", "iat", "jti", "cnf"}

func (i *Issuer) validClaims() error {
	switch {
	case i.Profile.asksProvider() && !i.asProvided():
		return errors.New("its tokens are no JWTs: leave out Algorithms, Type, ClientClaim, ScopeClaim and Keys")
	case slices.Contains(ownClaims, i.ClientClaim):
		return fmt.Errorf("the claim %q does not name a client", i.ClientClaim)
	case slices.Contains(ownClaims, i.ScopeClaim) || i.ScopeClaim == "sub":
		return fmt.Errorf("the claim %q does not hold scopes", i.ScopeClaim)
	case strings.ContainsFunc(i.Type, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%q is not a type", i.Type)
	}
	return nil
}

func (i *Issuer) validKeys() error {
	switch i.Keys.kind {
	case keysAtAddress:
		if err := validAddress(i.URL, i.Keys.address); err != nil {
			return fmt.Errorf("the URL of its keys: %w", err)
		}
	case fixedKeys:
		if len(i.Algorithms) > 0 && i.validAlgorithms() != nil {
			return nil // the keys are for algorithms that do not exist
		}
		_, err := parseKeys(i.Keys.set, tokenRulesOf(i).algorithms)
		return err
	}
	return nil
}

func (i *Issuer) validTimes() error {
	switch {
	case i.Leeway < 0:
		return errors.New("the leeway for clocks is below zero")
	case i.Leeway > maxLeeway:
		return fmt.Errorf("the leeway for clocks is more than %s", maxLeeway)
	}
	return nil
}
