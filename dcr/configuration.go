package dcr

import (
	"errors"
	"net/http"
	"strings"

	"gatehouse.example/storage"
)

// Configuration returns the client configuration endpoint (RFC 7592 section 2), for the
// paths below the registration endpoint: GET with the registration access token as a
// bearer token answers with what is registered. The client secret is not repeated,
// because only its hash is stored. Whatever is wrong, the answer is the same 401, so
// that nobody learns which clients exist. PUT and DELETE (RFC 7592 sections 2.2 and 2.3)
// are answered with 405.
func (r *Registry) Configuration() http.Handler {
	return endpoint{registry: r, method: http.MethodGet, serve: r.readConfiguration}
}

func (r *Registry) readConfiguration(w http.ResponseWriter, req *http.Request) error {
	client, token, err := r.authorized(req)
	if err != nil {
		return err
	}
	respond(w, http.StatusOK, r.response(client, "", token))
	return nil
}

// authorized returns the client that a request is about if it carries the registration
// access token of that very client. It asks the store, never the cache: a token that was
// withdrawn is refused at once.
func (r *Registry) authorized(req *http.Request) (storage.Client, string, error) {
	// RFC 7592 section 2.1: 401 if the token is invalid or not the client's.
	refused := refuse(codeInvalidToken, "", "the registration access token is missing or not valid for this client")
	refused.status = http.StatusUnauthorized
	id := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	token, ok := bearer(req.Header.Values("Authorization"))
	if !ok || !validID(id) {
		return storage.Client{}, "", refused
	}
	client, err := r.store.Client(req.Context(), id)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return storage.Client{}, "", err
	}
	// An unknown client has no hash, and an empty hash matches nothing.
	if !client.RegistrationToken.Matches(token) || client.Disabled {
		return storage.Client{}, "", refused
	}
	return client, token, nil
}

// bearer returns the token of the only Authorization header (RFC 6750 section 2.1).
func bearer(headers []string) (token string, ok bool) {
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(token, tokenPrefix)
}
