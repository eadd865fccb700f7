package registry_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"testing"

	"gatehouse.example/message/schema"
	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
)

// described returns the schema of a record, an item or a list as this registry serves it.
func described(t *testing.T, part string) *schema.Schema {
	t.Helper()
	var is struct {
		Defs json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(registry.Schema(), &is); err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile([]byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/`+part+`","$defs":`+string(is.Defs)+`}`), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUpstreamFollowsTheDescription validates the answers of the registry for tests against
// the schema, so that other tests run against realistic answers.
func TestUpstreamFollowsTheDescription(t *testing.T) {
	upstream := registrytest.New(t)
	upstream.Fill(3)
	record, err := os.ReadFile("testdata/records/remote.json")
	if err != nil {
		t.Fatal(err)
	}
	upstream.Publish(string(record))
	upstream.SetMeta("com.example/notes", "1.4.0-rc.1+build.7", "com.example.registry/rating", object{"stars": 4.5})
	upstream.SetStatus("com.example/server-000001", "1.0.0", registry.StatusDeprecated, "Use another one.")
	for path, component := range map[string]string{
		"/v0.1/servers":         "list",
		"/v0.1/servers?limit=2": "list",
		"/v0/servers?updated_since=2031-01-01T00:00:00Z":                "list",
		"/v0.1/servers/com.example%2Fnotes/versions":                    "list",
		"/v0.1/servers/com.example%2Fserver-000001/versions/latest":     "item",
		"/v0.1/servers/com.example%2Fnotes/versions/1.4.0-rc.1+build.7": "item",
	} {
		for _, form := range []registrytest.Form{registrytest.Official, registrytest.Both} {
			upstream.SetForm(form)
			status, _, body := get(t, upstream.URL()+path)
			if err := described(t, component).Validate(t.Context(), body); status != 200 || err != nil {
				t.Errorf("%s: %d %v\n%s", path, status, err, body)
			}
		}
	}
	if err := described(t, "list").Validate(t.Context(), []byte(`{"servers":[{"name":"a/b"}]}`)); err == nil {
		t.Error("the description refuses nothing")
	}
}

func get(t *testing.T, address string) (status int, header http.Header, body []byte) {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, body
}
