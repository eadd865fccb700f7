package storagetest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/storage"
)

// testNothingInTheClear looks for secrets in everything that was written.
func testNothingInTheClear(t *testing.T, f *fixture) {
	g, code := f.grant(t, true)
	g, err := f.Redeem(t.Context(), g, f.life())
	wantError(t, "Redeem", err, nil)
	wantError(t, "CreateSession", f.CreateSession(t.Context(), "the cookie's value", storage.Session{Expires: f.clock.later()}), nil)
	seed, err := f.Open("grant", g.ID, g.Seed)
	wantError(t, "Open", err, nil)
	sealed, err := f.SealKey("k", []byte("the private key"))
	wantError(t, "SealKey", err, nil)
	wantError(t, "SwapKeySet", f.SwapKeySet(t.Context(), storage.KeySet{
		Keys: []storage.SigningKey{{ID: "k", Public: []byte("{}"), Private: sealed}},
	}), nil)
	initial := f.minted(t, 1)
	wantError(t, "UseInitialToken", f.UseInitialToken(t.Context(), f.initialToken(t, initial)), nil)
	secrets := []string{initial, code, f.token(t, g, 0), f.token(t, g, 1), "the cookie's value", string(seed), "the private key"}
	for _, written := range f.backend.writes() {
		for _, secret := range secrets {
			if strings.Contains(written.Key, secret) || bytes.Contains(written.Data, []byte(secret)) {
				t.Errorf("%q can be read under %q", secret, written.Key)
			}
		}
	}
}

// token derives a refresh token.
func (f *fixture) token(t *testing.T, g storage.Grant, generation uint32) string {
	t.Helper()
	token, err := f.RefreshTokenOf(g, generation)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func testSealed(t *testing.T, f *fixture) {
	sealed, err := f.Seal("kind", "id", []byte("secret"))
	wantError(t, "Seal", err, nil)
	again, err := f.Seal("kind", "id", []byte("secret"))
	wantError(t, "Seal", err, nil)
	if bytes.Equal(sealed, again) || bytes.Contains(sealed, []byte("secret")) {
		t.Error("a sealed value gives something away")
	}
	for _, value := range []storage.Sealed{sealed, again} {
		if got, err := f.Open("kind", "id", value); err != nil || string(got) != "secret" {
			t.Errorf("Open returned %q, %v; want what was sealed", got, err)
		}
	}
	refused := func(what string, s *storage.Store, kind, id string, value storage.Sealed) {
		t.Helper()
		if got, err := s.Open(kind, id, value); !errors.Is(err, storage.ErrRecord) || got != nil {
			t.Errorf("%s: Open returned %q, %v; want %v", what, got, err, storage.ErrRecord)
		}
	}
	refused("another kind", f.Store, "kin", "id", sealed)
	refused("another id", f.Store, "kind", "ie", sealed)
	refused("kind and id cut elsewhere", f.Store, "kindi", "d", sealed)
	refused("another issuer", f.store(t, issuer+"/", f.keys...), "kind", "id", sealed)
	refused("another key", f.store(t, issuer, masterKey()), "kind", "id", sealed)
	refused("more behind it", f.Store, "kind", "id", append(slices.Clone(sealed), 0))
	for i := range sealed {
		changed := slices.Clone(sealed)
		changed[i] ^= 1
		refused(name("byte %d changed", i), f.Store, "kind", "id", changed)
		refused(name("cut after %d bytes", i), f.Store, "kind", "id", sealed[:i])
	}
	none := f.store(t, issuer)
	_, err = none.Seal("kind", "id", nil)
	wantError(t, "Seal without a key", err, storage.ErrNoMasterKey)
	_, err = none.Open("kind", "id", sealed)
	wantError(t, "Open without a key", err, storage.ErrNoMasterKey)

	// The seed of a grant says nothing in another grant. Its record has a seal that says so too.
	one, two := f.active(t), f.active(t)
	tokens := []string{f.token(t, one, 0), f.token(t, two, 0)}
	one.Seed, two.Seed = two.Seed, one.Seed
	for _, g := range []storage.Grant{one, two} {
		for _, text := range tokens {
			token, ok := storage.ParseRefreshToken(text)
			if !ok {
				t.Fatal("a refresh token does not parse")
			}
			genuine, err := f.Genuine(g, token)
			wantError(t, "Genuine with a swapped seed", err, nil)
			if genuine {
				t.Error("a token is genuine with a swapped seed")
			}
		}
		if token := f.token(t, g, 0); slices.Contains(tokens, token) {
			t.Errorf("with a swapped seed the token is %q", token)
		}
	}
}

// testMasterKeys: the first key seals, all open, and the error names a missing key.
func testMasterKeys(t *testing.T, f *fixture) {
	old, fresh := f.keys[0], masterKey()
	sealed, err := f.Seal("kind", "id", []byte("secret"))
	wantError(t, "Seal", err, nil)
	both := f.store(t, issuer, fresh, old)
	if got, err := both.Open("kind", "id", sealed); err != nil || string(got) != "secret" {
		t.Errorf("after a key was added, Open returned %q, %v", got, err)
	}
	resealed, err := both.Seal("kind", "id", []byte("secret"))
	wantError(t, "Seal", err, nil)
	onlyFresh := f.store(t, issuer, fresh)
	if got, err := onlyFresh.Open("kind", "id", resealed); err != nil || string(got) != "secret" {
		t.Errorf("after the old key was dropped, Open returned %q, %v", got, err)
	}
	_, err = onlyFresh.Open("kind", "id", sealed)
	wantError(t, "Open of what the dropped key sealed", err, storage.ErrRecord)
	_, err = f.Open("kind", "id", resealed)
	wantError(t, "Open of what the new key sealed, without it", err, storage.ErrRecord)
	for _, n := range []int{0, 16, 31, 33, 64} {
		if _, err := storage.New(f.faults, storage.Options{Issuer: issuer, MasterKeys: [][]byte{old, make([]byte, n)}}); err == nil {
			t.Errorf("a master key of %d bytes is accepted", n)
		}
	}
}

func testRefreshToken(t *testing.T, f *fixture) {
	g := f.active(t)
	seen := map[string]bool{}
	for _, generation := range []uint32{0, 1, 2, 255, 256, 1 << 24, 1<<32 - 1} {
		token := f.token(t, g, generation)
		if seen[token] || f.token(t, g, generation) != token {
			t.Errorf("generation %d has no token of its own", generation)
		}
		seen[token] = true
		parsed, ok := storage.ParseRefreshToken(token)
		if !ok || parsed.GrantID != g.ID || parsed.Generation != generation {
			t.Errorf("ParseRefreshToken returned %q, %d, %t; want %q, %d", parsed.GrantID, parsed.Generation, ok, g.ID, generation)
		}
		if genuine, err := f.Genuine(g, parsed); !genuine || err != nil {
			t.Errorf("Genuine returned %t, %v for generation %d", genuine, err, generation)
		}
	}
	// Rotating, sealing again and another first key change no token.
	token := f.token(t, g, 7)
	rotated, err := f.Rotate(t.Context(), g, f.life())
	wantError(t, "Rotate", err, nil)
	both := f.store(t, issuer, masterKey(), f.keys[0])
	resealed := f.read(t, g.ID)
	seed, err := both.Open("grant", g.ID, resealed.Seed)
	wantError(t, "Open", err, nil)
	resealed.Seed, err = both.Seal("grant", g.ID, seed)
	wantError(t, "Seal", err, nil)
	for what, got := range map[string]func() (string, error){
		"after a rotation":    func() (string, error) { return f.RefreshTokenOf(rotated, 7) },
		"under a new key":     func() (string, error) { return both.RefreshTokenOf(g, 7) },
		"after sealing again": func() (string, error) { return both.RefreshTokenOf(resealed, 7) },
	} {
		if got, err := got(); got != token || err != nil {
			t.Errorf("%s the token is %q, %v; want %q", what, got, err, token)
		}
	}
}

// spellings returns strings that look like token and differ from it.
func spellings(token string) []string {
	list := []string{
		"", token + "A", token + "=", token + "\n", token + "\r\n", "\n" + token, token + " ", " " + token, token + "\x00",
		token + token, strings.ToUpper(token), strings.Replace(token, "_", "-", 1), token[1:],
		strings.NewReplacer("-", "+", "_", "/").Replace(token),
	}
	for i := range token {
		list = append(list, token[:i], token[:i]+"\r\n"+token[i:], token[:i]+"\n"+token[i+1:])
		for _, breaks := range []string{"\r\n", "\n\n\n\n"} { // of the same length, shorter when decoded
			if rest := i + len(breaks); rest <= len(token) {
				list = append(list, token[:i]+breaks+token[rest:])
			}
		}
		for _, c := range []byte("AB-_9z") {
			if token[i] != c {
				list = append(list, token[:i]+string(c)+token[i+1:])
			}
		}
	}
	// The last character carries bits that a lenient decoder ignores.
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		list = append(list, token[:len(token)-1]+string(c))
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == token })
}

func testRefreshTokenForged(t *testing.T, f *fixture) {
	g, other := f.active(t), f.active(t)
	token := f.token(t, g, 3)
	forged := spellings(token)
	code, err := f.NewSecret("gate_rt_")
	wantError(t, "NewSecret", err, nil)
	forged = append(forged, code, f.token(t, other, 3), crossed(token, f.token(t, g, 4)), crossed(token, f.token(t, other, 3)))
	for _, s := range forged {
		parsed, ok := storage.ParseRefreshToken(s)
		if !ok {
			continue
		}
		genuine, err := f.Genuine(g, parsed)
		wantError(t, "Genuine", err, nil)
		if genuine {
			t.Errorf("%q is genuine; the token is %q", s, token)
		}
	}
	parsed, _ := storage.ParseRefreshToken(token)
	if genuine, err := f.Genuine(other, parsed); genuine || err != nil {
		t.Errorf("a token of another grant: Genuine returned %t, %v", genuine, err)
	}
	if genuine, err := f.Genuine(g, storage.RefreshToken{GrantID: g.ID}); genuine || err != nil {
		t.Errorf("a token without MAC: Genuine returned %t, %v", genuine, err)
	}
	elsewhere := f.store(t, "https://other.example.com", f.keys...)
	genuine, err := elsewhere.Genuine(g, parsed)
	wantError(t, "Genuine at another issuer", err, nil)
	if genuine {
		t.Error("a token of another issuer is genuine")
	}
}

// crossed returns the front of one token with the MAC of another.
func crossed(front, mac string) string {
	cut := len(front) - 40
	return front[:cut] + mac[cut:]
}

func testCodeForged(t *testing.T, f *fixture) {
	g, code := f.grant(t, true)
	_, other := f.grant(t, true)
	if id, ok := storage.CodeGrant(code); !ok || id != g.ID || !g.Code.Matches(code) {
		t.Fatal("a code does not lead to its grant")
	}
	for _, s := range append(spellings(code), other, crossed(code, other), f.token(t, g, 0)) {
		if id, ok := storage.CodeGrant(s); ok && id == g.ID && g.Code.Matches(s) {
			t.Errorf("%q is taken for the code %q", s, code)
		}
	}
	if (storage.SecretHash)(nil).Matches("") || storage.HashSecret("a")[:31].Matches("a") {
		t.Error("an empty or cut hash matches")
	}
}
