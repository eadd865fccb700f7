package passkey

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/descope/virtualwebauthn"

	"gatehouse.example/storage"
)

const issuer = "https://auth.example.com/tenant"

var here = virtualwebauthn.RelyingParty{ID: "auth.example.com", Name: "Notes", Origin: "https://auth.example.com"}

func party(t *testing.T, issuer string) *Party {
	t.Helper()
	p, err := New(issuer, "Notes")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func challengeOf(t *testing.T) []byte {
	t.Helper()
	challenge := make([]byte, 32)
	if _, err := rand.Read(challenge); err != nil {
		t.Fatal(err)
	}
	return challenge
}

// device is an authenticator with one passkey.
type device struct {
	virtualwebauthn.Authenticator
	key virtualwebauthn.Credential
}

func newDevice(subject string, kind virtualwebauthn.KeyType) *device {
	return &device{virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: []byte(subject)}), newKey(kind)}
}

// newKey returns a key. The library writes a coordinate that begins with a zero byte without that
// byte, so one key of 128 would not be read: such keys are not used.
func newKey(kind virtualwebauthn.KeyType) virtualwebauthn.Credential {
	for {
		key := virtualwebauthn.NewCredential(kind)
		if kind != virtualwebauthn.KeyTypeEC2 || len(key.Key.AttestationData()) == 77 {
			return key
		}
	}
}

// enrol answers a request to make a passkey.
func (d *device) enrol(t *testing.T, at virtualwebauthn.RelyingParty, options string) []byte {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAttestationOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(virtualwebauthn.CreateAttestationResponse(at, d.Authenticator, d.key, *parsed))
}

// sign answers a request to sign in.
func (d *device) sign(t *testing.T, at virtualwebauthn.RelyingParty, options string) []byte {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAssertionOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	d.key.Counter++
	return []byte(virtualwebauthn.CreateAssertionResponse(at, d.Authenticator, d.key, *parsed))
}

// enrolled returns a person with the passkey of a device.
func enrolled(t *testing.T, p *Party, d *device) storage.User {
	t.Helper()
	u, challenge := storage.User{Name: "ada", Subject: "subject-of-ada"}, challengeOf(t)
	options, err := p.CreationOptions(u, challenge)
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Created(u, challenge, d.enrol(t, here, options))
	if err != nil {
		t.Fatal(err)
	}
	u.Passkeys = []storage.Passkey{k}
	return u
}

func mustRefuse(t *testing.T, what string, err error, reason string) {
	t.Helper()
	var r *Refused
	if !errors.As(err, &r) || !strings.Contains(r.Reason, reason) {
		t.Errorf("%s: %v, want a refusal because of %q", what, err, reason)
	}
}

func TestOptions(t *testing.T) {
	p, challenge := party(t, issuer), challengeOf(t)
	u := storage.User{Name: "ada", Subject: "subject-of-ada", Passkeys: []storage.Passkey{{ID: []byte("known")}}}
	creation, err := p.CreationOptions(u, challenge)
	if err != nil {
		t.Fatal(err)
	}
	request, err := p.RequestOptions(challenge)
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.RawURLEncoding.EncodeToString(challenge)
	for _, want := range []string{
		`"id":"auth.example.com"`, `"challenge":"` + encoded + `"`, `"userVerification":"required"`, `"residentKey":"required"`,
		`"id":"a25vd24"`, `"alg":-7`, `"alg":-8`, `"alg":-257`, `"id":"c3ViamVjdC1vZi1hZGE"`,
	} {
		if !strings.Contains(creation, want) {
			t.Errorf("no %s in %s", want, creation)
		}
	}
	if strings.Count(creation, `"alg"`) != 3 || strings.Contains(creation, `"attestation":"direct"`) {
		t.Errorf("too much in %s", creation)
	}
	for _, want := range []string{`"rpId":"auth.example.com"`, `"challenge":"` + encoded + `"`, `"userVerification":"required"`} {
		if !strings.Contains(request, want) {
			t.Errorf("no %s in %s", want, request)
		}
	}
	if strings.Contains(request, "allowCredentials") {
		t.Errorf("the request names passkeys: %s", request)
	}
}

func TestSignIn(t *testing.T) {
	for name, kind := range map[string]virtualwebauthn.KeyType{"ES256": virtualwebauthn.KeyTypeEC2, "RS256": virtualwebauthn.KeyTypeRSA} {
		t.Run(name, func(t *testing.T) {
			p, d := party(t, issuer), newDevice("subject-of-ada", kind)
			u := enrolled(t, p, d)
			challenge := challengeOf(t)
			options, _ := p.RequestOptions(challenge)
			a, err := Read(d.sign(t, here, options))
			if err != nil || !bytes.Equal(a.ID(), u.Passkeys[0].ID) || !bytes.Equal(a.Challenge(), challenge) {
				t.Fatal(err)
			}
			k, err := p.SignedIn(u, challenge, a)
			if err != nil || k.SignCount != 1 || !bytes.Equal(k.ID, d.key.ID) {
				t.Fatal(k, err)
			}
		})
	}
}

// TestCreationRefused: answers that create no passkey.
func TestCreationRefused(t *testing.T) {
	p, u := party(t, issuer), storage.User{Name: "ada", Subject: "subject-of-ada"}
	challenge, other := challengeOf(t), challengeOf(t)
	options, err := p.CreationOptions(u, challenge)
	if err != nil {
		t.Fatal(err)
	}
	good := newDevice("subject-of-ada", virtualwebauthn.KeyTypeEC2)
	answer := good.enrol(t, here, options)
	if _, err := p.Created(u, challenge, answer); err != nil {
		t.Fatal(err)
	}
	if got := CreationChallenge(answer); !bytes.Equal(got, challenge) {
		t.Errorf("the answer is for %x", got)
	}
	_, err = p.Created(u, other, answer)
	mustRefuse(t, "another challenge", err, "another challenge")
	_, err = p.Created(u, nil, answer)
	mustRefuse(t, "no challenge", err, "another challenge")
	_, err = p.Created(u, challenge, append(answer, bytes.Repeat([]byte(" "), MaxAnswer)...))
	mustRefuse(t, "a long answer", err, "too long")
	unverified, absent, long := newDevice("", virtualwebauthn.KeyTypeEC2), newDevice("", virtualwebauthn.KeyTypeEC2), newDevice("", virtualwebauthn.KeyTypeEC2)
	unverified.Options.UserNotVerified, absent.Options.UserNotPresent = true, true
	long.key.ID = bytes.Repeat([]byte{1}, 1024)
	for name, tt := range map[string]struct {
		d      *device
		at     virtualwebauthn.RelyingParty
		reason string
	}{
		"without verification": {unverified, here, "User verification"},
		"without presence":     {absent, here, "User presence"},
		"another host":         {good, virtualwebauthn.RelyingParty{ID: "example.com", Origin: here.Origin}, "RP Hash"},
		"a page elsewhere":     {good, virtualwebauthn.RelyingParty{ID: here.ID, Origin: "https://evil.example.org"}, "evil.example.org"},
		"a page without TLS":   {good, virtualwebauthn.RelyingParty{ID: here.ID, Origin: "http://auth.example.com"}, "a page of"},
		"another spelling":     {good, virtualwebauthn.RelyingParty{ID: here.ID, Origin: "https://AUTH.example.com"}, "a page of"},
		"another port":         {good, virtualwebauthn.RelyingParty{ID: here.ID, Origin: "https://auth.example.com:8443"}, "a page of"},
		"a long id":            {long, here, ""},
	} {
		_, err := p.Created(u, challenge, tt.d.enrol(t, tt.at, options))
		mustRefuse(t, name, err, tt.reason)
	}
	_, err = p.Created(u, challenge, []byte(`{}`))
	mustRefuse(t, "nothing", err, "")
	_, err = p.Created(u, challenge, edited(t, answer, func(data map[string]any) { data["crossOrigin"] = true }))
	mustRefuse(t, "in a frame", err, "frame")
	_, err = p.Created(u, challenge, edited(t, answer, func(data map[string]any) { data["type"] = "webauthn.get" }))
	mustRefuse(t, "an answer to a sign-in", err, "")
}

// edited returns an answer with changed client data.
func edited(t *testing.T, answer []byte, change func(map[string]any)) []byte {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal(answer, &whole); err != nil {
		t.Fatal(err)
	}
	response := whole["response"].(map[string]any)
	raw, err := base64.RawURLEncoding.DecodeString(response["clientDataJSON"].(string))
	if err != nil {
		t.Fatal(err)
	}
	var data map[string]any
	if err := json.Unmarshal(raw, &data); err != nil {
		t.Fatal(err)
	}
	change(data)
	raw, err = json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	response["clientDataJSON"] = base64.RawURLEncoding.EncodeToString(raw)
	out, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSignInRefused: answers that prove no passkey.
func TestSignInRefused(t *testing.T) {
	p, d := party(t, issuer), newDevice("subject-of-ada", virtualwebauthn.KeyTypeEC2)
	u := enrolled(t, p, d)
	challenge := challengeOf(t)
	options, _ := p.RequestOptions(challenge)
	try := func(what string, u storage.User, challenge, answer []byte, reason string) {
		t.Helper()
		a, err := Read(answer)
		if err == nil {
			_, err = p.SignedIn(u, challenge, a)
		}
		mustRefuse(t, what, err, reason)
	}
	answer := d.sign(t, here, options)
	try("another challenge", u, challengeOf(t), answer, "another challenge")
	try("no challenge", u, nil, answer, "another challenge")
	try("a frame", u, challenge, edited(t, answer, func(data map[string]any) { data["crossOrigin"] = true }), "frame")
	try("a forged challenge", u, []byte("0123456789abcdef"), edited(t, answer, func(data map[string]any) {
		data["challenge"] = base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdef"))
	}), "")
	try("too long", u, challenge, bytes.Repeat([]byte(" "), MaxAnswer+1), "too long")
	long := base64.RawURLEncoding.EncodeToString(make([]byte, maxID+1))
	var named map[string]any
	if err := json.Unmarshal(answer, &named); err != nil {
		t.Fatal(err)
	}
	named["id"], named["rawId"] = long, long
	tooLong, err := json.Marshal(named)
	if err != nil {
		t.Fatal(err)
	}
	try("a name that is too long", u, challenge, tooLong, "too long")
	try("nonsense", u, challenge, []byte("[]"), "")
	try("another host", u, challenge, d.sign(t, virtualwebauthn.RelyingParty{ID: "example.com", Origin: here.Origin}, options), "RP Hash")
	try("another page", u, challenge, d.sign(t, virtualwebauthn.RelyingParty{ID: here.ID, Origin: "https://evil.example.org"}, options), "a page of")

	stranger := newDevice("subject-of-ada", virtualwebauthn.KeyTypeEC2)
	try("a passkey that is not enrolled", u, challenge, stranger.sign(t, here, options), "")
	stranger.key.ID = d.key.ID
	try("another key under the same id", u, challenge, stranger.sign(t, here, options), "")
	someoneElse := u
	someoneElse.Subject = "subject-of-bob"
	try("the passkey of another person", someoneElse, challenge, d.sign(t, here, options), "another person")

	d.Options.UserNotVerified = true
	try("without verification", u, challenge, d.sign(t, here, options), "User verification")
	d.Options.UserNotVerified, d.Options.UserNotPresent = false, true
	try("without presence", u, challenge, d.sign(t, here, options), "User presence")
	d.Options.UserNotPresent, d.Options.BackupEligible = false, true
	try("with another kind of backup", u, challenge, d.sign(t, here, options), "Backup")
}

// TestCounter: a counter must grow, unless it is always zero.
func TestCounter(t *testing.T) {
	for _, tt := range []struct {
		stored, signed uint32
		right          bool
	}{{0, 0, true}, {0, 1, true}, {7, 8, true}, {7, 7, false}, {7, 6, false}, {7, 0, false}} {
		p, d := party(t, issuer), newDevice("subject-of-ada", virtualwebauthn.KeyTypeEC2)
		u := enrolled(t, p, d)
		u.Passkeys[0].SignCount, d.key.Counter = tt.stored, tt.signed-1
		challenge := challengeOf(t)
		options, _ := p.RequestOptions(challenge)
		a, err := Read(d.sign(t, here, options))
		if err != nil {
			t.Fatal(err)
		}
		k, err := p.SignedIn(u, challenge, a)
		if (err == nil) != tt.right || tt.right && k.SignCount != tt.signed {
			t.Errorf("%d after %d: %v, stored as %d", tt.signed, tt.stored, err, k.SignCount)
		}
	}
}

func TestIssuers(t *testing.T) {
	for issuer, origin := range map[string]string{
		"https://auth.example.com": "https://auth.example.com", "https://auth.example.com:8443/a": "https://auth.example.com:8443",
		"https://auth.example.com:443": "https://auth.example.com", "http://localhost:8080": "http://localhost:8080",
	} {
		if p := party(t, issuer); p.origin != origin {
			t.Errorf("%s has the origin %s", issuer, p.origin)
		}
	}
	for _, issuer := range []string{"http://127.0.0.1:8080", "https://[::1]", "https://192.0.2.1"} {
		if _, err := New(issuer, "Notes"); !errors.Is(err, ErrNoDomain) {
			t.Errorf("%s: %v", issuer, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"id":"AQ","rawId":"AQ","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"","signature":""}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if a, err := Read(answer); err == nil {
			a.ID()
			a.Challenge()
		}
		CreationChallenge(answer)
	})
}
