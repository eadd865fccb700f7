package dcr

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// staticClients checks the clients that an operator configured, fills in defaults, and
// returns the clients by id.
func staticClients(clients []storage.Client) (map[string]storage.Client, error) {
	known := make(map[string]storage.Client, len(clients))
	var errs []error
	for _, c := range clients {
		client, err := staticClient(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("dcr: client %q: %w", c.ID, err))
		}
		if _, twice := known[c.ID]; twice {
			errs = append(errs, fmt.Errorf("dcr: client %q is configured twice", c.ID))
		}
		known[c.ID] = client
	}
	return known, errors.Join(errs...)
}

// staticClient returns a configured client as [Clients.Resolve] returns it. By default it may
// use refresh tokens, and without a secret it is public.
func staticClient(c storage.Client) (storage.Client, error) {
	m := c.Metadata
	method := metadata.AuthMethodBasic
	if len(c.Secret) == 0 {
		method = metadata.AuthMethodNone
	}
	m.TokenEndpointAuthMethod = cmp.Or(m.TokenEndpointAuthMethod, method)
	if len(m.GrantTypes) == 0 {
		m.GrantTypes = slices.Clone(supportedGrants)
	}
	if len(m.ResponseTypes) == 0 {
		m.ResponseTypes = []string{responseCode}
	}
	client := storage.Client{
		ID: c.ID, Source: storage.ClientConfigured, Metadata: m, Localized: c.Localized, Secret: c.Secret, Created: c.Created, Disabled: c.Disabled,
	}
	return detached(client), validStatic(client)
}

func validStatic(c storage.Client) error {
	m := c.Metadata
	switch {
	case !validID(c.ID):
		return fmt.Errorf("the id must be 1 to %d letters, digits or any of -._~", maxIDLength)
	case !slices.Contains(supportedMethods, m.TokenEndpointAuthMethod):
		return fmt.Errorf("token_endpoint_auth_method must be one of %s", strings.Join(supportedMethods, ", "))
	case hasSecret(m) != (len(c.Secret) > 0):
		return errors.New("a client has a secret exactly when its token_endpoint_auth_method is client_secret_basic or client_secret_post")
	case !slices.Contains(m.GrantTypes, metadata.GrantAuthorizationCode) || !subset(m.GrantTypes, supportedGrants):
		return errors.New("grant_types must be authorization_code, with or without refresh_token")
	case !slices.Equal(m.ResponseTypes, []string{responseCode}):
		return errors.New("response_types must be code")
	case len(m.RedirectURIs) == 0:
		return errors.New("it has no redirect_uris")
	}
	for _, check := range []func(asked metadata.Client, m *metadata.Client) error{signingAlgorithm, keys, links, redirectsParse} {
		if err := check(c.Metadata, &m); err != nil {
			return err
		}
	}
	return nil
}

// redirectsParse checks that every redirect URI is acceptable in itself. The policy does not
// apply to configured clients.
func redirectsParse(asked metadata.Client, _ *metadata.Client) error {
	for _, uri := range asked.RedirectURIs {
		if _, err := metadata.ParseRedirect(uri); err != nil {
			return fmt.Errorf("redirect URI %q: %w", uri, err)
		}
	}
	return nil
}

func subset(values, of []string) bool {
	return !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(of, v) })
}

// detached returns a copy of c that can be returned to many callers: its slices share no
// memory with those of c, and an append to one allocates.
func detached(c storage.Client) storage.Client {
	m := &c.Metadata
	for _, list := range []*[]string{&m.RedirectURIs, &m.GrantTypes, &m.ResponseTypes, &m.Contacts, &c.AuthMethods} {
		*list = slices.Clip(slices.Clone(*list))
	}
	return c
}
