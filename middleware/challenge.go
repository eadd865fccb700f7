package middleware

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"gatehouse.example/metadata"
)

// challenge is a refusal: an error with a response for the client.
type challenge struct {
	status      int
	code        string // of RFC 6750 section 3.1; empty when there were no credentials
	description string
	scopes      []string
	retryAfter  int    // seconds
	body        []byte // an error response of JSON-RPC; replaces the description as the body
	cause       error  // for the log
	proved      bool   // whether the client used DPoP
}

// Error implements error.
func (c challenge) Error() string {
	if c.cause != nil {
		return "middleware: " + c.description + " (" + c.cause.Error() + ")"
	}
	return "middleware: " + c.description
}

// Unwrap returns the cause.
func (c challenge) Unwrap() error { return c.cause }

// insufficient returns the refusal of an operation that the token does not cover. The challenge
// names all scopes of the operation, so that the client learns them in one step (RFC 6750
// section 3.1; MCP, Runtime Insufficient Scope Errors).
func insufficient(needed []string) challenge {
	return challenge{status: http.StatusForbidden, code: "insufficient_scope", scopes: needed,
		description: "The access token does not cover this operation."}
}

func malformed(why string) challenge {
	return challenge{status: http.StatusBadRequest, code: "invalid_request", description: why}
}

// invalid returns the refusal of a token.
func invalid(why string) challenge {
	return challenge{status: http.StatusUnauthorized, code: "invalid_token", description: why}
}

// forbidden returns the refusal of a request that no token would make acceptable, so it has no
// challenge.
func forbidden(why string) challenge {
	return challenge{status: http.StatusForbidden, description: why}
}

// challenges reports whether there is a WWW-Authenticate: not for refusals that other credentials
// would not change.
func (c challenge) challenges() bool {
	return (c.code != "" || c.status == http.StatusUnauthorized) && c.status < http.StatusInternalServerError
}

// of returns the challenge of a scheme, with the error if it is the client's scheme.
func (c challenge) of(scheme, metaURL string, failed bool) metadata.Challenge {
	out := metadata.Challenge{Scheme: scheme}
	if c.code != "" && failed {
		// RFC 6750 section 3.1: without credentials, the answer SHOULD NOT hold an error code.
		out.Params = append(out.Params,
			metadata.Param{Name: "error", Value: c.code},
			metadata.Param{Name: "error_description", Value: c.description})
	}
	if len(c.scopes) > 0 {
		out.Params = append(out.Params, metadata.Param{Name: "scope", Value: strings.Join(c.scopes, " ")})
	}
	// RFC 9728 section 5.1: the URL of the metadata of the resource.
	out.Params = append(out.Params, metadata.Param{Name: "resource_metadata", Value: metaURL})
	return out
}

// write answers the request. d is nil where proofs are not accepted.
func (c challenge) write(w http.ResponseWriter, metaURL string, d *dpop) {
	header := w.Header()
	if c.challenges() {
		header["Www-Authenticate"] = d.headers(c, metaURL)
	}
	if c.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(c.retryAfter))
	}
	if c.body != nil {
		plainJSON(header)
		w.WriteHeader(c.status)
		_, _ = w.Write(c.body) // fails only when the client is gone
		return
	}
	writeJSON(w, c.status, problem{Error: c.code, Description: c.description})
}

// problem is the body of every refusal, in the members of RFC 6749 section 5.2.
type problem struct {
	Error       string `json:"error,omitempty"`
	Description string `json:"error_description"`
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	plainJSON(w.Header())
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only when the client is gone
}

func plainJSON(header http.Header) {
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
}
