package dcr

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// TestWeigh: the weight of a client is about the size of its record, whichever of its texts is long.
func TestWeigh(t *testing.T) {
	t.Parallel()
	ordinary := storage.Client{
		ID: "Mhiq1EVIA8RqukIwkorjnQ", Source: storage.ClientRegistered, RegistrationToken: storage.HashSecret("token"),
		Metadata: metadata.Client{RedirectURIs: []string{"http://127.0.0.1:33418/"}, ClientName: "Notes", TokenEndpointAuthMethod: "none", GrantTypes: []string{"authorization_code", "refresh_token"}},
	}
	about(t, "an ordinary client", ordinary)
	long := strings.Repeat("x", 20_000)
	for _, part := range []func(*storage.Client) reflect.Value{
		func(c *storage.Client) reflect.Value { return reflect.ValueOf(c).Elem() },
		func(c *storage.Client) reflect.Value { return reflect.ValueOf(&c.Metadata).Elem() },
	} {
		of := part(&storage.Client{}).Type()
		for i := range of.NumField() {
			c := ordinary
			if set(part(&c).Field(i), long) {
				about(t, of.Name()+"."+of.Field(i).Name, c)
			}
		}
	}
}

// set gives a long text to a field that clients fill, and reports whether it did.
func set(field reflect.Value, long string) bool {
	if !field.CanSet() {
		return false
	}
	switch field.Interface().(type) {
	case string:
		field.SetString(long)
	case []string:
		field.Set(reflect.ValueOf([]string{long, "more"}))
	case map[string]string:
		field.Set(reflect.ValueOf(map[string]string{"client_name#de": long}))
	case json.RawMessage:
		field.Set(reflect.ValueOf(json.RawMessage(`"` + long + `"`)))
	default:
		return false
	}
	return true
}

// about compares the weight with the size of the record.
func about(t *testing.T, what string, c storage.Client) {
	t.Helper()
	body, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := weigh(c); got < int64(len(body))*8/10 || got > int64(len(body))*12/10 {
		t.Errorf("%s weighs %d, and its record has %d bytes", what, got, len(body))
	}
}
