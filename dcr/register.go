package dcr

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

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
}

// response is a client information response (RFC 7591 section 3.2.1, RFC 7592 section 3).
type response struct {
	ClientID         string `json:"client_id"`
	ClientIDIssuedAt int64  `json:"client_id_issued_at"`
	// ClientSecret is known at registration only: the store has its hash.
	ClientSecret string `json:"client_secret,omitempty"`
	// ClientSecretExpiresAt is 0, for a secret that does not expire, or absent for a
	// client without one.
	ClientSecretExpiresAt   *int64 `json:"client_secret_expires_at,omitempty"`
	RegistrationClientURI   string `json:"registration_client_uri"`
	RegistrationAccessToken string `json:"registration_access_token"`
	metadata.Client
}

// Register returns the client registration endpoint (RFC 7591 section 3): POST of client
// metadata as application/json. It answers 201 with what was registered, 400 with an
// error code of RFC 7591 section 3.2.2, 413 for a body over 64 KiB and 503 while the
// store does not answer.
func (r *Registry) Register() http.Handler {
	return endpoint{registry: r, method: http.MethodPost, serve: r.register}
}

func (r *Registry) register(w http.ResponseWriter, req *http.Request) error {
	asked, err := readRequest(w, req)
	if err != nil {
		return err
	}
	effective, err := r.effective(asked)
	if err != nil {
		return err
	}
	client, secret, token, err := r.issue(effective)
	if err != nil {
		return err
	}
	if err := r.store.CreateClient(req.Context(), client); err != nil {
		return err
	}
	r.registered(req.Context(), client)
	respond(w, http.StatusCreated, r.response(client, secret, token))
	return nil
}

func readRequest(w http.ResponseWriter, req *http.Request) (request, error) {
	var asked request
	// RFC 7591 section 3.1: the parameters are sent as application/json.
	if mediaType, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		return asked, invalidMetadata("", "send the client metadata as Content-Type: application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refused := invalidMetadata("", "the request has more than %d bytes", maxBody)
		refused.status = http.StatusRequestEntityTooLarge
		return asked, refused
	case err != nil:
		return asked, invalidMetadata("", "the request could not be read to its end")
	}
	if err := strictjson.Unmarshal(body, &asked, strictjson.Options{MaxBytes: maxBody}); err != nil {
		return asked, invalidMetadata("", "%s", strings.TrimPrefix(err.Error(), "strictjson: "))
	}
	return asked, nil
}

// issue makes a client out of its metadata. The server chooses id and secrets (RFC 7591
// section 3.2.1), all of unreserved characters: clients differ in whether they
// percent-encode them for HTTP Basic.
func (r *Registry) issue(m metadata.Client) (c storage.Client, secret, token string, err error) {
	c = storage.Client{Source: storage.ClientRegistered, Metadata: m, Created: r.now().UTC()}
	if c.ID, err = r.store.NewID(); err != nil {
		return storage.Client{}, "", "", err
	}
	if token, err = r.store.NewSecret(tokenPrefix); err != nil {
		return storage.Client{}, "", "", err
	}
	c.RegistrationToken = storage.HashSecret(token)
	if m.Public() {
		return c, "", token, nil
	}
	if secret, err = r.store.NewSecret(secretPrefix); err != nil {
		return storage.Client{}, "", "", err
	}
	c.Secret = storage.HashSecret(secret)
	return c, secret, token, nil
}

func (r *Registry) registered(ctx context.Context, c storage.Client) {
	r.log.InfoContext(ctx, "client registered", "client_id", c.ID, "client_name", c.Metadata.ClientName,
		"redirect_uris", c.Metadata.RedirectURIs, "auth_method", c.Metadata.TokenEndpointAuthMethod)
	r.onRegister(ctx, c)
}

// response describes a client. The secret is empty when it is not known any more.
func (r *Registry) response(c storage.Client, secret, token string) response {
	out := response{
		ClientID: c.ID, ClientIDIssuedAt: c.Created.Unix(), ClientSecret: secret,
		RegistrationClientURI: r.endpoint + "/" + c.ID, RegistrationAccessToken: token, Client: c.Metadata,
	}
	if !c.Metadata.Public() {
		// RFC 7591 section 3.2.1: REQUIRED if client_secret is issued; 0 means never.
		out.ClientSecretExpiresAt = new(int64)
	}
	// The most used Go client reads jwks as a string and fails on an object.
	out.JWKS = nil
	return out
}
