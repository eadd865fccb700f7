package authz

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"gatehouse.example/authz/internal/passkey"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
)

// newParty returns the party of the issuer's passkeys, or nil if browsers have none for it.
func newParty(cfg Config) (*passkey.Party, error) {
	party, err := passkey.New(cfg.Issuer, "Gatehouse")
	if errors.Is(err, passkey.ErrNoDomain) {
		return nil, nil
	}
	return party, err
}

// SignInMistake returns an error if nobody could ever sign in: browsers have passkeys for names of
// hosts only (Web Authentication Level 2 section 5.1.2, effective domain), so with passwords off
// and without providers the issuer must not be at an address. [New] returns it too.
func (c Config) SignInMistake() error {
	if !c.NoPasswords || len(c.Providers) > 0 {
		return nil
	}
	if _, err := passkey.New(c.Issuer, "Gatehouse"); !errors.Is(err, passkey.ErrNoDomain) {
		return nil
	}
	return fmt.Errorf("authz: nobody could sign in: passwords are off (sign-in.passwords: false), there is no provider, and browsers have no passkeys for the issuer %s, "+
		"because its host is an address: give the issuer a name (on this machine localhost), list a provider under sign-in.providers, or leave passwords on", c.Issuer)
}

// The purposes of a challenge, which its answer cannot change.
const (
	purposeSignIn = "passkey of a sign-in"
	purposeEnrol  = "new passkey"
)

const challengeNonce = 16

// challenge returns a new challenge for a passkey (Web Authentication section 13.4.3): a random
// part, and a code over it that binds it to the browser, the transaction, the session and the
// purpose. The server draws the ids of transactions and the secrets of sessions, so a challenge
// cannot be foreseen before its page begins, and nothing of it has to be kept.
func (s *Server) challenge(r *http.Request, t storage.Transaction, purpose string, session liveSession) ([]byte, error) {
	nonce := make([]byte, challengeNonce)
	if _, err := io.ReadFull(s.cfg.Rand, nonce); err != nil {
		return nil, fmt.Errorf("authz: challenge: %w", err)
	}
	return append(nonce, s.challengeCode(r, t, purpose, session, nonce)...), nil
}

func (s *Server) challengeCode(r *http.Request, t storage.Transaction, purpose string, session liveSession, nonce []byte) string {
	return s.csrf(r, t, purpose+" "+base64.RawURLEncoding.EncodeToString(nonce), session)
}

// ownChallenge reports whether a challenge was given out for this browser, transaction, session and
// purpose.
func (s *Server) ownChallenge(r *http.Request, t storage.Transaction, purpose string, session liveSession, challenge []byte) bool {
	if len(challenge) <= challengeNonce {
		return false
	}
	want := s.challengeCode(r, t, purpose, session, challenge[:challengeNonce])
	return hmac.Equal(challenge[challengeNonce:], []byte(want))
}

// useChallenge ends a challenge that was answered. The error is [storage.ErrConflict] if it was
// answered before.
func (s *Server) useChallenge(ctx context.Context, challenge []byte) error {
	return s.cfg.Store.TakeOnce(ctx, "passkey challenge", string(challenge), s.cfg.Now().Add(s.cfg.SessionMax+transactionTTL))
}

// signInPrompt returns the part of the sign-in form for a passkey, nil if browsers have none for the issuer.
func (s *Server) signInPrompt(w http.ResponseWriter, r *http.Request, t storage.Transaction) (*templates.PasskeyPrompt, error) {
	if s.party == nil {
		return nil, nil
	}
	challenge, err := s.challenge(r, t, purposeSignIn, liveSession{})
	if err != nil {
		return nil, err
	}
	options, err := s.party.RequestOptions(challenge)
	if err != nil {
		return nil, err
	}
	s.allowScript(w)
	return &templates.PasskeyPrompt{
		Action: s.urls.login + "/passkey", Script: s.urls.script, Options: options,
	}, nil
}

// enrolPrompt returns the part of a form to make a passkey for a person, nil if browsers have none for the
// issuer. The session is that of the person, or made up from the link that stands for one.
func (s *Server) enrolPrompt(w http.ResponseWriter, r *http.Request, action string, user storage.User, session liveSession) (*templates.PasskeyPrompt, error) {
	if s.party == nil || len(user.Passkeys) >= maxPasskeys {
		return nil, nil
	}
	challenge, err := s.challenge(r, storage.Transaction{}, purposeEnrol, session)
	if err != nil {
		return nil, err
	}
	options, err := s.party.CreationOptions(user, challenge)
	if err != nil {
		return nil, err
	}
	s.allowScript(w)
	return &templates.PasskeyPrompt{Action: action, Script: s.urls.script, Options: options, Enrol: true}, nil
}

// allowScript lets the page that is being written run the script for passkeys, and no other.
func (s *Server) allowScript(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", s.pages.PolicyWithScript(s.urls.script))
}

// passkeyScript handles GET /passkey.js.
func passkeyScript(w http.ResponseWriter, _ *http.Request) {
	h, script := w.Header(), templates.PasskeyScript()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(script)))
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	_, _ = w.Write(script)
}

// maxPasskeys is the greatest number of passkeys of a person: the record is read with each request.
const maxPasskeys = 20

// enrol checks a new passkey and adds it to a person. change does what else the record needs, and
// refuses one that is not that person's any more when it is written. The answers to a person who
// makes a mistake are a *passkey.Refused.
func (s *Server) enrol(ctx context.Context, user storage.User, challenge, answer []byte, change func(*storage.User) error) (storage.User, error) {
	made, err := s.party.Created(user, challenge, answer)
	if err != nil {
		return storage.User{}, err
	}
	if err := s.useChallenge(ctx, challenge); errors.Is(err, storage.ErrConflict) {
		return storage.User{}, &passkey.Refused{Reason: "the challenge was answered before"}
	} else if err != nil {
		return storage.User{}, err
	}
	if err := s.claim(ctx, user, made.ID); err != nil {
		return storage.User{}, err
	}
	made.Created = s.cfg.Now().UTC()
	changed, err := s.changePerson(ctx, user.Name, func(u *storage.User) error {
		if len(u.Passkeys) >= maxPasskeys {
			return gone()
		}
		made.Name = passkeyName(*u)
		u.Passkeys = append(slices.Clone(u.Passkeys), made)
		return change(u)
	})
	if err != nil {
		return storage.User{}, err
	}
	return changed, s.keepsClaim(ctx, changed, made.ID)
}

// passkeyName returns the name of a person's next passkey.
func passkeyName(u storage.User) string {
	for n := len(u.Passkeys) + 1; ; n++ {
		name := fmt.Sprintf("Passkey %d", n)
		if !slices.ContainsFunc(u.Passkeys, func(k storage.Passkey) bool { return k.Name == name }) {
			return name
		}
	}
}

// claim makes the alias of a passkey lead to a person. A passkey that another person, or the same
// one, already has is refused (Web Authentication section 7.1 step 22).
func (s *Server) claim(ctx context.Context, user storage.User, id []byte) error {
	name := storage.PasskeyAlias(id)
	_, err := s.cfg.Store.UserOf(ctx, name)
	if err == nil {
		return &passkey.Refused{Reason: "the passkey is registered already"}
	}
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	stale, err := s.cfg.Store.Alias(ctx, name)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	err = s.cfg.Store.PutAlias(ctx, name, stale.Leading(user.Name, user.Subject))
	if errors.Is(err, storage.ErrConflict) {
		return &passkey.Refused{Reason: "the passkey was registered at the same moment"}
	}
	return err
}

// keepsClaim reads the alias of a new passkey again. If another person has claimed it meanwhile,
// the passkey is useless, and the person is told.
func (s *Server) keepsClaim(ctx context.Context, user storage.User, id []byte) error {
	owner, err := s.cfg.Store.UserOf(ctx, storage.PasskeyAlias(id))
	if errors.Is(err, storage.ErrNotFound) || err == nil && owner.Subject != user.Subject {
		return &passkey.Refused{Reason: "the passkey was registered for another person at the same moment"}
	}
	return err
}

// passkeyUsed records the use of a passkey. Of two sign-ins with one count of a signature counter
// only one passes.
func (s *Server) passkeyUsed(ctx context.Context, user storage.User, challenge []byte, answer passkey.Answer, at time.Time) (storage.User, error) {
	return s.changePerson(ctx, user.Name, func(u *storage.User) error {
		if u.Disabled || u.Subject != user.Subject || u.SessionEpoch != user.SessionEpoch {
			return &passkey.Refused{Reason: "the person was changed at the same moment"}
		}
		used, err := s.party.SignedIn(*u, challenge, answer)
		if err != nil {
			return err
		}
		used.Used = at.UTC()
		u.Passkeys = slices.Clone(u.Passkeys)
		for i := range u.Passkeys {
			if slices.Equal(u.Passkeys[i].ID, used.ID) {
				u.Passkeys[i] = used
			}
		}
		return nil
	})
}
