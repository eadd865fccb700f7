package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

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

// maxBody bounds a message, in bytes.
const maxBody = 1 << 20

// scopePerTool answers a call of a tool that the token does not cover with 403 and a
// challenge that names what the tool needs, before the protocol server would turn it into
// a 200. Every tool checks once more itself: this looks at the message only to answer well.
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
		r.Body = io.NopCloser(bytes.NewReader(body))
		guard.RequireScope(toolScopes[calledTool(body)]...)(next).ServeHTTP(w, r)
	})
}

// calledTool returns the name of the tool that a message calls, or "".
func calledTool(body []byte) string {
	message, err := jsonrpc.DecodeMessage(body)
	if err != nil {
		return ""
	}
	request, ok := message.(*jsonrpc.Request)
	if !ok || request.Method != "tools/call" {
		return ""
	}
	var params struct {
		Name string `json:"name"`
	}
	if strictjson.Unmarshal(request.Params, &params, strictjson.Options{MaxBytes: maxBody}) != nil {
		return ""
	}
	return params.Name
}
