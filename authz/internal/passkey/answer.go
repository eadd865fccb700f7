package passkey

import (
	"encoding/base64"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"gatehouse.example/storage"
)

// Answer is the answer of a browser to [Party.RequestOptions]. Nothing of it is proven.
type Answer struct {
	parsed *protocol.ParsedCredentialAssertionData
}

// Read parses an answer. The error is a *[Refused].
func Read(answer []byte) (Answer, error) {
	if len(answer) > MaxAnswer {
		return Answer{}, &Refused{"the answer is too long"}
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return Answer{}, refused(err)
	}
	if len(parsed.RawID) == 0 || len(parsed.RawID) > maxID {
		return Answer{}, &Refused{"the credential id is empty or too long"}
	}
	return Answer{parsed}, nil
}

// ID returns the credential id of the passkey that the answer claims to be from.
func (a Answer) ID() []byte { return a.parsed.RawID }

// Challenge returns the challenge that the answer claims to be for.
func (a Answer) Challenge() []byte { return Challenge(a.parsed.Response.CollectedClientData.Challenge) }

// Challenge decodes a challenge from client data. It returns nil for anything else.
func Challenge(encoded string) []byte {
	challenge, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	return challenge
}

// CreationChallenge returns the challenge that the answer to [Party.CreationOptions] claims to be
// for, or nil.
func CreationChallenge(answer []byte) []byte {
	if len(answer) > MaxAnswer {
		return nil
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return nil
	}
	return Challenge(parsed.Response.CollectedClientData.Challenge)
}

// SignedIn checks that an answer proves a passkey of a person (section 7.2), and returns the passkey
// with what changed about it. challenge is the one that the caller gave out. The error is a
// *[Refused].
//
// A signature counter that does not grow means that there may be a copy of the key, and the answer
// is refused. Authenticators that do not count answer zero each time (section 6.1.1).
func (p *Party) SignedIn(u storage.User, challenge []byte, a Answer) (storage.Passkey, error) {
	if err := p.fromHere(a.parsed.Response.CollectedClientData, challenge); err != nil {
		return storage.Passkey{}, err
	}
	whose := func(_, handle []byte) (webauthn.User, error) {
		if string(handle) != u.Subject {
			return nil, &Refused{"the passkey names another person"} // section 7.2 step 6
		}
		return person{u}, nil
	}
	used, err := p.library.ValidateDiscoverableLogin(whose, webauthn.SessionData{
		Challenge: base64.RawURLEncoding.EncodeToString(challenge), RelyingPartyID: p.library.Config.RPID, UserVerification: protocol.VerificationRequired,
	}, a.parsed)
	switch {
	case err != nil:
		return storage.Passkey{}, refused(err)
	case !used.Flags.UserVerified || !used.Flags.UserPresent:
		return storage.Passkey{}, &Refused{"the person was not verified"} // section 7.2 steps 16 and 17
	case used.Authenticator.CloneWarning:
		return storage.Passkey{}, &Refused{"the signature counter went backwards: there may be a copy of the passkey"} // section 7.2 step 21
	}
	i := slices.IndexFunc(u.Passkeys, func(k storage.Passkey) bool { return slices.Equal(k.ID, used.ID) })
	k := u.Passkeys[i] // the library found it in the same list
	k.SignCount, k.BackedUp = used.Authenticator.SignCount, used.Flags.BackupState
	return k, nil
}
