package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"gatehouse.example/storage"
)

// readyTime bounds the question whether the store answers.
const readyTime = time.Second

// probes answers on the admin listener. /livez says that the process runs, /readyz that
// it can serve: not while it is stopping, and not without its store or while that is full.
// While it can, it names what it does without.
func (st *site) probes(ready func(context.Context) error, without func(context.Context) []string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if st.draining.Load() {
			say(w, http.StatusServiceUnavailable, "the server is stopping")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), readyTime)
		defer cancel()
		if err := ready(ctx); err != nil {
			st.log.Warn("not ready", "error", err)
			say(w, http.StatusServiceUnavailable, notReady(err))
			return
		}
		say(w, http.StatusOK, strings.Join(append([]string{"ok"}, without(ctx)...), ", but "))
	})
	return mux
}

// tight names what a store that is nearly full does without.
func tight(room func() storage.Room) func(context.Context) []string {
	return func(context.Context) []string {
		if room() == storage.RoomEnough {
			return nil
		}
		return []string{"the store is nearly full: no new clients can register"}
	}
}

// notReady names what is wrong with the store: the rest is in the log.
func notReady(err error) string {
	switch {
	case errors.Is(err, storage.ErrForged):
		return "a record in the store is forged: the log says which"
	case errors.Is(err, storage.ErrFull):
		return "the store is full"
	}
	return "the store does not answer"
}

func say(w http.ResponseWriter, status int, sentence string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, sentence+"\n")
}
