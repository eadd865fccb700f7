package dcr_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// sink is a backend that only counts writes.
type sink struct {
	storage.Backend
	writes int
}

func (s *sink) Put(_ context.Context, put storage.Put) (storage.Item, error) {
	s.writes++
	return storage.Item{Data: put.Data, Version: put.Operation}, nil
}

// FuzzRegister posts any body. An accepted one is stored once, and its redirect URIs
// come back byte for byte, each of them acceptable by itself. A refused one is not
// stored and gets one of the registered codes.
func FuzzRegister(f *testing.F) {
	files, err := filepath.Glob("testdata/clients/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds: ", err)
	}
	for _, file := range files {
		seed, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(seed))
	}
	f.Add(`{"redirect_uris":["javascript:x"],"REDIRECT_URIS":["https://a.example.com/"]}`)
	f.Add(`{"redirect_uris":["com.example.app:/cb"],"jwks":{"keys":[{"kty":"EC"}]},"client_name":"\u202e"}`)
	backend := &sink{}
	store, err := storage.New(backend, storage.Options{})
	if err != nil {
		f.Fatal(err)
	}
	registry, err := dcr.New(dcr.Config{Store: store, Endpoint: registerURL, Scopes: []string{"notes:read"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		backend.writes = 0
		r := httptest.NewRequest(http.MethodPost, registerURL, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		a := serve(t, registry.Register(), r)
		if a.status == http.StatusCreated {
			assertFaithful(t, a, body, backend.writes)
			return
		}
		codes := []string{"invalid_redirect_uri", "invalid_client_metadata", "invalid_software_statement", "unapproved_software_statement"}
		if backend.writes != 0 || !slices.Contains(codes, a.text("error")) || (a.status != http.StatusBadRequest && a.status != http.StatusRequestEntityTooLarge) {
			t.Fatalf("status %d %s, %d writes", a.status, a.raw, backend.writes)
		}
	})
}

func assertFaithful(t *testing.T, a answer, body string, writes int) {
	t.Helper()
	var sent map[string]json.RawMessage
	var asked []string
	if json.Unmarshal([]byte(body), &sent) != nil || json.Unmarshal(sent["redirect_uris"], &asked) != nil {
		t.Fatalf("accepted %q", body)
	}
	var unique []string
	for _, uri := range asked {
		if !slices.Contains(unique, uri) {
			unique = append(unique, uri)
		}
		if _, err := metadata.ParseRedirect(uri); err != nil {
			t.Fatalf("accepted %q: %v", uri, err)
		}
	}
	if got := a.list("redirect_uris"); got != strings.Join(unique, " ") || writes != 1 {
		t.Fatalf("registered %q with %d writes, asked for %q", got, writes, asked)
	}
	for _, member := range []string{"client_id", "registration_client_uri", "registration_access_token", "token_endpoint_auth_method"} {
		if a.text(member) == "" {
			t.Fatalf("no %s in %s", member, a.raw)
		}
	}
	if a.body["jwks"] != nil || a.list("response_types") != "code" || !strings.HasPrefix(a.list("grant_types"), "authorization_code") {
		t.Fatalf("registered %s", a.raw)
	}
}
