package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// usualGrant is a grant as a server stores it, with everything that a grant has, refreshed once.
func usualGrant() Grant {
	created := time.Date(2026, 11, 24, 8, 7, 6, 543_000_000, time.UTC)
	rotated := created.Add(10*24*time.Hour + 29*time.Minute)
	scopes := []string{"notes:read", "notes:write"}
	return Grant{
		ID: "AAECAwQFBgcICQoLDA0ODw", State: GrantActive, ClientID: "EBESExQVFhcYGRobHB0eHw", Subject: "ICEiIyQlJicoKSorLC0uLw", UserName: "reader",
		Access:    Access{{Resource: "https://notes.example.com/mcp", Scopes: scopes}},
		Resources: []string{"https://notes.example.com/mcp"}, Scopes: scopes, Audience: []string{"https://notes.example.com/mcp"},
		AuthTime: created.Add(-3 * time.Hour), Created: created, ClientName: "A client of a common length", From: "203.0.113.77",
		Code: HashSecret("code"), CodeExpires: created.Add(time.Minute), RedirectURI: "http://127.0.0.1:33418/callback",
		Challenge:   "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
		Refreshable: true, Generation: 1, Rotated: rotated, Seed: append(Sealed{sealedVersion}, bytes.Repeat([]byte{0xa5}, seedLen-1)...),
		Lifetime: Lifetime{Expires: created.Add(90*24*time.Hour + 3*time.Second), IdleExpires: rotated.Add(30 * 24 * time.Hour), AccessUntil: rotated.Add(630 * time.Second)},
		Lineage:  "0123456789abcdef0123456789abcdef01234567",
	}
}

// compact returns the compact body of g, after reading it again.
func compact(t testing.TB, g Grant) []byte {
	t.Helper()
	body, err := g.appendCompact(nil)
	if err != nil {
		t.Fatalf("%+v: %v", g, err)
	}
	back, err := grantOf(g.ID, body)
	if err != nil || !reflect.DeepEqual(back, g) {
		t.Fatalf("%x is read as %v\n%+v; want\n%+v", body, err, back, g)
	}
	return body
}

// TestCompactFields: every field of a grant is in the compact body, alone and with all others. One that
// is added is one for appendCompact and parseCompact too.
func TestCompactFields(t *testing.T) {
	compact(t, fullGrant(t))
	for _, base := range []Grant{{State: GrantCode}, usualGrant(), spentGrant()} {
		compact(t, base)
		eachField(t, reflect.ValueOf(&base).Elem(), func(field reflect.Value, n int) {
			before := reflect.New(field.Type()).Elem()
			before.Set(field)
			fillField(t, field, n)
			compact(t, base)
			field.SetZero()
			if base.State != "" {
				compact(t, base)
			}
			field.Set(before)
		})
	}
}

// TestCompactSize: the body of a grant with everything takes a third of its JSON, so that its record
// fits into 384 bytes of Redis, and one without pairs and names into 320. Beside the body are the
// operation (16), the head (29) and what Redis adds to a string (6).
func TestCompactSize(t *testing.T) {
	const beside = len(Version{}) + sealedLen + 6
	g := usualGrant()
	if n := len(compact(t, g)) + beside; n > 384 {
		t.Errorf("a grant with everything takes %d bytes", n)
	}
	if text, err := g.appendJSON(nil); err != nil || len(text) < 3*len(compact(t, g)) {
		t.Errorf("its JSON has %d bytes, %v, and its body %d", len(text), err, len(compact(t, g)))
	}
	g.Access, g.Audience, g.ClientName, g.From, g.Lineage, g.AuthTime = nil, nil, "", "", "", g.Created
	if n := len(compact(t, g)) + beside; n > 320 {
		t.Errorf("a grant without pairs and names takes %d bytes", n)
	}
}

// TestCompactTexts: texts of a known form take few bytes, and those that only look like one are kept as
// they are.
func TestCompactTexts(t *testing.T) {
	none := len(compact(t, Grant{State: GrantCode}))
	for text, want := range map[string]int{
		"":                                      0,
		"a":                                     1,
		"ICEiIyQlJicoKSorLC0uLw":                16,
		"ICEiIyQlJicoKSorLC0uLx":                22, // other bits at the end
		"ICEiIyQlJicoKSorLC0u\nw":               22,
		"ICEiIyQlJicoKSorLC0uL=":                22,
		"ICEiIyQlJicoKSorLC0u/w":                22,
		strings.Repeat("0f", 20):                20,
		strings.Repeat("0F", 20):                41,
		strings.Repeat("0f", 19) + "0g":         41,
		strings.Repeat("0f", 19):                39,
		"https://":                              8,
		"https://a":                             1,
		"http://127.0.0.1:80":                   2,
		"http://localhost:80":                   2,
		"http://localhost":                      16,
		"HTTPS://a":                             9,
		strings.Repeat("a", 31):                 31,
		strings.Repeat("a", 32):                 33,
		"\xff\x00{":                             3,
		"https://" + strings.Repeat("a", 1<<16): 1<<16 + 2,
	} {
		if n := len(compact(t, Grant{State: GrantCode, UserName: text})) - none; n != want {
			t.Errorf("%.50q takes %d bytes; want %d", text, n, want)
		}
		compact(t, Grant{State: GrantCode, Access: Access{{Resource: text, Scopes: []string{text, "other", text}}, {Resource: "https://b"}, {Resource: text}}})
		compact(t, Grant{State: GrantCode, Challenge: text, Resources: []string{text, text}, Scopes: []string{"a", text}, Audience: []string{"a"}})
	}
}

// TestCompactLists: lists that follow from the access take no bytes, and others that of numbers.
func TestCompactLists(t *testing.T) {
	g := usualGrant()
	g.Access = Access{{Resource: "r1", Scopes: []string{"read", "write", "profile"}}, {Resource: "r2", Scopes: []string{"profile", "admin"}}, {Resource: "r3"}}
	g.Resources, g.Scopes = g.Access.Resources(), g.Access.Scopes()
	g.Audience = g.Resources
	least := len(compact(t, g))
	for what, test := range map[string]struct {
		more   int
		change func(*Grant)
	}{
		"a scope less":         {4, func(g *Grant) { g.Scopes = g.Scopes[1:] }},
		"another order":        {5, func(g *Grant) { g.Scopes = slices.Clone(g.Scopes); slices.Reverse(g.Scopes) }},
		"one of the resources": {2, func(g *Grant) { g.Audience = g.Resources[1:2] }},
		"none of them":         {1, func(g *Grant) { g.Audience = nil }},
		"one beside them":      {7, func(g *Grant) { g.Resources = append(slices.Clone(g.Resources), "r4"); g.Audience = g.Resources }},
	} {
		other := g
		test.change(&other)
		if n := len(compact(t, other)) - least; n != test.more {
			t.Errorf("%s: %d bytes more; want %d", what, n, test.more)
		}
	}
	long := make([]string, 300)
	for i := range long {
		long[i] = fmt.Sprint("scope", i)
	}
	g.Access[2].Scopes = long
	compact(t, g)
}

// TestSecretsBesideTheUsual: secrets with the lengths of the usual ones are kept as they are, also if the
// seed has another version.
func TestSecretsBesideTheUsual(t *testing.T) {
	for _, version := range []byte{0, sealedVersion, paddedVersion, 255} {
		usual, spent := usualGrant(), spentGrant()
		usual.Seed[0], spent.Seed[0] = version, version
		compact(t, usual)
		compact(t, spent)
	}
}

// TestNothingIsShared: who appends to a part of a grant that was read changes no other part of it.
func TestNothingIsShared(t *testing.T) {
	for _, g := range []Grant{usualGrant(), spentGrant(), fullGrant(t)} {
		body := compact(t, g)
		back, err := grantOf(g.ID, body)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range [][]string{back.Access[0].Scopes, back.Resources, back.Scopes, back.Audience} {
			_ = append(list, "another")
		}
		for _, secret := range [][]byte{back.Code, back.Seed} {
			_ = append(secret, 0xff)
		}
		if !reflect.DeepEqual(back, g) {
			t.Errorf("it is\n%+v; want\n%+v", back, g)
		}
	}
}

// TestEmptyIsNone: an empty list is read as none, in both forms of grants that a store writes.
func TestEmptyIsNone(t *testing.T) {
	g := Grant{
		State: GrantCode, Access: Access{}, Resources: []string{}, Scopes: []string{}, Audience: []string{}, Code: SecretHash{}, Seed: Sealed{},
	}
	body, err := g.appendCompact(nil)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := grantOf("", body); err != nil || !reflect.DeepEqual(back, Grant{State: GrantCode}) {
		t.Errorf("%+v, %v", back, err)
	}
}

// TestTimesAreMilliseconds: what is stored has whole milliseconds in UTC, and so has what a process
// holds: no later read differs from it.
func TestTimesAreMilliseconds(t *testing.T) {
	g := fullGrant(t)
	at := time.Date(2026, 3, 4, 5, 6, 7, 89_999_999, time.FixedZone("", 3600))
	times := 0
	eachField(t, reflect.ValueOf(&g).Elem(), func(field reflect.Value, _ int) {
		if _, ok := field.Interface().(time.Time); ok {
			field.Set(reflect.ValueOf(at))
			times++
		}
	})
	want := at.UTC().Add(-999_999)
	for what, form := range map[string]form{"JSON": formPlain, "compact": formSealed} {
		body, err := encodeIn(form, g)
		if err != nil {
			t.Fatal(err)
		}
		back, err := grantOf(g.ID, body)
		if err != nil || !reflect.DeepEqual(back, g.inMilliseconds()) {
			t.Errorf("%s: %+v, %v; want %+v", what, back, err, g.inMilliseconds())
		}
		same := 0
		eachField(t, reflect.ValueOf(&back).Elem(), func(field reflect.Value, _ int) {
			if got, ok := field.Interface().(time.Time); ok && got == want {
				same++
			}
		})
		if same != times || times != 7 {
			t.Errorf("%s: %d of %d times are %v", what, same, times, want)
		}
	}
	for _, at := range []time.Time{{}, time.UnixMilli(0), time.UnixMilli(firstMilli + 1), time.UnixMilli(lastMilli), time.UnixMilli(-1)} {
		compact(t, Grant{State: GrantCode, Created: at.UTC(), AuthTime: at.UTC(), Lifetime: Lifetime{Expires: time.UnixMilli(lastMilli).UTC()}})
		compact(t, Grant{State: GrantCode, Rotated: at.UTC(), Lifetime: Lifetime{AccessUntil: time.UnixMilli(firstMilli + 1).UTC()}})
	}
}

// TestCompactIsStrict: of every body that differs in a byte, or is cut, nothing is read but a grant that
// has exactly that body.
func TestCompactIsStrict(t *testing.T) {
	for _, g := range []Grant{usualGrant(), spentGrant(), fullGrant(t)} {
		body := compact(t, g)
		for n := range body {
			if got, err := grantOf(g.ID, body[:n]); err == nil {
				t.Errorf("the first %d bytes are read as %+v", n, got)
			}
		}
		if _, err := grantOf(g.ID, append(slices.Clip(body), 0)); err == nil {
			t.Error("a byte behind the grant is accepted")
		}
		for i := range body {
			for change := range 255 {
				other := slices.Clone(body)
				other[i] ^= byte(change + 1)
				strictly(t, other)
			}
		}
	}
}

// strictly reads a body, and wants the one that is read to be written the same.
func strictly(t *testing.T, body []byte) {
	t.Helper()
	if len(body) > 0 && body[0] == '{' {
		return
	}
	g, err := grantOf("id", body)
	if err != nil {
		return
	}
	if again, err := g.appendCompact(nil); err != nil || !bytes.Equal(again, body) {
		t.Errorf("%x is read as %+v, which is %x, %v", body, g, again, err)
	}
}

// TestOtherBodies: what is not the one body of a grant is refused with a sentence.
func TestOtherBodies(t *testing.T) {
	g := Grant{State: GrantCode, UserName: "ICEiIyQlJicoKSorLC0uLx", Created: time.UnixMilli(77).UTC(), Generation: 1<<32 - 1}
	for what, change := range map[string]func([]byte) []byte{
		"nothing":         func([]byte) []byte { return nil },
		"another version": func(b []byte) []byte { b[0] = 2; return b },
		"the zero time in other words": func(b []byte) []byte {
			zero := binary.AppendUvarint(nil, uint64(-2*firstMilli))
			return bytes.Replace(b, []byte{155, 1}, zero, 1)
		},
		"a spent code in other words": func(b []byte) []byte { b[1] |= stateBits; return b },
		"a flag that does not fit": func(b []byte) []byte {
			b[1] ^= flagAudience
			return append(b, 0)
		},
		"a number with a byte too many": func(b []byte) []byte { return bytes.Replace(b, []byte{155, 1}, []byte{155, 129, 0}, 1) },
		"an id as text":                 func(b []byte) []byte { return bytes.Replace(b, []byte("Lx"), []byte("Lw"), 1) },
		"a number without an end":       func(b []byte) []byte { return append(b[:2], bytes.Repeat([]byte{255}, 12)...) },
		"a generation of 33 bits": func(b []byte) []byte {
			return bytes.Replace(b, binary.AppendUvarint(nil, 1<<32-1), binary.AppendUvarint(nil, 1<<32), 1)
		},
		"a long text": func(b []byte) []byte { return binary.AppendUvarint(append(b[:2], make([]byte, 7)...), 1<<63) },
		"a long list": func(b []byte) []byte { return binary.AppendUvarint(b[:len(b)-1], 1<<62) },
	} {
		body := change(compact(t, g))
		got, err := grantOf("id", body)
		if err == nil {
			t.Errorf("%s: %x is read as %+v", what, body, got)
		}
		if later := strings.Contains(fmt.Sprint(err), "version 2"); later != (what == "another version") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzCompact: what is read is written the same, and nothing panics.
func FuzzCompact(f *testing.F) {
	old := usualGrant()
	old.Access, old.Code, old.Seed = nil, nil, nil
	for _, g := range []Grant{usualGrant(), spentGrant(), fullGrant(f), {State: GrantRevoked, RevokedBecause: "why"}, old} {
		f.Add(compact(f, g))
	}
	f.Fuzz(func(t *testing.T, body []byte) { strictly(t, body) })
}

// FuzzCompactTexts: any texts and times are read as they were written.
func FuzzCompactTexts(f *testing.F) {
	f.Add("https://a", "ICEiIyQlJicoKSorLC0uLw", "read,write,read", int64(1), uint32(77), []byte("secret"))
	f.Add("", "\xff", ",,", int64(-1), uint32(0), []byte(nil))
	f.Fuzz(func(t *testing.T, a, b, list string, ms int64, n uint32, secret []byte) {
		at := time.UnixMilli(max(firstMilli, min(ms, lastMilli))).UTC()
		names := strings.Split(list, ",")
		g := Grant{
			ID: a, State: compactStates[n%3], ClientID: b, Subject: a, UserName: list, Created: at, Rotated: at.Add(time.Duration(n)).Truncate(time.Millisecond),
			Access: Access{{a, names}, {b, nil}, {b, names[1:]}}, Resources: []string{a, b, b}, Scopes: names, Challenge: b, RedirectURI: a,
			Generation: n, Refreshable: n&1 == 0, Unanswered: n&2 == 0, Code: secret, Lineage: Lineage(list),
		}
		if len(secret) == 0 {
			g.Code = nil
		}
		if len(names) == 1 {
			g.Access[2].Scopes = nil
		}
		strictly(t, compact(t, g))
	})
}

// BenchmarkGrantCodec is one grant written and read, as at a refresh.
func BenchmarkGrantCodec(b *testing.B) {
	g := usualGrant()
	for name, f := range map[string]form{"JSON": formPlain, "Compact": formSealed} {
		body, err := encodeIn(f, g)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/Write", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := encodeIn(f, g); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/Read", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := grantOf(g.ID, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
