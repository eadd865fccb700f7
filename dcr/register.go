package dcr

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"strings"

	"gatehouse.example/internal/appendjson"
	"gatehouse.example/internal/strictjson"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// The prefixes make a leaked secret recognisable to scanners.
const (
	secretPrefix = "gate_cs_"
	tokenPrefix  = "gate_rat_"
)

// maxBody bounds a registration request.
const maxBody = 64 << 10

// request is a client registration request (RFC 7591 section 3.1). A client_id or
// client_secret in it has no meaning and is ignored like every other unknown member.
type request struct {
	metadata.Client
	SoftwareStatement json.RawMessage `json:"software_statement"`

	body []byte // of the request, which is not ambiguous
}

// members returns all members of a request by name.
func (asked request) members() (all map[string]json.RawMessage) {
	_ = json.Unmarshal(asked.body, &all) // it is an object
	return all
}

// response is a client information response (RFC 7591 section 3.2.1, RFC 7592 section 3).
type response struct {
	ClientID         string `json:"client_id"`
	ClientIDIssuedAt int64  `json:"client_id_issued_at"`
	// ClientSecret is in the response that issues it only: the store has its hash.
	ClientSecret string `json:"client_secret,omitempty"`
	// ClientSecretExpiresAt is 0 (the secret does not expire), or nil for a client without
	// a secret.
	ClientSecretExpiresAt   *int64 `json:"client_secret_expires_at,omitempty"`
	RegistrationClientURI   string `json:"registration_client_uri"`
	RegistrationAccessToken string `json:"registration_access_token"`
	metadata.Client
	// SoftwareStatement is returned unmodified (RFC 7591 section 3.2.1).
	SoftwareStatement string `json:"software_statement,omitempty"`

	localized map[string]string
}

// encode returns r as JSON, with the members with a language tag, whose names the client chooses.
func (r response) encode() ([]byte, error) {
	body, err := r.appendJSON(make([]byte, 0, 768))
	if err != nil || len(r.localized) == 0 {
		return body, err
	}
	more, err := json.Marshal(r.localized)
	if err != nil {
		return nil, err
	}
	body[len(body)-1] = ','
	return append(body, more[1:]...), nil
}

// appendJSON appends r as encoding/json writes it.
func (r response) appendJSON(dst []byte) ([]byte, error) {
	o := appendjson.Begin(dst)
	o.Text("client_id", r.ClientID)
	o.Number("client_id_issued_at", r.ClientIDIssuedAt)
	o.TextIfAny("client_secret", r.ClientSecret)
	if r.ClientSecretExpiresAt != nil {
		o.Number("client_secret_expires_at", *r.ClientSecretExpiresAt)
	}
	o.Text("registration_client_uri", r.RegistrationClientURI)
	o.Text("registration_access_token", r.RegistrationAccessToken)
	o.Embed(r.Client.AppendJSON)
	o.TextIfAny("software_statement", r.SoftwareStatement)
	return o.End()
}

// write answers with r.
func (r response) write(w http.ResponseWriter, status int) {
	body, err := r.encode()
	respondBytes(w, status, body, err)
}

// Register returns the client registration endpoint (RFC 7591 section 3): POST of client
// metadata as application/json. It answers 201 with the registered metadata, 400 with an
// error code of RFC 7591 section 3.2.2, 401 without a valid initial access token where one is
// required, 413 for a body over 64 KiB, 429 if there were too many registrations, and 503
// while the store is unavailable.
func (cs *Clients) Register() http.Handler {
	return endpoint{cs, map[string]serve{http.MethodPost: cs.register}}
}

func (cs *Clients) register(w http.ResponseWriter, req *http.Request) error {
	initial, err := cs.initialToken(req)
	if err != nil {
		return err
	}
	asked, err := readRequest(w, req)
	if err != nil {
		return err
	}
	client, err := cs.effective(req.Context(), asked)
	if err != nil {
		return err
	}
	if client, err = cs.fromNetwork(req.Context(), client); err != nil {
		return err
	}
	client, secret, token, err := cs.issue(client)
	if err != nil {
		return err
	}
	undo, err := cs.admitted(req.Context(), client)
	if err != nil {
		return err
	}
	err = cs.store.CreateClient(req.Context(), client)
	if err == nil {
		err = cs.spend(req.Context(), initial, client)
	}
	if err != nil {
		undo()
		return err
	}
	cs.registered(req.Context(), client)
	cs.response(client, secret, token).write(w, http.StatusCreated)
	return nil
}

func readRequest(w http.ResponseWriter, req *http.Request) (request, error) {
	// RFC 7591 section 3.1: the parameters are sent as application/json.
	// Two header fields are one list (RFC 9110 section 5.3), and no list is a type.
	contentType := strings.Join(req.Header.Values("Content-Type"), ",")
	if mediaType, _, err := mime.ParseMediaType(contentType); err != nil || mediaType != "application/json" {
		return request{}, invalidMetadata("", "send the client metadata as Content-Type: application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refused := invalidMetadata("", "the request has more than %d bytes", maxBody)
		refused.status = http.StatusRequestEntityTooLarge
		return request{}, refused
	case err != nil:
		return request{}, invalidMetadata("", "the request could not be read to its end")
	}
	return parseRequest(body)
}

func parseRequest(body []byte) (request, error) {
	var asked request
	if err := strictjson.Unmarshal(body, &asked, strictjson.Options{MaxBytes: maxBody}); err != nil {
		return request{}, invalidMetadata("", "%s", strings.TrimPrefix(err.Error(), "strictjson: "))
	}
	asked.body = body
	return asked, nil
}

// issue returns c with a client_id, a registration access token and, if it needs one, a
// secret (RFC 7591 section 3.2.1). All consist of unreserved characters, because clients
// differ in whether they percent-encode them for HTTP Basic.
func (cs *Clients) issue(c storage.Client) (issued storage.Client, secret, token string, err error) {
	c.Created = cs.now().UTC()
	c.Expires = c.Created.Add(cs.life.unused)
	if c.ID, err = cs.store.NewID(); err != nil {
		return storage.Client{}, "", "", err
	}
	if token, err = cs.store.NewSecret(tokenPrefix); err != nil {
		return storage.Client{}, "", "", err
	}
	c.RegistrationToken = storage.HashSecret(token)
	c, secret, err = withSecret(cs.store, c)
	return c, secret, token, err
}

// withSecret returns c with a secret exactly if it authenticates with one. A client keeps the
// secret that it has; then the returned secret is empty, because only its hash is known.
func withSecret(store *storage.Store, c storage.Client) (_ storage.Client, secret string, err error) {
	switch {
	case !hasSecret(c.Metadata):
		c.Secret = nil
	case len(c.Secret) == 0:
		if secret, err = store.NewSecret(secretPrefix); err != nil {
			return storage.Client{}, "", err
		}
		c.Secret = storage.HashSecret(secret)
	}
	return c, secret, nil
}

func (cs *Clients) registered(ctx context.Context, c storage.Client) {
	cs.unused.note(c)
	cs.log.LogAttrs(ctx, slog.LevelInfo, "client registered", slog.String("client_id", c.ID), slog.String("client_name", c.Metadata.ClientName),
		slog.Any("redirect_uris", c.Metadata.RedirectURIs), slog.String("auth_method", c.Metadata.TokenEndpointAuthMethod))
	cs.onRegister(ctx, c)
}

// response describes a client. secret is empty unless it was just issued.
func (cs *Clients) response(c storage.Client, secret, token string) response {
	out := response{
		ClientID: c.ID, ClientIDIssuedAt: c.Created.Unix(), ClientSecret: secret,
		RegistrationClientURI: cs.endpoint + "/" + c.ID, RegistrationAccessToken: token, Client: c.Metadata,
		SoftwareStatement: c.SoftwareStatement, localized: maps.Clone(c.Localized),
	}
	if hasSecret(c.Metadata) {
		// RFC 7591 section 3.2.1: REQUIRED if client_secret is issued; 0 means never.
		out.ClientSecretExpiresAt = new(int64)
	}
	if c.Metadata.TokenEndpointAuthMethod != metadata.AuthMethodPrivateKeyJWT {
		// A widely used Go client, which cannot use private_key_jwt, reads jwks as a string
		// and fails on an object.
		out.JWKS = nil
	}
	return out
}
