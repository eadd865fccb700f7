package serve_test

import (
	"fmt"
	"testing"

	"gatehouse.example/registry/serve"
)

// TestPagesAreTheirOwn: a page that is kept stays as it is while others are written, smaller and
// larger ones.
func TestPagesAreTheirOwn(t *testing.T) {
	d := newDesk(t, serve.Config{})
	for i := range 20 {
		d.commit(rowOf(fmt.Sprintf("com.example/notes-%02d", i), "1.0.0"))
	}
	paths := []string{"/v0.1/servers?limit=10", "/v0.1/servers?limit=20", "/v0.1/servers?limit=5", "/v0.1/servers?limit=10&shape=wrapped"}
	first := map[string]string{}
	for range 2 {
		for _, path := range paths {
			body := d.get(path).Body.String()
			if was := first[path]; was != "" && was != body {
				t.Errorf("%s was %s and is %s", path, was, body)
			}
			first[path] = body
		}
	}
}
