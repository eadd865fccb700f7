package dcr

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse.example/metadata"
	"gatehouse.example/storage"
)

// The error codes that this package sends, of RFC 7591 section 3.2.2, RFC 6750 section 3.1
// and RFC 6749 section 4.1.2.1.
const (
	codeInvalidRedirectURI  = "invalid_redirect_uri"
	codeInvalidMetadata     = "invalid_client_metadata"
	codeInvalidStatement    = "invalid_software_statement"
	codeUnapprovedStatement = "unapproved_software_statement"
	codeInvalidRequest      = "invalid_request"
	codeInvalidToken        = "invalid_token"
	codeUnavailable         = "temporarily_unavailable"
)

const (
	// retryAfter is the Retry-After while the store is unavailable, in seconds.
	retryAfter = "2"
	// maxDescription bounds error_description in bytes.
	maxDescription = 300
)

// refusal is a client registration error response (RFC 7591 section 3.2.2).
type refusal struct {
	status      int
	code        string
	description string
}

func (e *refusal) Error() string { return e.code + ": " + e.description }

// refuse returns a refusal whose description is about one member of the request.
func refuse(code, member, format string, args ...any) *refusal {
	description := fmt.Sprintf(format, args...)
	if member != "" {
		description = member + ": " + description
	}
	return &refusal{status: http.StatusBadRequest, code: code, description: printable(description)}
}

func invalidMetadata(member, format string, args ...any) *refusal {
	return refuse(codeInvalidMetadata, member, format, args...)
}

// printable returns s as an error_description may hold it (RFC 6749 section 5.2): printable
// ASCII without quotation mark and backslash, of at most maxDescription bytes.
func printable(s string) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case c == '"' || c == '\\':
			return '\''
		case c < ' ' || c > '~':
			return '?'
		}
		return c
	}, s)
	if len(s) > maxDescription {
		s = s[:maxDescription-3] + "..."
	}
	return s
}

// unauthorized returns the refusal of a token, which is the same for every reason.
func unauthorized(description string) *refusal {
	refused := refuse(codeInvalidToken, "", "%s", description)
	refused.status = http.StatusUnauthorized
	return refused
}

// TooMany is the error with which [Config.Admit] asks a client to retry later.
type TooMany struct {
	// RetryAfter is the time after which the client may retry.
	RetryAfter time.Duration
	// What is the clause that describes the excess, for the error description; "" means "too
	// many clients were registered".
	What string
}

func (e *TooMany) Error() string {
	return fmt.Sprintf("dcr: %s; try again after %s", e.what(), e.RetryAfter)
}

func (e *TooMany) what() string { return cmp.Or(e.What, "too many clients were registered") }

// serve answers a request, or returns the error to answer with.
type serve func(w http.ResponseWriter, r *http.Request) error

// endpoint is a handler with one function for each method.
type endpoint struct {
	clients *Clients
	methods map[string]serve
}

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handle, ok := e.methods[r.Method]
	if !ok {
		allowed := strings.Join(slices.Sorted(maps.Keys(e.methods)), ", ")
		w.Header().Set("Allow", allowed) // RFC 9110 section 15.5.6
		respond(w, http.StatusMethodNotAllowed, errorResponse{codeInvalidRequest, "this endpoint takes " + allowed})
		return
	}
	if err := handle(w, r); err != nil {
		e.clients.respondError(w, r, err)
	}
}

type errorResponse struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// respondError answers with the error that a [refusal] or [TooMany] describes. Every other
// error is a fault of this server or its store: it is logged, and the client is asked to retry
// later.
func (cs *Clients) respondError(w http.ResponseWriter, req *http.Request, err error) {
	var refused *refusal
	var tooMany *TooMany
	err = cs.throttled(req, err)
	if cs.refused != nil {
		cs.refused(req, codeOf(err))
	}
	switch {
	case errors.As(err, &tooMany):
		cs.log.InfoContext(req.Context(), "registration request refused", "path", req.URL.Path, "code", codeUnavailable, "retry_after", tooMany.RetryAfter)
		// RFC 6585 section 4. There is no registration error code for it; this one of RFC
		// 6749 section 4.1.2.1 is for a temporary overload.
		seconds := max(1, int64(math.Ceil(tooMany.RetryAfter.Seconds())))
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		respond(w, http.StatusTooManyRequests, errorResponse{codeUnavailable, fmt.Sprintf("%s; try again in %d seconds", tooMany.what(), seconds)})
	case errors.As(err, &refused):
		cs.log.InfoContext(req.Context(), "registration request refused", "path", req.URL.Path, "code", refused.code, "description", refused.description)
		if refused.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", challenge(req).String())
		}
		respond(w, refused.status, errorResponse{refused.code, refused.description})
	case errors.Is(err, storage.ErrFull):
		cs.log.InfoContext(req.Context(), "registration request refused", "path", req.URL.Path, "error", codeUnavailable, "cause", err)
		w.Header().Set("Retry-After", strconv.Itoa(int(fullRetry.Seconds())))
		respond(w, http.StatusServiceUnavailable, errorResponse{codeUnavailable, "the storage of the server is nearly full, so no clients can register; try again later"})
	default:
		level := slog.LevelWarn // not an error: clients can cause it, for example by concurrent changes
		if errors.Is(err, storage.ErrRecord) {
			level = slog.LevelError
		}
		cs.log.Log(req.Context(), level, "registration request failed", "path", req.URL.Path, "cause", err)
		w.Header().Set("Retry-After", retryAfter) // RFC 9110 section 15.6.4
		respond(w, http.StatusServiceUnavailable, errorResponse{codeUnavailable, "the server cannot reach its storage; try again shortly"})
	}
}

// codeOf returns the error code with which an error is answered.
func codeOf(err error) string {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.code
	}
	return codeUnavailable
}

// throttled counts a refused token. It returns err, or a [TooMany] if there were too many
// wrong tokens. Requests without a token and requests with a valid one do not count.
func (cs *Clients) throttled(req *http.Request, err error) error {
	var refused *refusal
	if cs.wrongToken == nil || !errors.As(err, &refused) || refused.status != http.StatusUnauthorized || req.Header.Get("Authorization") == "" {
		return err
	}
	if wait := cs.wrongToken(req, configuredID(req)); wait > 0 {
		return &TooMany{RetryAfter: wait, What: "too many wrong tokens came from your network"}
	}
	return err
}

// challenge is the same for every refused token, whatever is wrong with it. A request that tried
// none is told of no error (RFC 6750 section 3.1).
func challenge(req *http.Request) metadata.Challenge {
	c := metadata.Challenge{Scheme: "Bearer"}
	if len(req.Header.Values("Authorization")) > 0 {
		c.Params = []metadata.Param{{Name: "error", Value: codeInvalidToken}}
	}
	return c
}

// respond writes v as JSON that caches must not store (RFC 7591 section 3.2.1).
func respond(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	respondBytes(w, status, body, err)
}

// respondBytes is [respond] for encoded JSON; err is why there is none.
func respondBytes(w http.ResponseWriter, status int, body []byte, err error) {
	if err != nil {
		status, body = http.StatusServiceUnavailable, []byte(`{"error":"`+codeUnavailable+`"}`)
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	noStore(h)
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client is gone
}

func noStore(h http.Header) {
	values := []string{"no-store", "no-cache", "nosniff"}
	h["Cache-Control"], h["Pragma"], h["X-Content-Type-Options"] = values[:1:1], values[1:2:2], values[2:]
}
