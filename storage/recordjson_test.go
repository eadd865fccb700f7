package storage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gatehouse.example/metadata"
)

// quickRecord is a record that is read without reflection.
type quickRecord interface{ readJSON(text string) bool }

// quickRecords are the records that are read without reflection, by kind.
var quickRecords = map[string]quickRecord{
	kindClient: &Client{}, kindUser: &User{}, kindSession: &Session{}, kindConsent: &Consent{}, kindTransaction: &Transaction{},
}

// fresh returns a new zero record of the same type.
func fresh(v quickRecord) quickRecord {
	return reflect.New(reflect.TypeOf(v).Elem()).Interface().(quickRecord)
}

// TestEveryFieldOfARecord: a new field of a record is one for readJSON too, and for appendJSON.
func TestEveryFieldOfARecord(t *testing.T) {
	for kind, record := range quickRecords {
		t.Run(kind, func(t *testing.T) {
			full, n := fresh(record), 0
			fillAll(t, reflect.ValueOf(full).Elem(), &n)
			quick(t, full)
			fields := reflect.ValueOf(full).Elem()
			for i := range fields.NumField() { // each without the others
				one := fresh(record)
				if field := reflect.ValueOf(one).Elem().Field(i); field.CanSet() {
					field.Set(fields.Field(i))
				}
				quick(t, one)
			}
		})
	}
}

// TestLateTimes: a year of five digits is not written.
func TestLateTimes(t *testing.T) {
	late := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, v := range []any{Client{Created: late}, Transaction{Created: late}} {
		if body, err := encodeIn(formSealed, v); err == nil {
			t.Errorf("%q", body)
		}
	}
}

// quick checks that a record is written as encoding/json writes it, and that this is read without
// encoding/json.
func quick(t *testing.T, v quickRecord) {
	t.Helper()
	want, wrong := json.Marshal(v)
	body, err := encodeIn(formSealed, reflect.ValueOf(v).Elem().Interface())
	if (err == nil) != (wrong == nil) || err == nil && string(body) != string(want) {
		t.Errorf("%v, %v:\n%s\n%s", err, wrong, body, want)
	}
	if err == nil && !same(t, v, body) {
		t.Errorf("another form: %s", body)
	}
}

// same compares readJSON with encoding/json, and reports whether it read the record, of the type of v.
func same(t *testing.T, v quickRecord, body []byte) bool {
	t.Helper()
	got, want := fresh(v), fresh(v)
	ok, err := got.readJSON(string(body)), json.Unmarshal(body, want)
	if ok && (err != nil || !reflect.DeepEqual(got, want)) {
		t.Errorf("%s: %+v, want %+v, %v", body, got, want, err)
	}
	got = fresh(v)
	if also := unmarshal(body, got); (also == nil) != (err == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%s, with encoding/json after it: %+v, %v, want %+v, %v", body, got, also, want, err)
	}
	return ok
}

// TestStoredRecordsAreRead: the records of every golden file are read as encoding/json reads them, and
// some of each kind without it.
func TestStoredRecordsAreRead(t *testing.T) {
	for kind, record := range quickRecords {
		read := 0
		for _, body := range storedBodies(t, kind) {
			if same(t, record, body) {
				read++
			}
		}
		if read == 0 {
			t.Errorf("%s: every record has another form", kind)
		}
	}
}

// storedBodies returns the bodies of the records of a kind in the golden files.
func storedBodies(t testing.TB, kind string) (bodies [][]byte) {
	t.Helper()
	files, err := filepath.Glob("testdata/records-*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files: ", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var records []struct {
			Kind string `json:"kind"`
			Data []byte `json:"data"`
		}
		if err := json.Unmarshal(raw, &records); err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			header := headerLen
			if r.Data[0] == sealedForm {
				header = sealedLen
			}
			if r.Kind == kind {
				bodies = append(bodies, r.Data[header:])
			}
		}
	}
	return bodies
}

// halfRead reads a half of everything.
type halfRead struct {
	A string `json:"a"`
}

func (h *halfRead) readJSON(string) bool {
	h.A = "half"
	return false
}

// TestNothingOfAHalfStays: what was read of a record in another form is not there when encoding/json
// begins.
func TestNothingOfAHalfStays(t *testing.T) {
	var h halfRead
	if err := unmarshal([]byte(`{}`), &h); err != nil || h.A != "" {
		t.Errorf("%+v, %v", h, err)
	}
}

// usual are records as most are.
func usual() map[string]quickRecord {
	at, id := time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC), "c5MBj0kJz2k0E3bZ4y2qEw"
	access := Access{{"https://mcp.example.com/mcp", []string{"notes:read", "notes:write"}}}
	return map[string]quickRecord{
		kindClient: &Client{
			ID: id, Source: ClientRegistered, Software: id, RegistrationToken: HashSecret("token"), Created: at, Expires: at,
			Metadata: metadata.Client{
				RedirectURIs: []string{"http://127.0.0.1/callback"}, TokenEndpointAuthMethod: metadata.AuthMethodNone, ResponseTypes: []string{"code"},
				GrantTypes: []string{"authorization_code", "refresh_token"}, ClientName: "A client", Scope: "notes:read notes:write",
			},
		},
		kindUser: &User{
			Name: "ann", Subject: id, Password: "$argon2id$v=19$m=19456,t=2,p=1$" + strings.Repeat("A", 22) + "$" + strings.Repeat("B", 43),
			Groups: []Membership{{"staff", id}}, Created: at,
		},
		kindSession: &Session{
			UserName: "ann", Subject: id, Method: "password", Browser: "Firefox on Linux", From: "127.0.0.0/24",
			AuthTime: at, Begun: at, Seen: at, IdleExpires: at, Expires: at,
		},
		kindConsent: &Consent{Subject: id, ClientID: id, ClientName: "A client", Given: []Remembered{
			{RedirectHost: "127.0.0.1", ClientDigest: id, Access: access, At: at, Until: at},
		}},
		kindTransaction: &Transaction{
			ClientID: id, ClientDigest: id, RedirectURI: "http://127.0.0.1:8080/callback", State: "0123456789abcdef",
			Challenge: strings.Repeat("A", 43), Access: access, Created: at, Expires: at,
		},
	}
}

// TestUsualRecordsAreReadQuickly: what is written now is read without encoding/json, which takes a
// multiple of the allocations.
func TestUsualRecordsAreReadQuickly(t *testing.T) {
	for kind, record := range usual() {
		quick(t, record)
		body, err := encodeIn(formSealed, reflect.ValueOf(record).Elem().Interface())
		if err != nil {
			t.Fatal(err)
		}
		here := testing.AllocsPerRun(10, func() { _ = unmarshal(body, fresh(record)) })
		there := testing.AllocsPerRun(10, func() { _ = json.Unmarshal(body, fresh(record)) })
		if here > there/2 {
			t.Errorf("%s: %v allocations, and %v with encoding/json", kind, here, there)
		}
	}
}

// BenchmarkUnmarshal reads the records of each page, here and with encoding/json.
func BenchmarkUnmarshal(b *testing.B) {
	for kind, record := range usual() {
		body, err := encodeIn(formSealed, reflect.ValueOf(record).Elem().Interface())
		if err != nil {
			b.Fatal(err)
		}
		for name, read := range map[string]func([]byte, any) error{"here": unmarshal, "encoding-json": json.Unmarshal} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := read(body, fresh(record)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// fillAll gives a value of its own to every exported field, with two elements in each slice.
func fillAll(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 3, 4, 5, 6, *n%60, *n*int(time.Millisecond), time.UTC)))
		return
	case json.RawMessage:
		v.SetBytes(fmt.Appendf(nil, `{"keys":[%d]}`, *n))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillAll(t, v.Field(i), n)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillAll(t, v.Index(0), n)
		fillAll(t, v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(fmt.Sprint("name ", *n)), reflect.ValueOf("<&> \u2028"))
	case reflect.String:
		v.SetString(fmt.Sprint(`"text" é & `, *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(uint64(*n % 256))
	default:
		t.Fatalf("a value of type %s: append it, read it, and fill it here", v.Type())
	}
}

// FuzzRecord: whatever a record says, readJSON reads it as encoding/json does or leaves it to that, and
// reads everything that is written.
func FuzzRecord(f *testing.F) {
	for kind := range quickRecords {
		for _, body := range storedBodies(f, kind) {
			f.Add(kind, string(body), 0, "", 0)
		}
	}
	for kind, record := range usual() {
		body, err := json.Marshal(record)
		if err != nil {
			f.Fatal(err)
		}
		for i, at := range []string{`{"`, `":"`, `","`, `2026`, `Z"`, `":[`, `"]`, `}`} {
			for _, insert := range []string{`\u0041`, "\xff", "é", "0", ".5", ",", "null", "+01:00", " ", `"`, "\n", "{}", "[]", "-0"} {
				f.Add(kind, string(body), strings.Index(string(body), at)+i%2, insert, 0)
				f.Add(kind, string(body), strings.Index(string(body), at), insert, len(at))
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind, body string, at int, insert string, remove int) {
		v := quickRecords[kind]
		if v == nil || at < 0 || at > len(body) || remove < 0 || remove > len(body)-at {
			return
		}
		changed := []byte(body[:at] + insert + body[at+remove:])
		same(t, v, changed)
		read := fresh(v)
		shallow := bytes.Count(changed, []byte("{"))+bytes.Count(changed, []byte("[")) < 64
		if json.Unmarshal(changed, read) == nil && shallow {
			quick(t, read)
		}
	})
}
