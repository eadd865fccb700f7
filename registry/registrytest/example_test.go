package registrytest_test

import (
	"net/http"
	"testing"

	"gatehouse.example/registry/registrytest"
)

// This upstream answers 429 with Retry-After.
func ExampleNew() {
	test := func(t *testing.T) {
		upstream := registrytest.New(t)
		upstream.Add("com.example/notes", "1.0.0")
		upstream.Break(registrytest.Faults{Status: http.StatusTooManyRequests, RetryAfter: "120"})
		answer, err := http.Get(upstream.URL() + "/v0.1/servers") // the client under test
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusTooManyRequests {
			t.Errorf("the status is %s", answer.Status)
		}
	}
	_ = test // in a test file it would be func TestPatience(t *testing.T)
}
