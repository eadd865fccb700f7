package dcr_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"gatehouse.example/dcr"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

func Example() {
	backend, err := redis.Open(context.Background(), redis.Options{URL: "embedded:"})
	if err != nil {
		panic(err)
	}
	store, err := storage.New(backend, storage.Options{Issuer: "https://auth.example.com"})
	if err != nil {
		panic(err)
	}
	clients, err := dcr.New(dcr.Config{
		Store:    store,
		Endpoint: "https://auth.example.com/register",
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/register", clients.Register())
	mux.Handle("/register/{id}", clients.Configuration())

	request := httptest.NewRequest("POST", "/register", strings.NewReader(
		`{"redirect_uris": ["https://client.example.com/cb", "javascript:alert(1)"]}`))
	request.Header.Set("Content-Type", "application/json")
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	fmt.Println(response.Code, response.Body)
	// Output:
	// 400 {"error":"invalid_redirect_uri","error_description":"redirect_uris[1]: the scheme 'javascript' is never allowed"}
}
