//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

var loopbackPort = regexp.MustCompile(`^(http://(?:127\.0\.0\.1|localhost)):\d+`)

// checkProfile compares the registration of a client with its profile, which the tests of the
// authorization server use. Ports of loopback URLs may differ.
func checkProfile(t *testing.T, record *tape, name string) {
	t.Helper()
	file := filepath.Join("../../dcr/testdata/clients", name+".json")
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	sent := record.all("/register")
	if len(sent) == 0 {
		t.Error("nobody registered")
	}
	for _, h := range sent {
		if got, want := withoutPorts(t, h.body), withoutPorts(t, string(recorded)); !reflect.DeepEqual(got, want) {
			t.Errorf("it registers with\n%s\n%s has\n%s", h.body, file, recorded)
		}
	}
}

func withoutPorts(t *testing.T, body string) (members map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	var anyPort func(v any) any
	anyPort = func(v any) any {
		switch v := v.(type) {
		case string:
			return loopbackPort.ReplaceAllString(v, "$1")
		case []any:
			for i := range v {
				v[i] = anyPort(v[i])
			}
		}
		return v
	}
	for name, v := range members {
		members[name] = anyPort(v)
	}
	return members
}
