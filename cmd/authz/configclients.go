package main

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/goccy/go-yaml"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
)

// clients reads the list clients: those that are configured in the file.
func (d *document) clients() ([]storage.Client, error) { return listed(d, "clients", d.client) }

func (d *document) client(f field) storage.Client {
	keys := d.section(f, "a client", []string{
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
			*target = d.text(value, key)
		}
	}
	for key, target := range map[string]*[]string{"redirect-uris": &m.RedirectURIs, "grant-types": &m.GrantTypes} {
		if value, ok := keys[key]; ok {
			*target = d.texts(value, key)
		}
	}
	if file, ok := keys["jwks-file"]; ok {
		m.JWKS = d.jsonFile(file, "jwks-file")
	}
	if secret := d.clientSecret(keys); secret != "" {
		c.Secret = storage.HashSecret(secret)
	}
	if c.ID == "" {
		d.fail(f.line, "a client needs the key \"client-id\"")
	}
	return c
}

// clientSecret reads client-secret or the file that client-secret-file names.
func (d *document) clientSecret(keys map[string]field) string {
	own, ownGiven := keys["client-secret"]
	file, fileGiven := keys["client-secret-file"]
	switch {
	case ownGiven && fileGiven:
		d.fail(file.line, "client_secret and client_secret_file are both set: keep one")
	case ownGiven:
		d.inline = true
		return d.strong(own.line, "client_secret", d.text(own, "client_secret"))
	case fileGiven:
		return d.strong(file.line, "client_secret_file", d.secretFile(file))
	}
	return ""
}

const (
	// leastSecret is how many characters a secret of a client or resource server must
	// have: its length is what stands against guessing.
	leastSecret = 16
	// goodSecret is how many it should have.
	goodSecret = 32
)

// strong refuses a secret that can be guessed, and warns of one that is short.
func (d *document) strong(line int, key, secret string) string {
	n := utf8.RuneCountInString(secret)
	switch {
	case n == 0 || n >= goodSecret:
	case n < leastSecret:
		d.fail(line, "%s has %d characters, it must have at least %d: make one with openssl rand -base64 32", key, n, leastSecret)
	default:
		d.doubts = append(d.doubts, fmt.Sprintf("%s:%d: %s has only %d characters: make one with openssl rand -base64 32", d.name, line, key, n))
	}
	return secret
}

// jsonFile reads the file that a key names.
func (d *document) jsonFile(f field, key string) json.RawMessage {
	name := d.text(f, key)
	if name == "" {
		return nil
	}
	text, err := readAtMost(name, 1<<16)
	switch {
	case err != nil:
		d.fail(f.line, "%s: %v", key, err)
	case !json.Valid(text):
		d.fail(f.line, "%s: %s is not JSON", key, name)
	}
	return text
}

// statementIssuers reads the list software-statements: who may vouch for software.
func (d *document) statementIssuers() ([]dcr.StatementIssuer, error) {
	return listed(d, "software-statements", d.statementIssuer)
}

func (d *document) statementIssuer(f field) dcr.StatementIssuer {
	keys := d.section(f, "an issuer of software statements", []string{"issuer", "jwks-file"})
	var issuer dcr.StatementIssuer
	if value, ok := keys["issuer"]; ok {
		issuer.Issuer = d.text(value, "issuer")
	}
	file, ok := keys["jwks-file"]
	if !ok || issuer.Issuer == "" {
		d.fail(f.line, "an issuer of software statements needs the keys \"issuer\" and \"jwks-file\"")
		return issuer
	}
	var set jose.JSONWebKeySet
	if text := d.jsonFile(file, "jwks-file"); text != nil && json.Valid(text) {
		if err := json.Unmarshal(text, &set); err != nil {
			d.fail(file.line, "jwks-file: it is not a JWK set")
		}
	}
	issuer.Keys = set
	return issuer
}

// describeClients returns clients as the file writes them.
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
			m = append(m, yaml.MapItem{Key: "client-secret", Value: redacted})
		}
		out = append(out, m)
	}
	return out
}

// describeIssuers names whose software statements are believed, and their keys.
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
