package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// readyTime is the time within which the store must answer.
const readyTime = time.Second

// probes returns the handler of the admin listener. /livez answers 200 while the process runs.
// /readyz answers 503 while the server is stopping and while the store does not answer or is
// full; else 200, with the sentences of without about features that are not available. /metrics
// is for Prometheus.
func (st *site) probes(ready func(context.Context) error, without func(context.Context) []string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	if st.metrics != nil {
		mux.Handle("GET /metrics", st.metrics.Handler())
	}
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if st.draining.Load() {
			answer(w, http.StatusServiceUnavailable, "the server is stopping")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), readyTime)
		defer cancel()
		if err := ready(ctx); err != nil {
			st.log.Warn("not ready", "error", err)
			answer(w, http.StatusServiceUnavailable, notReady(err))
			return
		}
		answer(w, http.StatusOK, strings.Join(slices.Concat([]string{"ok"}, without(ctx), st.uncertified()), ", but "))
	})
	return mux
}

// tight returns a function that names the feature that a nearly full store has turned off.
func tight(room func() storage.Room) func(context.Context) []string {
	return func(context.Context) []string {
		if room() == storage.RoomEnough {
			return nil
		}
		return []string{"the store is nearly full: no new clients can register"}
	}
}

// notReady returns a sentence about the state of the store, without the details in the log.
func notReady(err error) string {
	switch {
	case errors.Is(err, storage.ErrForged):
		return "a record in the store is forged: the log names it"
	case errors.Is(err, storage.ErrFull):
		return "the store is full"
	case errors.Is(err, errUnrecorded):
		return "the audit trail cannot be written"
	}
	return "the store does not answer"
}

// answer writes a sentence as plain text.
func answer(w http.ResponseWriter, status int, sentence string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, sentence+"\n")
}

// alwaysReady and nothingMissing are the probes of a server without a store: it is ready while it runs.
func alwaysReady(context.Context) error { return nil }

func nothingMissing(context.Context) []string { return nil }
