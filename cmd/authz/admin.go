package main

import (
	"context"
	"io"
	"net/http"
	"time"
)

// readyTime bounds the question whether the store answers.
const readyTime = time.Second

// probes answers on the admin listener. /livez says that the process runs, /readyz that
// it can serve: not while it is stopping, and not without its store.
func (st *site) probes(ready func(context.Context) error) http.Handler {
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
			say(w, http.StatusServiceUnavailable, "the store does not answer")
			return
		}
		say(w, http.StatusOK, "ok")
	})
	return mux
}

func say(w http.ResponseWriter, status int, sentence string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, sentence+"\n")
}
