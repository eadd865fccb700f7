package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"gatehouse.example/storage"
)

// TestReadinessNamesTheStore: /readyz names what is wrong with the store. A store that is nearly
// full is ready: only new clients have to wait, and a flood of registrations must not make the
// server unready.
func TestReadinessNamesTheStore(t *testing.T) {
	for _, tt := range []struct {
		err    error
		room   storage.Room
		status int
		want   string
	}{
		{nil, storage.RoomEnough, http.StatusOK, "ok\n"},
		{nil, storage.RoomTight, http.StatusOK, "ok, but the store is nearly full: no new clients can register\n"},
		{fmt.Errorf("authz: %w: %w", storage.ErrUnavailable, storage.ErrFull), storage.RoomNone, http.StatusServiceUnavailable, "the store is full\n"},
		{storage.ErrUnavailable, storage.RoomEnough, http.StatusServiceUnavailable, "the store does not answer\n"},
	} {
		st := &site{log: slog.New(slog.DiscardHandler)}
		probes := st.probes(func(context.Context) error { return tt.err }, tight(func() storage.Room { return tt.room }))
		w := httptest.NewRecorder()
		probes.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != tt.status || w.Body.String() != tt.want {
			t.Errorf("with error %v and room %d: %d %q, want %d %q", tt.err, tt.room, w.Code, w.Body, tt.status, tt.want)
		}
	}
}
