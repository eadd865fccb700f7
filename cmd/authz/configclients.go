package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/goccy/go-yaml"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// clientsIn reads the list clients.
func clientsIn(d *settings.Document) ([]storage.Client, error) {
	return settings.Listed(d, "clients", clientIn)
}

func clientIn(d *settings.Document, f settings.Field) storage.Client {
	keys := d.Section(f, "a client", []string{
		"client-id", "client-name", "client-secret", "client-secret-file", "redirect-uris", "auth-method", "jwks-file", "jwks-uri",
		"client-uri", "logo-uri", "grant-types",
	})
	c := storage.Client{Source: storage.ClientConfigured}
	m := &c.Metadata
	for key, target := range map[string]*string{
		"client-id": &c.ID, "client-name": &m.ClientName, "auth-method": &m.TokenEndpointAuthMethod, "jwks-uri": &m.JWKSURI,
		"client-uri": &m.ClientURI, "logo-uri": &m.LogoURI,
	} {
		if value, ok := keys[key]; ok {
			*target = d.Text(value, key)
		}
	}
	for key, target := range map[string]*[]string{"redirect-uris": &m.RedirectURIs, "grant-types": &m.GrantTypes} {
		if value, ok := keys[key]; ok {
			*target = d.Texts(value, key)
		}
	}
	if file, ok := keys["jwks-file"]; ok {
		m.JWKS = d.JSONFile(file, "jwks-file")
	}
	if secret := d.ClientSecret(keys); secret != "" {
		c.Secret = storage.HashSecret(secret)
	}
	if c.ID == "" {
		d.Fail(f.Line, "a client needs the key \"client-id\"")
	}
	return c
}

// statementIssuersIn reads the list software-statements: the issuers whose software statements
// are accepted.
func statementIssuersIn(d *settings.Document) ([]dcr.StatementIssuer, error) {
	return settings.Listed(d, "software-statements", statementIssuerIn)
}

func statementIssuerIn(d *settings.Document, f settings.Field) dcr.StatementIssuer {
	keys := d.Section(f, "an issuer of software statements", []string{"issuer", "jwks-file"})
	var issuer dcr.StatementIssuer
	if value, ok := keys["issuer"]; ok {
		issuer.Issuer = d.Text(value, "issuer")
	}
	file, ok := keys["jwks-file"]
	if !ok || issuer.Issuer == "" {
		d.Fail(f.Line, "an issuer of software statements needs the keys \"issuer\" and \"jwks-file\"")
		return issuer
	}
	if text := d.JSONFile(file, "jwks-file"); text != nil && json.Valid(text) {
		var err error
		if issuer.Keys, err = keySet(text); err != nil {
			d.Fail(file.Line, "jwks-file: %v", err)
		}
	}
	return issuer
}

// keySet reads a JWK set. Keys of a kind that is not known are left out (RFC 7517 section 5).
func keySet(text []byte) (set jose.JSONWebKeySet, err error) {
	var listed struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(text, &listed) != nil {
		return set, errors.New("it is not a JWK set")
	}
	for i, raw := range listed.Keys {
		var key jose.JSONWebKey
		switch err := key.UnmarshalJSON(raw); {
		case err == nil:
			set.Keys = append(set.Keys, key)
		case !errors.Is(err, jose.ErrUnsupportedKeyType):
			return set, fmt.Errorf("keys[%d] is not a JSON Web Key: correct it or take it out", i)
		}
	}
	return set, nil
}

// describeClients returns clients as a file has them.
func describeClients(clients []storage.Client) []yaml.MapSlice {
	var out []yaml.MapSlice
	for _, c := range clients {
		m := yaml.MapSlice{{Key: "client-id", Value: c.ID}}
		for _, item := range []yaml.MapItem{
			{Key: "client-name", Value: c.Metadata.ClientName}, {Key: "auth-method", Value: c.Metadata.TokenEndpointAuthMethod},
			{Key: "jwks-uri", Value: c.Metadata.JWKSURI}, {Key: "client-uri", Value: c.Metadata.ClientURI}, {Key: "logo-uri", Value: c.Metadata.LogoURI},
		} {
			if item.Value != "" {
				m = append(m, item)
			}
		}
		m = append(m, yaml.MapItem{Key: "redirect-uris", Value: c.Metadata.RedirectURIs})
		if len(c.Metadata.GrantTypes) > 0 {
			m = append(m, yaml.MapItem{Key: "grant-types", Value: c.Metadata.GrantTypes})
		}
		if len(c.Secret) > 0 {
			m = append(m, yaml.MapItem{Key: "client-secret", Value: settings.Redacted})
		}
		out = append(out, m)
	}
	return out
}

// describeIssuers returns the issuers of software statements with the ids of their keys.
func describeIssuers(issuers []dcr.StatementIssuer) []yaml.MapSlice {
	var out []yaml.MapSlice
	for _, i := range issuers {
		var kids []string
		for _, key := range i.Keys.Keys {
			kids = append(kids, key.KeyID)
		}
		out = append(out, yaml.MapSlice{{Key: "issuer", Value: i.Issuer}, {Key: "keys", Value: kids}})
	}
	return out
}
