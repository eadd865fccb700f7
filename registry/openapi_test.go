package registry_test

import (
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"

	"gatehouse.example/message/schema"
	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
)

// components are the schemas of the interface as it is described officially.
var components = sync.OnceValues(func() (json.RawMessage, error) {
	description, err := os.ReadFile("testdata/openapi.yaml")
	if err != nil {
		return nil, err
	}
	document, err := yaml.YAMLToJSON(description)
	if err != nil {
		return nil, err
	}
	var is struct{ Components json.RawMessage }
	return is.Components, json.Unmarshal(document, &is)
})

// openAPI returns the schema of a component of the official description, such as ServerList.
func openAPI(t *testing.T, component string) *schema.Schema {
	t.Helper()
	all, err := components()
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile([]byte(`{"$ref":"#/components/schemas/`+component+`","components":`+string(all)+`}`), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUpstreamFollowsTheDescription holds the registry for tests against the description,
// so that what is tested with it is what a registry answers.
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
		"/v0.1/servers":         "ServerList",
		"/v0.1/servers?limit=2": "ServerList",
		"/v0/servers?updated_since=2031-01-01T00:00:00Z":                "ServerList",
		"/v0.1/servers/com.example%2Fnotes/versions":                    "ServerList",
		"/v0.1/servers/com.example%2Fserver-000001/versions/latest":     "ServerResponse",
		"/v0.1/servers/com.example%2Fnotes/versions/1.4.0-rc.1+build.7": "ServerResponse",
	} {
		for _, form := range []registrytest.Form{registrytest.Official, registrytest.Both} {
			upstream.SetForm(form)
			status, _, body := get(t, upstream.URL()+path)
			if err := openAPI(t, component).Validate(t.Context(), body); status != 200 || err != nil {
				t.Errorf("%s: %d %v\n%s", path, status, err, body)
			}
		}
	}
	if err := openAPI(t, "ServerList").Validate(t.Context(), []byte(`{"servers":[{"name":"a/b"}]}`)); err == nil {
		t.Error("the description refuses nothing")
	}
}
