package dcr

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"gatehouse.example/storage"
)

// Configuration returns the client configuration endpoint (RFC 7592 section 2), for the
// paths below the registration endpoint. With the registration access token as a bearer
// token, GET answers with the registered metadata, PUT replaces it, and DELETE removes the
// client and revokes its grants. A wrong client_id and a wrong token get the same 401, so that
// the answer does not disclose which clients exist.
//
// PUT answers with a new registration access token. The previous one is valid until the new
// one is used, so a client that did not receive the answer is not locked out. A secret is in
// the answer that issues it only, because only its hash is stored.
func (cs *Clients) Configuration() http.Handler {
	return endpoint{cs, map[string]serve{
		http.MethodGet: cs.readConfiguration, http.MethodPut: cs.replaceConfiguration, http.MethodDelete: cs.deleteConfiguration,
	}}
}

func (cs *Clients) readConfiguration(w http.ResponseWriter, req *http.Request) error {
	client, token, err := cs.authorized(req)
	if err != nil {
		return err
	}
	if client, err = cs.endPreviousToken(req.Context(), client, token); err != nil {
		return err
	}
	cs.response(client, "", token).write(w, http.StatusOK)
	return nil
}

// authorized returns the client in the path of a request, and the token of the request, if it
// is a registration access token of that client. It reads the store, not the cache, so a
// withdrawn token is refused at once.
func (cs *Clients) authorized(req *http.Request) (storage.Client, string, error) {
	id := configuredID(req)
	token, ok := bearer(req.Header.Values("Authorization"), tokenPrefix)
	if !ok || !cs.stored(id) {
		return storage.Client{}, "", noRegistrationToken()
	}
	client, err := cs.managed(req.Context(), id, token)
	return client, token, err
}

// configuredID returns the client_id in the path of the configuration endpoint.
func configuredID(req *http.Request) string {
	return req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
}

// noRegistrationToken returns the 401 of RFC 7592 section 2.1 for an invalid token, one of
// another client, or an unknown client.
func noRegistrationToken() error {
	return unauthorized("the registration access token is missing or not valid for this client")
}

// managed returns a client if it may be managed with token.
func (cs *Clients) managed(ctx context.Context, id, token string) (storage.Client, error) {
	client, err := cs.store.Client(ctx, id)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return storage.Client{}, err
	}
	// An unknown or removed client has no hashes, and an empty hash matches nothing. Both are
	// always compared, so that the time taken does not disclose which clients exist.
	current, previous := client.RegistrationToken.Matches(token), client.PreviousToken.Matches(token)
	if err != nil || !current && !previous || client.Disabled {
		return storage.Client{}, errors.Join(noRegistrationToken(), err)
	}
	return client, nil
}

// endPreviousToken withdraws the previous registration access token when the current one is
// used, which shows that the client received it.
func (cs *Clients) endPreviousToken(ctx context.Context, c storage.Client, token string) (storage.Client, error) {
	for range changeAttempts {
		if len(c.PreviousToken) == 0 || !c.RegistrationToken.Matches(token) {
			return c, nil
		}
		c.PreviousToken = nil
		err := cs.store.UpdateClient(ctx, c)
		if !errors.Is(err, storage.ErrConflict) {
			return c, err
		}
		if c, err = cs.managed(ctx, c.ID, token); err != nil {
			return storage.Client{}, err
		}
	}
	return storage.Client{}, errBusy
}

// changeAttempts bounds how often a change is tried that conflicts with concurrent ones.
const changeAttempts = 8

// change writes a client that was read before. If the record was changed meanwhile, for
// example by a use, it reads the client again and repeats the change, but it never overwrites
// another change of the registration: then the token is no longer the current one, or the
// registration is not the one that the change is based on.
func (cs *Clients) change(ctx context.Context, c storage.Client, token string, with func(storage.Client) (storage.Client, error)) (storage.Client, error) {
	read := c
	for range changeAttempts {
		next, err := with(c)
		if err != nil {
			return storage.Client{}, err
		}
		if err = cs.store.UpdateClient(ctx, next); err == nil {
			cs.cache.drop(c.ID)
			return next, nil
		}
		if !errors.Is(err, storage.ErrConflict) {
			return storage.Client{}, err
		}
		if c, err = cs.managed(ctx, c.ID, token); err != nil {
			return storage.Client{}, err
		}
		if !sameRegistration(read, c) {
			return storage.Client{}, invalidMetadata("", "the registration was changed by another request at the same time; read it and try again")
		}
	}
	return storage.Client{}, errBusy
}

var errBusy = errors.New("dcr: the client keeps changing")

// sameRegistration reports whether a and b are the same registration. Every replacement issues
// another token.
func sameRegistration(a, b storage.Client) bool {
	return string(a.RegistrationToken) == string(b.RegistrationToken)
}

// serverMembers are the members of a client information response that a client MUST NOT
// include in an update (RFC 7592 section 2.2).
var serverMembers = []string{"registration_access_token", "registration_client_uri", "client_secret_expires_at", "client_id_issued_at"}

func (cs *Clients) replaceConfiguration(w http.ResponseWriter, req *http.Request) error {
	client, token, err := cs.authorized(req)
	if err != nil {
		return err
	}
	asked, err := readRequest(w, req)
	if err != nil {
		return err
	}
	if err := asked.checkServerMembers(client); err != nil {
		return err
	}
	wanted, err := cs.effective(req.Context(), asked)
	if err != nil {
		return err
	}
	renewed, err := cs.store.NewSecret(tokenPrefix)
	if err != nil {
		return err
	}
	var secret string
	next := client
	next.Metadata, next.Localized, next.SoftwareStatement = wanted.Metadata, wanted.Localized, wanted.SoftwareStatement
	undo, err := cs.admitted(req.Context(), next)
	if err != nil {
		return err
	}
	client, err = cs.change(req.Context(), client, token, func(c storage.Client) (storage.Client, error) {
		c.Metadata, c.Localized, c.SoftwareStatement = wanted.Metadata, wanted.Localized, wanted.SoftwareStatement
		// The token of this request stays valid as the previous one: the answer may be lost.
		c.RegistrationToken, c.PreviousToken = storage.HashSecret(renewed), storage.HashSecret(token)
		c, secret, err = withSecret(cs.store, c)
		return c, err
	})
	if err != nil {
		undo()
		return err
	}
	cs.log.InfoContext(req.Context(), "client changed its registration", "client_id", client.ID, "client_name", client.Metadata.ClientName,
		"redirect_uris", client.Metadata.RedirectURIs, "auth_method", client.Metadata.TokenEndpointAuthMethod)
	cs.onChange(req.Context(), client)
	cs.response(client, secret, renewed).write(w, http.StatusOK)
	return nil
}

// checkServerMembers checks the members of an update request that are not metadata (RFC 7592
// section 2.2).
func (asked request) checkServerMembers(c storage.Client) error {
	members := asked.members()
	for _, member := range serverMembers {
		if !absent(members[member]) {
			return invalidMetadata(member, "the server chooses it; leave it out")
		}
	}
	var id, secret string
	if json.Unmarshal(members["client_id"], &id) != nil || id != c.ID {
		// MUST include its client_id, the same as the one that was issued.
		return invalidMetadata("client_id", "it must be the one of this client")
	}
	if raw := members["client_secret"]; !absent(raw) && (json.Unmarshal(raw, &secret) != nil || !c.Secret.Matches(secret)) {
		// If the client includes it, the value MUST match the one that was issued.
		return invalidMetadata("client_secret", "it is not the one that was issued; leave it out to keep that")
	}
	return nil
}

// deleteConfiguration removes a client and revokes its grants (RFC 7592 section 2.3). If the
// store does not confirm that, the client is asked to retry; by then its record, and with it
// the hash of its token, may be gone. A request for a removed client therefore finishes the
// revocation without a valid token, which is safe because the client cannot come back, and is
// answered like every request for an unknown client.
func (cs *Clients) deleteConfiguration(w http.ResponseWriter, req *http.Request) error {
	client, token, err := cs.authorized(req)
	var removed *storage.RemovedError
	switch {
	case errors.As(err, &removed):
		if err := cs.store.RevokeClient(req.Context(), configuredID(req), becauseDeleted); err != nil {
			return err
		}
		return noRegistrationToken()
	case err != nil:
		return err
	}
	if err := cs.remove(req.Context(), client, token); err != nil {
		return err
	}
	noStore(w.Header())
	w.WriteHeader(http.StatusNoContent)
	return nil
}

const becauseDeleted = "its client was deleted"

// remove removes a client, also if its record changes meanwhile, as long as the token stays
// valid, and revokes its grants.
func (cs *Clients) remove(ctx context.Context, c storage.Client, token string) error {
	for range changeAttempts {
		err := cs.store.RemoveClient(ctx, c, "it deleted its registration")
		if err == nil {
			cs.cache.drop(c.ID)
			cs.log.InfoContext(ctx, "client deleted its registration", "client_id", c.ID, "client_name", c.Metadata.ClientName)
			cs.onRemove(ctx, c) // now: a repeated request does not know the client any more
			return cs.store.RevokeClient(ctx, c.ID, becauseDeleted)
		}
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
		if c, err = cs.managed(ctx, c.ID, token); err != nil {
			return err
		}
	}
	return errBusy
}

// bearer returns the token of the only Authorization header (RFC 6750 section 2.1).
func bearer(headers []string, prefix string) (token string, ok bool) {
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(token, prefix)
}
