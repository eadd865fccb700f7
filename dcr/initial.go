package dcr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"gatehouse.example/storage"
)

// initialPrefix begins an initial access token.
const initialPrefix = "gate_iat_"

// MintInitialToken makes an initial access token (RFC 7591 section 3): whoever has it may
// register so many clients until it expires. It is returned once; the store has its hash.
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

// initialToken reads the initial access token of a request, if one is required. Where
// anybody may register, an Authorization header means nothing: clients send what they
// have, and it must neither keep them out nor be spent.
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
	return unauthorized("registering takes an initial access token, and the one that was sent is missing, not valid, expired or used up")
}

// spend takes one registration off an initial token, for a client that was just stored.
// Nobody knows that client yet: when the last registration of the token went to somebody
// else meanwhile, or the store does not answer, it is never told, and ends like one that
// nobody uses. The other way round a fault would spend a registration for nothing.
func (cs *Clients) spend(ctx context.Context, initial *storage.InitialToken, c storage.Client) error {
	if initial == nil {
		return nil
	}
	err := cs.store.UseInitialToken(ctx, *initial)
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if made, err := cs.store.Client(ctx, c.ID); err == nil {
		if err := cs.store.RemoveClient(ctx, made, "it was never told to anybody"); err != nil {
			cs.log.WarnContext(ctx, "a client that nobody knows is left until it ends", "client_id", c.ID, "cause", err)
		}
	}
	return noInitialToken()
}
