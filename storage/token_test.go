package storage_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

const issuer = "https://issuer.example.com"

// now is the clock of these tests.
func now() time.Time { return time.Date(2031, time.March, 4, 5, 6, 7, 0, time.UTC) }

// counter is a predictable source of bytes: it counts.
type counter struct{ next byte }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = c.next
		c.next++
	}
	return len(p), nil
}

// newStore returns a Store on an embedded backend, with a fixed clock and predictable randomness.
func newStore(t testing.TB) (*storage.Store, storage.Backend) {
	t.Helper()
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := storage.New(backend, storage.Options{
		Issuer: issuer, MasterKeys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, Now: now, Rand: &counter{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, backend
}

// prepare returns a grant and its code.
func prepare(t testing.TB, s *storage.Store) (storage.Grant, string) {
	t.Helper()
	g, code, err := s.PrepareGrant(storage.NewGrant{
		ClientID: "client", Subject: "subject", Resources: []string{"https://notes.example.com/mcp"},
		Scopes: []string{"notes:read"}, AuthTime: now(), RedirectURI: "http://127.0.0.1/callback",
		Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", Refreshable: true, CodeTTL: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, code
}

// FuzzParseRefreshToken: a token that parses and is genuine is exactly the string that the server
// made for that generation, so a token has one spelling.
func FuzzParseRefreshToken(f *testing.F) {
	s, _ := newStore(f)
	g, code := prepare(f, s)
	for _, generation := range []uint32{0, 1, 1 << 31} {
		token, err := s.RefreshTokenOf(g, generation)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(token)
		f.Add(token + "=")
		f.Add(token[:40] + "\n" + token[40:])
		f.Add(token[:len(token)-1] + "B")
		f.Add(strings.Replace(token, "gate_rt_", "gate_ac_", 1))
	}
	f.Add(code)
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		parsed, ok := storage.ParseRefreshToken(token)
		if !ok {
			if parsed != (storage.RefreshToken{}) {
				t.Errorf("%q does not parse and is %+v", token, parsed)
			}
			return
		}
		genuine, err := s.Genuine(g, parsed)
		if err != nil {
			t.Fatal(err)
		}
		minted, err := s.RefreshTokenOf(g, parsed.Generation)
		if err != nil {
			t.Fatal(err)
		}
		if genuine != (token == minted) {
			t.Errorf("%q is genuine: %t; the token of generation %d is %q", token, genuine, parsed.Generation, minted)
		}
	})
}

// FuzzCodeGrant: a string that names a grant has one spelling, and only the code itself matches
// its hash.
func FuzzCodeGrant(f *testing.F) {
	s, _ := newStore(f)
	g, code := prepare(f, s)
	f.Add(code)
	f.Add(code + "=")
	f.Add(code[:20] + "\r\n" + code[20:])
	f.Add(code[:len(code)-1] + "A")
	f.Add(strings.ToUpper(code))
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := storage.CodeGrant(s)
		if matches := ok && id == g.ID && g.Code.Matches(s); matches != (s == code) {
			t.Errorf("%q is taken for the code: %t; the code is %q", s, matches, code)
		}
		if !ok {
			if id != "" {
				t.Errorf("%q names no grant and names %q", s, id)
			}
			return
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(s, "gate_ac_"))
		if err != nil || "gate_ac_"+base64.RawURLEncoding.EncodeToString(raw) != s {
			t.Errorf("%q is not the canonical spelling of its bytes", s)
		}
	})
}

func TestTokenForm(t *testing.T) {
	s, _ := newStore(t)
	g, code := prepare(t, s)
	token, err := s.RefreshTokenOf(g, 0)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := s.NewSecret("gate_x_")
	if err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		value, prefix string
		bytes         int
	}{
		"code": {code, "gate_ac_", 48}, "refresh token": {token, "gate_rt_", 52}, "secret": {secret, "gate_x_", 32}, "id": {g.ID, "", 16},
	} {
		body, ok := strings.CutPrefix(test.value, test.prefix)
		raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
		if !ok || err != nil || len(raw) != test.bytes {
			t.Errorf("the %s is %q; want %q and %d bytes in base64url", what, test.value, test.prefix, test.bytes)
		}
	}
}

// brokenRand is a source of randomness that fails.
type brokenRand struct{}

func (brokenRand) Read([]byte) (int, error) { return 0, fmt.Errorf("no entropy") }

// TestRandomFails: without randomness no secret is made.
func TestRandomFails(t *testing.T) {
	_, backend := newStore(t)
	s, err := storage.New(backend, storage.Options{Issuer: issuer, MasterKeys: [][]byte{make([]byte, 32)}, Now: now, Rand: brokenRand{}})
	if err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() (any, error){
		"NewID":        func() (any, error) { return s.NewID() },
		"NewSecret":    func() (any, error) { return s.NewSecret("x") },
		"Seal":         func() (any, error) { return s.Seal("kind", "id", nil) },
		"PrepareGrant": func() (any, error) { g, code, err := s.PrepareGrant(storage.NewGrant{}); return g.ID + code, err },
		"CreateClient": func() (any, error) { return nil, s.CreateClient(t.Context(), storage.Client{ID: "c"}) },
	} {
		if got, err := call(); err == nil || !strings.Contains(err.Error(), "no entropy") {
			t.Errorf("%s returned %v, %v; want an error", what, got, err)
		}
	}
}

// TestIDsCanBeNamed: an id is an argument of commands, not a flag.
func TestIDsCanBeNamed(t *testing.T) {
	s, _ := newStore(t)
	for range 5000 {
		id, err := s.NewID()
		if err != nil || len(id) != 22 || id[0] == '-' {
			t.Fatalf("the id %q, %v", id, err)
		}
	}
}
