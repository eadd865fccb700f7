package storage

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// spentGrant is usualGrant as a server stores it whose records are sealed: its code is spent, and its seed
// is under a pad.
func spentGrant() Grant {
	g := usualGrant()
	g.Seed = append(Sealed{paddedVersion}, bytes.Repeat([]byte{0xa5}, paddedLen-1)...)
	g.spend()
	return g
}

// TestSpentCode: a spent code and its verifier are recognised by sixteen bytes, and only both together.
func TestSpentCode(t *testing.T) {
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	g := spentGrant()
	if len(g.Code) != spentLen || g.Challenge != "" {
		t.Fatalf("a spent code is %x, its challenge %q", g.Code, g.Challenge)
	}
	for what, test := range map[string]struct {
		change         func(*Grant)
		code, verifier string
		want           bool
	}{
		"both":                       {nil, "code", verifier, true},
		"another code":               {nil, "Code", verifier, false},
		"no code":                    {nil, "", verifier, false},
		"another verifier":           {nil, "code", verifier + "A", false},
		"no verifier":                {nil, "code", "", false},
		"each in place of the other": {nil, verifier, "code", false},
		"another bit":                {func(g *Grant) { g.Code = slices.Clone(g.Code); g.Code[15] ^= 1 }, "code", verifier, false},
		"a byte less":                {func(g *Grant) { g.Code = g.Code[:15] }, "code", verifier, false},
		"a challenge beside it":      {func(g *Grant) { g.Challenge = usualGrant().Challenge }, "code", verifier, false},
		"nothing":                    {func(g *Grant) { g.Code = nil }, "", "", false},
	} {
		g := spentGrant()
		if test.change != nil {
			test.change(&g)
		}
		if got := g.ProvedBy(test.code, test.verifier); got != test.want {
			t.Errorf("%s: %t", what, got)
		}
	}
	for what, change := range map[string]func(*Grant){
		"no code":               func(g *Grant) { g.Code = nil },
		"a spent one":           func(g *Grant) { *g = spentGrant() },
		"no challenge":          func(g *Grant) { g.Challenge = "" },
		"not base64url":         func(g *Grant) { g.Challenge = strings.Repeat("=", challengeLen) },
		"other bits at its end": func(g *Grant) { g.Challenge = g.Challenge[:42] + "N" },
	} {
		g := usualGrant()
		change(&g)
		code, challenge := slices.Clone(g.Code), g.Challenge
		if g.spend(); !slices.Equal(g.Code, code) || g.Challenge != challenge {
			t.Errorf("%s: spending makes %x and %q of it", what, g.Code, g.Challenge)
		}
	}
}

// TestPad: a seed under a pad is opened by the key that its header names, for its own grant and issuer, and a
// grant has one pad under each key.
func TestPad(t *testing.T) {
	a, b := bytes.Repeat([]byte{1}, 32), append(bytes.Repeat([]byte{1}, 31), 2)
	open := func(issuer string, keys ...[]byte) *Store {
		sealer, err := newSealer(keys, issuer)
		if err != nil {
			t.Fatal(err)
		}
		return &Store{sealer: sealer}
	}
	const issuer, id = "https://auth.example.com", "AAECAwQFBgcICQoLDA0ODw"
	seed := [shortSeed]byte([]byte("sixteen bytes of"))
	padded := open(issuer, a).pad(id, seed)
	if bytes.Contains(padded, seed[:4]) || len(padded) != paddedLen || !slices.Equal(padded, open(issuer, a, b).pad(id, seed)) {
		t.Errorf("%q under a pad is %q", seed, padded)
	}
	for what, test := range map[string]struct {
		store    *Store
		kind, id string
		change   func(Sealed) Sealed
		want     string // the seed; "-" for another one, "" for an error
	}{
		"the key":           {store: open(issuer, a), want: string(seed[:])},
		"beside another":    {store: open(issuer, b, a), want: string(seed[:])},
		"another key":       {store: open(issuer, b)},
		"another issuer":    {store: open(issuer+"/", a), want: "-"},
		"another grant":     {store: open(issuer, a), id: "AAECAwQFBgcICQoLDA0ODg", want: "-"},
		"another kind":      {store: open(issuer, a), kind: kindUser},
		"another version":   {store: open(issuer, a), change: func(s Sealed) Sealed { s[0]++; return s }},
		"a byte less":       {store: open(issuer, a), change: func(s Sealed) Sealed { return s[:paddedLen-1] }},
		"a byte more":       {store: open(issuer, a), change: func(s Sealed) Sealed { return append(s, 0) }},
		"the name of a key": {store: open(issuer, a), change: func(s Sealed) Sealed { s[4]++; return s }},
	} {
		kind, of, sealed := kindGrant, id, slices.Clone(padded)
		if test.kind != "" {
			kind = test.kind
		}
		if test.id != "" {
			of = test.id
		}
		if test.change != nil {
			sealed = test.change(sealed)
		}
		got, err := test.store.Open(kind, of, sealed)
		switch {
		case test.want == "" && !errors.Is(err, ErrRecord), test.want != "" && err != nil, len(test.want) > 1 && string(got) != test.want, test.want == "-" && string(got) == string(seed[:]):
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	both := open(issuer, b, a)
	again := slices.Clone(padded)
	if changed, err := both.reseal(kindGrant, id, &again); !changed || err != nil || slices.Equal(again, padded) {
		t.Errorf("under another key: %t, %v, %x", changed, err, again)
	}
	if got, err := open(issuer, b).Open(kindGrant, id, again); err != nil || string(got) != string(seed[:]) {
		t.Errorf("the other key opens %q, %v", got, err)
	}
	if changed, err := both.reseal(kindGrant, id, &again); changed || err != nil {
		t.Errorf("under the first key already: %t, %v", changed, err)
	}
}

// TestKeysOfOneName: two master keys that records could not tell apart are refused, and the same key twice
// is not.
func TestKeysOfOneName(t *testing.T) {
	seen := map[[nameLen]byte][]byte{}
	for n := uint64(0); ; n++ {
		key := make([]byte, 32)
		putUint64(key, n)
		name := [nameLen]byte(keyName(key))
		other, found := seen[name]
		if !found {
			seen[name] = key
			continue
		}
		if _, err := newSealer([][]byte{other, key}, "issuer"); err == nil || !strings.Contains(err.Error(), "1 and 2") {
			t.Errorf("two keys with the name %x: %v", name, err)
		}
		if _, err := newSealer([][]byte{key, key}, "issuer"); err != nil {
			t.Errorf("one key twice: %v", err)
		}
		return
	}
}

// TestSpentTakesLess: the record of a spent grant with everything fits into 320 bytes of Redis, and of
// one without pairs, names and lineage into 256.
func TestSpentTakesLess(t *testing.T) {
	const beside = len(Version{}) + sealedLen + 4
	g := spentGrant()
	if n := len(compact(t, g)) + beside; n > 320 {
		t.Errorf("a grant with everything takes %d bytes", n)
	}
	g.Access, g.Audience, g.ClientName, g.From, g.Lineage, g.AuthTime = nil, nil, "", "", "", g.Created
	if n := len(compact(t, g)) + beside; n > 256 {
		t.Errorf("a grant without pairs and names takes %d bytes", n)
	}
	long := spentGrant()
	long.Seed = usualGrant().Seed
	revoked := spentGrant()
	revoked.State, revoked.RevokedBecause = GrantRevoked, "test"
	waits := spentGrant()
	waits.State, waits.CodeExpires = GrantCode, time.Time{}
	other := spentGrant()
	other.Seed[0] = sealedVersion
	for _, g := range []Grant{long, revoked, waits, other} {
		strictly(t, compact(t, g))
	}
}
