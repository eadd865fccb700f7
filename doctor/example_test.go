package doctor_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"gatehouse.example/doctor"
)

// A server tests itself: this one refuses requests without a token, but does not say where
// tokens come from.
func ExampleCheck() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	report, err := doctor.Check(context.Background(), server.URL+"/mcp", doctor.Options{})
	if err != nil {
		panic(err)
	}
	for _, f := range report.Findings {
		if f.Severity == doctor.Error {
			fmt.Println(f.ID)
		}
	}
	// Output:
	// resource-metadata-missing
}
