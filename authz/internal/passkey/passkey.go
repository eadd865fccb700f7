// Package passkey creates passkeys and checks their signatures (Web Authentication Level 2). It
// stores nothing: the caller keeps challenges, makes sure that each is used once, and finds people.
//
// A passkey is bound to the host of the issuer, and its answers to the issuer's origin. It must
// verify the person, by a PIN or a fingerprint, so it is as good as a password with a second factor.
// Statements of the maker of an authenticator (attestation) are neither asked for nor read.
package passkey

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"gatehouse.example/storage"
)

const (
	// MaxAnswer is the greatest length of what a browser answers, in bytes.
	MaxAnswer = 16 << 10
	// maxID is the greatest length of a credential id (section 4, "credential ID").
	maxID = 1023
	// maxKey is the greatest length of a public key: RSA with 4096 bits has some 530 bytes.
	maxKey = 1100
	// maxTransports is the greatest number of transports that are kept as hints.
	maxTransports = 8
)

// ErrNoDomain means that the host of an issuer is an address: browsers have passkeys for names
// only.
var ErrNoDomain = errors.New("passkey: the host of the issuer is not a name")

// Refused means that an answer does not create a passkey, or does not prove one. Its text is for
// the log.
type Refused struct{ Reason string }

// Error returns the reason.
func (e *Refused) Error() string { return "passkey: " + e.Reason }

// Party is the server to which passkeys belong (the Relying Party). It is safe for concurrent use.
type Party struct {
	origin  string
	library *webauthn.WebAuthn
}

// New returns the Party of an issuer. Authenticators may show name. The error is [ErrNoDomain] if
// no browser would make a passkey for the issuer.
func New(issuer, name string) (*Party, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, fmt.Errorf("passkey: issuer: %w", err)
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return nil, ErrNoDomain
	}
	origin := u.Scheme + "://" + strings.TrimSuffix(u.Host, defaultPort(u.Scheme))
	library, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: name, RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			RequireResidentKey: protocol.ResidentKeyRequired(), ResidentKey: protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("passkey: %w", err)
	}
	return &Party{origin: origin, library: library}, nil
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return ":443"
	}
	return ":80"
}

// person is a person in the form of the library. The user handle is the subject, which says nothing
// about the person (section 14.6.1).
type person struct{ storage.User }

func (p person) WebAuthnID() []byte          { return []byte(p.Subject) }
func (p person) WebAuthnName() string        { return p.Name }
func (p person) WebAuthnDisplayName() string { return p.Name }

// WebAuthnCredentials returns the passkeys of the person.
func (p person) WebAuthnCredentials() []webauthn.Credential {
	all := make([]webauthn.Credential, len(p.Passkeys))
	for i, k := range p.Passkeys {
		all[i] = webauthn.Credential{
			ID: k.ID, PublicKey: k.PublicKey, Authenticator: webauthn.Authenticator{SignCount: k.SignCount},
			Flags: webauthn.CredentialFlags{BackupEligible: k.BackupEligible, BackupState: k.BackedUp},
		}
	}
	return all
}

// CreationOptions returns what the browser needs to make a passkey for a person, as JSON
// (section 5.4). Authenticators that have one of the person's passkeys make no second one.
func (p *Party) CreationOptions(u storage.User, challenge []byte) (string, error) {
	known := make([]protocol.CredentialDescriptor, len(u.Passkeys))
	for i, k := range u.Passkeys {
		known[i] = protocol.CredentialDescriptor{Type: protocol.PublicKeyCredentialType, CredentialID: k.ID}
	}
	options, _, err := p.library.BeginRegistration(person{u}, webauthn.WithExclusions(known),
		webauthn.WithCredentialParameters(webauthn.CredentialParametersRecommendedL3()),
		func(o *protocol.PublicKeyCredentialCreationOptions) { o.Challenge = challenge })
	if err != nil {
		return "", fmt.Errorf("passkey: %w", err)
	}
	return marshal(options.Response)
}

// RequestOptions returns what the browser needs to sign in with a passkey, as JSON (section 5.5).
// It names no passkeys: the person chooses one, and it says whose it is.
func (p *Party) RequestOptions(challenge []byte) (string, error) {
	options, _, err := p.library.BeginDiscoverableLogin(webauthn.WithChallenge(challenge), webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return "", fmt.Errorf("passkey: %w", err)
	}
	return marshal(options.Response)
}

func marshal(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("passkey: %w", err)
	}
	return string(text), nil
}

// Created checks the answer to [Party.CreationOptions] (section 7.1) and returns the new passkey,
// without name and times. challenge is the one that the caller gave out. The error is a *[Refused].
func (p *Party) Created(u storage.User, challenge, answer []byte) (storage.Passkey, error) {
	if len(answer) > MaxAnswer {
		return storage.Passkey{}, &Refused{"the answer is too long"}
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return storage.Passkey{}, refused(err)
	}
	if err := p.fromHere(parsed.Response.CollectedClientData, challenge); err != nil {
		return storage.Passkey{}, err
	}
	// No statement was asked for, so none is read (section 7.1 step 21 with the format none).
	object := &parsed.Response.AttestationObject
	object.Format, object.AttStatement = string(protocol.AttestationFormatNone), nil
	made, err := p.library.CreateCredential(person{u}, webauthn.SessionData{
		Challenge: base64.RawURLEncoding.EncodeToString(challenge), RelyingPartyID: p.library.Config.RPID, UserID: []byte(u.Subject),
		UserVerification: protocol.VerificationRequired, CredParams: webauthn.CredentialParametersRecommendedL3(),
	}, parsed)
	if err == nil {
		err = acceptable(made)
	}
	if err != nil {
		return storage.Passkey{}, refused(err)
	}
	k := storage.Passkey{
		ID: made.ID, PublicKey: made.PublicKey, SignCount: made.Authenticator.SignCount,
		BackupEligible: made.Flags.BackupEligible, BackedUp: made.Flags.BackupState,
	}
	for _, t := range made.Transport {
		if slices.Contains(knownTransports, t) && len(k.Transports) < maxTransports {
			k.Transports = append(k.Transports, string(t))
		}
	}
	return k, nil
}

// acceptable refuses a new passkey that did not verify the person, or is too large to be kept.
func acceptable(made *webauthn.Credential) error {
	switch {
	case !made.Flags.UserVerified || !made.Flags.UserPresent:
		return &Refused{"the person was not verified"} // section 7.1 steps 14 and 15
	case len(made.ID) == 0 || len(made.ID) > maxID:
		return &Refused{"the credential id is empty or too long"} // section 7.1 step 24
	case len(made.PublicKey) > maxKey:
		return &Refused{"the public key is too long"}
	}
	return nil
}

// knownTransports are the transports that are kept (section 5.8.4); browsers invent others.
var knownTransports = []protocol.AuthenticatorTransport{
	protocol.USB, protocol.NFC, protocol.BLE, protocol.SmartCard, protocol.Hybrid, protocol.Internal,
}

// fromHere refuses an answer to another challenge, or one that was not made on a page of the issuer
// (section 7.1 steps 8 and 9, section 7.2 steps 12 and 13). The library compares once more, but
// takes origins in other spellings.
func (p *Party) fromHere(data protocol.CollectedClientData, challenge []byte) error {
	want := base64.RawURLEncoding.EncodeToString(challenge)
	switch {
	case len(challenge) < 16 || subtle.ConstantTimeCompare([]byte(data.Challenge), []byte(want)) != 1:
		return &Refused{"the answer is to another challenge"}
	case data.Origin != p.origin:
		return &Refused{fmt.Sprintf("the answer was made on a page of %.100q", data.Origin)}
	case data.CrossOrigin || data.TopOrigin != "":
		return &Refused{"the answer was made in a frame of another site"}
	}
	return nil
}

// refused returns the reason that the library gives.
func refused(err error) error {
	var own *Refused
	if errors.As(err, &own) {
		return own
	}
	var e *protocol.Error
	if errors.As(err, &e) {
		return &Refused{fmt.Sprintf("%.100s: %.200s", e.Details, e.DevInfo)}
	}
	return &Refused{fmt.Sprintf("%.200s", err)}
}
