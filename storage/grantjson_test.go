package storage

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fullGrant returns a grant with another value in every field.
func fullGrant(t testing.TB) Grant {
	t.Helper()
	var g Grant
	eachField(t, reflect.ValueOf(&g).Elem(), func(v reflect.Value, n int) { fillField(t, v, n) })
	return g
}

// eachField calls do for every exported field of a grant, those of parts included, with its number.
func eachField(t testing.TB, grant reflect.Value, do func(v reflect.Value, n int)) {
	t.Helper()
	n := 0
	for _, field := range reflect.VisibleFields(grant.Type()) {
		if field.IsExported() && !field.Anonymous {
			n++
			do(grant.FieldByIndex(field.Index), n)
		}
	}
}

// fillField gives the value of a number to a field; one of a new type is an error.
func fillField(t testing.TB, v reflect.Value, n int) {
	t.Helper()
	if _, ok := v.Interface().(time.Time); ok {
		v.Set(reflect.ValueOf(time.Date(2026, 3, 4, 5, 6, n, 89_000_000, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillField(t, v.Field(i), 10*n+i)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("x ", n))
		if v.Type() == reflect.TypeFor[GrantState]() {
			v.SetString(string(GrantActive))
		}
	case reflect.Uint32, reflect.Uint8:
		v.SetUint(uint64(77 + n%100))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillField(t, v.Index(i), 10*n+i)
		}
	default:
		t.Fatalf("a field of type %s: append it and read it, as JSON and compact", v.Type())
	}
}

// TestEveryFieldOfAGrant: a new field of a grant is one for appendJSON and parseGrant too. So it is for
// the compact body: see TestCompactFields.
func TestEveryFieldOfAGrant(t *testing.T) {
	for _, g := range []Grant{fullGrant(t), {}, {Refreshable: true, Resources: []string{}, Code: SecretHash{}, Access: Access{{}}}} {
		want, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.appendJSON(nil)
		if err != nil || string(got) != string(want) {
			t.Errorf("%v:\n%s\n%s", err, got, want)
		}
		if back, ok := parseGrant(want); !ok || !reflect.DeepEqual(back, g) {
			t.Errorf("%t: %+v, want %+v", ok, back, g)
		}
	}
	late := fullGrant(t)
	late.Created = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, f := range []form{formPlain, formSealed} {
		if body, err := encodeIn(f, late); err == nil {
			t.Errorf("a year of five digits: %q", body)
		}
	}
}

// TestStoredGrantsAreParsed: the grants of every golden file are read as encoding/json reads them, and
// those of the present form without it. Compact bodies are written again as they are.
func TestStoredGrantsAreParsed(t *testing.T) {
	parsed, compact := 0, 0
	for _, body := range storedBodies(t, kindGrant) {
		switch {
		case body[0] == compactBody:
			strictly(t, body)
			compact++
		case sameGrant(t, body):
			parsed++
		}
	}
	if parsed == 0 || compact == 0 {
		t.Errorf("%d grants were parsed as JSON, and %d were compact", parsed, compact)
	}
}

// sameGrant compares parseGrant with encoding/json, and reports whether it read the grant.
func sameGrant(t *testing.T, body []byte) bool {
	t.Helper()
	got, ok := parseGrant(body)
	if !ok {
		return false
	}
	var want Grant
	if err := json.Unmarshal(body, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v, %v", body, got, want, err)
	}
	again, err := got.appendJSON(nil)
	if theirs, _ := json.Marshal(got); err != nil || string(again) != string(theirs) {
		t.Errorf("%s, %v; want %s", again, err, theirs)
	}
	return true
}

// FuzzGrant: what parseGrant reads, encoding/json reads, and as the same.
func FuzzGrant(f *testing.F) {
	g := fullGrant(f)
	body, err := g.appendJSON(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(body), 0, "", 0)
	for _, at := range []string{`"x `, fmt.Sprint(g.Generation), `true`, `2026`, `Z"`, `[`, base64.StdEncoding.EncodeToString(g.Code), `}`} {
		for _, insert := range []string{`\u0041`, "\xff", "0", ".5", ",", "null", "+01:00", " ", `"`, "=", "\n", "{}"} {
			f.Add(string(body), strings.Index(string(body), at), insert, 0)
			f.Add(string(body), strings.Index(string(body), at), insert, len(at))
		}
	}
	f.Fuzz(func(t *testing.T, body string, at int, insert string, remove int) {
		if at < 0 || at > len(body) || remove < 0 || remove > len(body)-at {
			return
		}
		sameGrant(t, []byte(body[:at]+insert+body[at+remove:]))
	})
}
