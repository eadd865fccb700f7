package keyring

import (
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"strconv"
	"testing"
)

// TestVerifiedIsBounded: any number of tokens leaves a fixed number remembered, among them the last
// ones and one that is asked for again and again; long tokens are not remembered.
func TestVerifiedIsBounded(t *testing.T) {
	var v verified
	often := digestOf("often")
	v.add(often, 1, &signedClaims{keyID: "often"})
	for i := range 3 * maxVerified {
		v.add(digestOf(strconv.Itoa(i)), 1, &signedClaims{keyID: strconv.Itoa(i)})
		if known := v.get(often); known == nil || known.keyID != "often" {
			t.Fatalf("after %d others it is forgotten", i)
		}
	}
	if kept := len(v.newer) + len(v.older); kept > maxVerified {
		t.Errorf("%d tokens are remembered", kept)
	}
	for i := 3*maxVerified - maxVerified/4; i < 3*maxVerified; i++ {
		if known := v.get(digestOf(strconv.Itoa(i))); known == nil || known.keyID != strconv.Itoa(i) {
			t.Fatalf("token %d of the last ones is %v", i, known)
		}
	}
	if v.get(digestOf("0")) != nil {
		t.Error("the first one is remembered")
	}
	v.add([sha256.Size]byte{}, maxVerifiedToken+1, &signedClaims{})
	if v.get([sha256.Size]byte{}) != nil {
		t.Error("a long token is remembered")
	}
}

// FuzzClaims: claims are written as encoding/json writes them, and read back as they were.
func FuzzClaims(f *testing.F) {
	f.Add("https://auth.example.com", "a", "b", "c d", int64(1), byte(0))
	f.Add("", "", "", "", int64(0), byte(1))
	f.Add("https://auth.example.com", "a", "b", "c d", int64(1), byte(5))
	f.Add(`<>&"\`, "\xff", "\u2028", "ü\x00", int64(-1), byte(0xff))
	f.Fuzz(func(t *testing.T, issuer, a, b, scope string, n int64, has byte) {
		c := Claims{Issuer: issuer, Subject: a, Audience: Audience{a, b}, Expires: n, IssuedAt: -n, ID: b, ClientID: a, Scope: scope, AuthTime: n, GrantID: b}
		if has&1 != 0 {
			c.Audience = c.Audience[:1]
		}
		if has&2 != 0 {
			c.About = About{Groups: []string{a, b}, GroupsOverage: true, Email: a, Name: b}
		}
		if has&4 != 0 {
			c.Groups, c.AuthTime = []string{}, 0
		}
		if has&8 != 0 {
			c.Audience = nil
		}
		want, wrong := json.Marshal(c)
		got, err := c.append(nil)
		if (err == nil) != (wrong == nil) || string(got) != string(want) {
			t.Errorf("%s, %v; want %s, %v", got, err, want, wrong)
		}
	})
}

// TestEveryClaimIsWritten: a new field of the claims is one for [Claims.append] too.
func TestEveryClaimIsWritten(t *testing.T) {
	var full Claims
	fill(t, reflect.ValueOf(&full).Elem())
	want, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := full.append(nil); err != nil || string(got) != string(want) {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// fill gives every field a value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.ValueOf([]string{"x", "y"}).Convert(v.Type()))
	default:
		t.Fatalf("a field of type %s: write it here", v.Type())
	}
}
