package authz_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// hangingMemory is a store in memory that can stop answering: calls then wait until their
// context ends.
type hangingMemory struct {
	storage.Backend // nil: the server calls only the methods below
	hangs           atomic.Bool
	mu              sync.Mutex
	items           map[string]storage.Item
}

func (h *hangingMemory) Get(ctx context.Context, key string) (storage.Item, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return storage.Item{}, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if item, ok := h.items[key]; ok {
		return item, nil
	}
	return storage.Item{}, storage.ErrNotFound
}

func (h *hangingMemory) Put(ctx context.Context, put storage.Put) (storage.Item, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return storage.Item{}, fmt.Errorf("%w: %w", storage.ErrUncertain, ctx.Err())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.items[put.Key] = storage.Item{Data: put.Data, Version: put.Operation}
	return h.items[put.Key], nil
}

func (h *hangingMemory) Count(ctx context.Context, c storage.Counting) (storage.Counted, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return storage.Counted{}, ctx.Err()
	}
	return storage.Counted{Done: true, Owed: make([]time.Duration, len(c.Counts))}, nil
}

func (h *hangingMemory) GetMany(ctx context.Context, keys []string) ([]storage.Item, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return make([]storage.Item, len(keys)), nil
}

func (h *hangingMemory) Room() storage.Room { return storage.RoomEnough }

func (h *hangingMemory) IndexPage(context.Context, string, string, int) ([]string, error) {
	return nil, nil
}

// While the store hangs, every request is answered with 503 within two seconds.
func TestRequestsEndInTimeWhileTheStoreHangs(t *testing.T) {
	refresh := "gate_rt_" + base64.RawURLEncoding.EncodeToString(make([]byte, 52))
	form := "application/x-www-form-urlencoded"
	transaction := strings.Repeat("A", 22)
	requests := []struct{ method, path, contentType, body string }{
		{"POST", "/token", form, "grant_type=refresh_token&client_id=c&refresh_token=" + refresh},
		{"POST", "/revoke", form, "client_id=c&token=" + refresh},
		{"POST", "/register", "application/json", `{"redirect_uris":["http://127.0.0.1/cb"]}`},
		{"GET", "/register/c", "", ""},
		{"GET", "/authorize?client_id=c", "", ""},
		{"GET", "/login?transaction=" + transaction, "", ""},
		{"GET", "/consent?transaction=" + transaction, "", ""},
		{"POST", "/consent", form, "transaction=" + transaction},
	}
	synctest.Test(t, func(t *testing.T) {
		backend := &hangingMemory{items: map[string]storage.Item{}}
		store, err := storage.New(backend, storage.Options{Issuer: "https://auth.example.com", MasterKeys: [][]byte{make([]byte, 32)}})
		if err != nil {
			t.Fatal(err)
		}
		server, err := authz.New(t.Context(), authz.Config{
			Issuer: "https://auth.example.com", Store: store, Registration: authz.RegistrationOpen, Logger: slog.New(slog.DiscardHandler),
			Resources: []authz.Resource{{URI: "https://notes.example.com/mcp"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		backend.hangs.Store(true)
		for _, request := range requests {
			r := httptest.NewRequestWithContext(t.Context(), request.method, request.path, strings.NewReader(request.body))
			r.Header.Set("Content-Type", request.contentType)
			if strings.HasPrefix(request.path, "/register/") {
				r.Header.Set("Authorization", "Bearer gate_rat_x")
			}
			w := httptest.NewRecorder()
			begin := time.Now() // time of the bubble, which is exact
			server.ServeHTTP(w, r)
			if took := time.Since(begin); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || took > 2*time.Second {
				t.Errorf("%s %s: status %d after %s, want 503 with Retry-After within 2s", request.method, request.path, w.Code, took)
			}
		}
	})
}
