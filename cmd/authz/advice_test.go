package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"gatehouse.example/authz/admin"
	"gatehouse.example/authz/upstream"
	"gatehouse.example/storage"
	"gatehouse.example/storage/redis"
)

// TestAdviceOnPeople: as long as nobody is there, the start names the command for the first person,
// where it works: not with a store that no command reaches, and not where providers bring people.
func TestAdviceOnPeople(t *testing.T) {
	t.Parallel()
	backend, err := redis.Open(t.Context(), redis.Options{URL: "embedded:"})
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.New(backend, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	advised := func(change func(*serveSettings)) bool {
		t.Helper()
		var s serveSettings
		s.Store = "redis://127.0.0.1:6379"
		change(&s)
		var log bytes.Buffer
		if err := s.adviseOnPeople(t.Context(), store, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(log.String(), "authz user invite NAME")
	}
	for name, test := range map[string]struct {
		change func(*serveSettings)
		want   bool
	}{
		"nobody":            {func(*serveSettings) {}, true},
		"passwords off":     {func(s *serveSettings) { s.SignIn.NoPasswords = true }, true},
		"a provider":        {func(s *serveSettings) { s.SignIn.Providers = []upstream.Provider{{ID: "company"}} }, false},
		"an embedded store": {func(s *serveSettings) { s.Store = "embedded:" }, false},
	} {
		if got := advised(test.change); got != test.want {
			t.Errorf("%s: advised %t", name, got)
		}
	}
	if _, err := admin.AddUser(t.Context(), store, "ada", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	if advised(func(*serveSettings) {}) {
		t.Error("advised although somebody is there")
	}
}
