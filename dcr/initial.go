package dcr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"gatehouse.example/storage"
)

// initialPrefix is the prefix of initial access tokens.
const initialPrefix = "gate_iat_"

// MintInitialToken creates an initial access token (RFC 7591 section 3), with which up to uses
// clients can be registered until it expires. The store has only its hash, so the token cannot
// be read again.
func MintInitialToken(ctx context.Context, store *storage.Store, uses int, expires time.Time) (string, error) {
	if uses < 1 {
		return "", errors.New("dcr: initial token: it must be good for at least one registration")
	}
	token, err := store.NewSecret(initialPrefix)
	if err != nil {
		return "", err
	}
	minted := storage.InitialToken{Token: storage.HashSecret(token), Created: time.Now().UTC(), Expires: expires.UTC(), Left: uses}
	if err := store.CreateInitialToken(ctx, minted); err != nil {
		return "", fmt.Errorf("dcr: initial token: %w", err)
	}
	// The clock of the store decides whether it has expired.
	if _, err := store.InitialToken(ctx, token); errors.Is(err, storage.ErrNotFound) {
		return "", errors.New("dcr: initial token: it would have expired already")
	} else if err != nil {
		return "", fmt.Errorf("dcr: initial token: %w", err)
	}
	return token, nil
}

// initialToken returns the initial access token of a request, or nil if none is required.
// Where registration is open, an Authorization header is ignored: clients send tokens that
// they have, which must neither be checked nor spent.
func (cs *Clients) initialToken(req *http.Request) (*storage.InitialToken, error) {
	if !cs.tokenRequired {
		return nil, nil
	}
	token, ok := bearer(req.Header.Values("Authorization"), initialPrefix)
	if !ok {
		return nil, noInitialToken()
	}
	initial, err := cs.store.InitialToken(req.Context(), token)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, noInitialToken()
	case err != nil:
		return nil, err
	}
	return &initial, nil
}

func noInitialToken() error {
	return unauthorized("registering requires an initial access token, and the one that was sent is missing, not valid, expired or used up")
}

// spend takes one registration off an initial token, for a client that was just stored. The
// client_id has not been sent yet: if another request took the last registration, the client
// is removed, and if the store fails, it expires like every unused client. In the opposite
// order a fault would spend a registration without a client.
func (cs *Clients) spend(ctx context.Context, initial *storage.InitialToken, c storage.Client) error {
	if initial == nil {
		return nil
	}
	err := cs.store.UseInitialToken(ctx, *initial)
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if made, err := cs.store.Client(ctx, c.ID); err == nil {
		if err := cs.store.RemoveClient(ctx, made, "its registration failed"); err != nil {
			cs.log.WarnContext(ctx, "a client whose registration failed is left until it expires", "client_id", c.ID, "cause", err)
		}
	}
	return noInitialToken()
}
