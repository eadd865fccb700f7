package metadata_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"gatehouse.example/metadata"
)

// TestEveryMemberOfAClient: a new member of a client is one for AppendJSON and ReadJSON too.
func TestEveryMemberOfAClient(t *testing.T) {
	var c metadata.Client
	for i := range reflect.TypeOf(c).NumField() {
		switch field := reflect.ValueOf(&c).Elem().Field(i); field.Interface().(type) {
		case string:
			field.SetString(reflect.TypeOf(c).Field(i).Name)
		case []string:
			field.Set(reflect.ValueOf([]string{"a", "<&>"}))
		case bool:
			field.SetBool(true)
		case json.RawMessage:
			field.SetBytes([]byte(` { "keys" : [ "<" ] } `))
		default:
			t.Fatalf("a member of type %s: append it, read it, and fill it here", field.Type())
		}
		sameClient(t, c)
	}
	sameClient(t, metadata.Client{})
	if _, err := (metadata.Client{JWKS: json.RawMessage(`{`)}).AppendJSON(nil); err == nil {
		t.Error("keys that are no JSON were appended")
	}
}

func sameClient(t *testing.T, c metadata.Client) {
	t.Helper()
	want, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.AppendJSON([]byte("before")); err != nil || string(got) != "before"+string(want) {
		t.Errorf("%v:\n%s\n%s", err, got, want)
	}
	if !readsTheSame(t, string(want)) {
		t.Errorf("another form: %s", want)
	}
}

// readsTheSame compares ReadJSON with encoding/json, and reports whether it read a client and nothing
// follows.
func readsTheSame(t *testing.T, text string) bool {
	t.Helper()
	var got, want metadata.Client
	rest, ok := got.ReadJSON(text)
	if !ok || rest != "" {
		return false
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v, %v", text, got, want, err)
	}
	return true
}

// FuzzClient: whatever a client states, AppendJSON writes it as encoding/json does, and ReadJSON reads it as
// that does or not at all.
func FuzzClient(f *testing.F) {
	f.Add(`{"redirect_uris":["http://127.0.0.1/","com.example.app:/?a&b"],"client_name":"\u2028\ud83d\ude00<","jwks":{"keys":[ ]},"scope":"a b"}`)
	f.Add(`{"redirect_uris":[],"contacts":[""],"jwks":null,"dpop_bound_access_tokens":true,"tls_client_certificate_bound_access_tokens":true,"require_pushed_authorization_requests":true,"require_signed_request_object":true}`)
	f.Fuzz(func(t *testing.T, stated string) {
		readsTheSame(t, stated)
		var c metadata.Client
		if json.Unmarshal([]byte(stated), &c) == nil && len(c.JWKS) < 64 { // deeper keys are left to encoding/json
			sameClient(t, c)
		}
	})
}
