package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"gatehouse.example/internal/strictjson"
	"gatehouse.example/middleware"
)

const (
	scopeRead  = "notes:read"
	scopeWrite = "notes:write"
)

// toolScopes are the scopes that a tool needs. Tools that are not listed need none.
var toolScopes = map[string][]string{
	"list_notes": {scopeRead},
	"add_note":   {scopeWrite},
}

const (
	maxBody  = 1 << 20          // bytes of a message
	maxDepth = 64               // nested arrays and objects in a message
	bodyTime = 15 * time.Second // how long a message may take to arrive
)

// scopePerTool answers a call of a tool that the token does not cover with 403 and a
// challenge that names what the tool needs, before the protocol server would turn it into
// a 200. A body that two readers could understand differently goes no further. Every tool
// checks once more itself: this looks at the message only to answer well.
func scopePerTool(guard *middleware.Guard, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			status := http.StatusBadRequest
			if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, "The message could not be read: it may have at most 1 MiB.", status)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // all is read, and the answer may take its time
		tool, err := calledTool(body)
		if err != nil {
			http.Error(w, "The body is not a message: "+err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		guard.RequireScope(toolScopes[tool]...)(next).ServeHTTP(w, r)
	})
}

// hurried gives the body of every request some time to arrive, also when the request is
// refused unread: the server waits for the body before it sends the answer.
func hurried(next http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // not supported: not on a network
		}
		next.ServeHTTP(w, r)
	})
}

// calledTool returns the name of the tool that a message calls, or "". A message is one
// JSON value without duplicate members, and its id one that comes back unchanged. Batches,
// which one old revision has, are left to the protocol server.
func calledTool(body []byte) (string, error) {
	options := strictjson.Options{MaxBytes: maxBody, MaxDepth: maxDepth}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		return "", strictjson.Valid(body, options)
	}
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := strictjson.Unmarshal(body, &message, options); err != nil {
		return "", err
	}
	if err := checkID(message.ID); err != nil {
		return "", err
	}
	var params struct {
		Name string `json:"name"`
	}
	if message.Method != "tools/call" || strictjson.Unmarshal(message.Params, &params, options) != nil {
		return "", nil // the protocol server says what is wrong with the parameters
	}
	return params.Name, nil
}

// checkID refuses numbers that the protocol server would round: it keeps them as floating
// point.
func checkID(id json.RawMessage) error {
	const exact = 1 << 53
	if len(id) == 0 || (id[0] != '-' && (id[0] < '0' || id[0] > '9')) {
		return nil // a string, or left to the protocol server
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil || n < -exact || n > exact {
		return fmt.Errorf("id: it must be a string or a whole number of at most 2^53")
	}
	return nil
}
