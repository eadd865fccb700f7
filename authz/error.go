package authz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// The error codes that the server sends. All are registered: RFC 6749 sections 4.1.2.1
// and 5.2, RFC 8707 section 2, OpenID Connect Core section 3.1.2.6.
const (
	codeInvalidRequest       = "invalid_request"
	codeInvalidClient        = "invalid_client"
	codeInvalidGrant         = "invalid_grant"
	codeInvalidScope         = "invalid_scope"
	codeInvalidTarget        = "invalid_target"
	codeUnauthorizedClient   = "unauthorized_client"
	codeUnsupportedGrantType = "unsupported_grant_type"
	codeUnsupportedResponse  = "unsupported_response_type"
	codeAccessDenied         = "access_denied"
	codeServerError          = "server_error"
	codeNotFound             = "not_found"
	codeUnavailable          = "temporarily_unavailable"
	codeLoginRequired        = "login_required"
	codeConsentRequired      = "consent_required"
	codeInteractionRequired  = "interaction_required"
	codeRequestNotSupported  = "request_not_supported"
	codeURINotSupported      = "request_uri_not_supported"
	codeRegNotSupported      = "registration_not_supported"
)

// retryAfter is the Retry-After of 503 answers, in seconds.
const retryAfter = 2

// apiError is an error that is answered as JSON (RFC 6749 section 5.2).
type apiError struct {
	status      int
	code        string
	description string
	retryAfter  time.Duration // for 429
	limit       Limit         // that was reached
	cause       error         // for the log only
}

func (e *apiError) Error() string { return e.code + ": " + e.description }
func (e *apiError) Unwrap() error { return e.cause }

func refuse(code, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: code, description: printableLong(fmt.Sprintf(format, args...))}
}

// isRefusal reports whether an error is a refusal with that code.
func isRefusal(err error, code string) bool {
	var e *apiError
	return errors.As(err, &e) && e.code == code
}

func invalidRequest(format string, args ...any) *apiError {
	return refuse(codeInvalidRequest, format, args...)
}

// invalidClient returns a 401 with a challenge: RFC 6749 section 5.2 requires it when the
// client used the Authorization header, RFC 9110 section 15.5.2 for every 401.
func invalidClient(format string, args ...any) *apiError {
	e := refuse(codeInvalidClient, format, args...)
	e.status = http.StatusUnauthorized
	return e
}

// displayedError is an error that must be shown on a page of this server, because no redirect
// URI is proven.
type displayedError struct {
	status         int
	title, message language.Text
	code           string
	steps          []language.Text
	link           *templates.Link
	retryAfter     time.Duration // for 429
	limit          Limit         // that was reached
	cause          error         // for the log only
}

func (e *displayedError) Error() string { return e.title.String() }
func (e *displayedError) Unwrap() error { return e.cause }

// redirectedError is an error that is sent to the client through the browser. It can only be
// made with a proven redirect URI.
type redirectedError struct {
	to                proven
	acted             bool // the person has signed in or acted on a page of this transaction
	code, description string
}

func (e *redirectedError) Error() string { return e.code + ": " + e.description }

func (p proven) refuse(code, format string, args ...any) *redirectedError {
	return &redirectedError{to: p, code: code, description: printableLong(fmt.Sprintf(format, args...))}
}

// handler answers a request, or returns an error, which an adapter renders.
type handler func(w http.ResponseWriter, r *http.Request) error

// api returns a handler that renders errors as JSON.
func (s *Server) api(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noStore(w.Header())
		if err := h(w, r); err != nil {
			s.writeAPIError(w, r, err)
		}
	})
}

func (s *Server) writeAPIError(w http.ResponseWriter, r *http.Request, err error) {
	var refused *apiError
	if !errors.As(err, &refused) {
		refused = s.internal(r, err)
	}
	s.sawLimit(refused.limit)
	s.logRefusal(r, refused.status, refused.code, refused.description, refused.cause)
	if refused.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="gatehouse", charset="UTF-8"`)
	}
	setRetryAfter(w.Header(), refused.status, refused.retryAfter)
	writeJSON(w, refused.status, map[string]string{"error": refused.code, "error_description": refused.description})
}

// setRetryAfter sets Retry-After (RFC 9110 section 10.2.3) for the statuses that need it.
func setRetryAfter(h http.Header, status int, wait time.Duration) {
	switch status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	case http.StatusTooManyRequests:
		h.Set("Retry-After", strconv.Itoa(wholeSeconds(wait)))
	}
}

// wholeSeconds returns d in seconds, rounded up, and at least 1.
func wholeSeconds(d time.Duration) int { return max(int((d+time.Second-1)/time.Second), 1) }

// internal returns the API error for err. Its description reveals no internals; err is its
// cause, for the log.
func (s *Server) internal(r *http.Request, err error) *apiError {
	if errors.Is(err, storage.ErrRecord) { // forged or damaged, which must not be taken for a missing record
		return &apiError{status: http.StatusServiceUnavailable, code: codeUnavailable,
			description: "the server cannot use what is in its storage; try again later", cause: err}
	}
	if errors.Is(err, storage.ErrUnavailable) {
		return &apiError{status: http.StatusServiceUnavailable, code: codeUnavailable,
			description: "the server cannot reach its storage; try again shortly", cause: err}
	}
	if errors.Is(err, dcr.ErrUnreachable) {
		return &apiError{status: http.StatusServiceUnavailable, code: codeUnavailable,
			description: "the server cannot read what the client publishes about itself; try again shortly", cause: err}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fair.ErrBusy) {
		return &apiError{status: http.StatusServiceUnavailable, code: codeUnavailable,
			description: "the server could not complete the request in time; try again shortly", cause: err}
	}
	return &apiError{status: http.StatusInternalServerError, code: codeServerError,
		description: "the server could not complete the request", cause: err}
}

// page returns a handler that renders errors as pages, or redirects them to the client where
// that is allowed.
func (s *Server) page(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.pageHeaders(w.Header())
		page := &pageWriter{ResponseWriter: w}
		if err := h(page, r); err != nil {
			s.sendPageError(page, r, err)
		}
		page.end()
	})
}

// sendPageError redirects an error to the client where that is allowed, and otherwise renders it as a
// page.
func (s *Server) sendPageError(w http.ResponseWriter, r *http.Request, err error) {
	var redirected *redirectedError
	switch {
	case errors.As(err, &redirected) && (redirected.acted || redirected.to.trusted()):
		s.logRefusal(r, http.StatusSeeOther, redirected.code, redirected.description, nil)
		s.sendError(w, redirected)
	case redirected != nil:
		s.writePageError(w, r, untrusted(redirected, s.cfg.Issuer))
	default:
		s.writePageError(w, r, err)
	}
}

func (s *Server) writePageError(w http.ResponseWriter, r *http.Request, err error) {
	var shown *displayedError
	var refused *apiError
	switch {
	case errors.As(err, &shown):
	case errors.As(err, &refused):
		shown = &displayedError{status: refused.status, title: language.Say("error.malformed.title"), message: language.Detail(sentence(refused.description)), code: refused.code}
	default:
		shown = s.internalPage(r, err)
	}
	s.sawLimit(shown.limit)
	s.logRefusal(r, shown.status, shown.code, shown.Error(), shown.cause)
	setRetryAfter(w.Header(), shown.status, shown.retryAfter)
	w.WriteHeader(shown.status)
	if err := s.pagesFor(r, here(r)).Error(w, templates.Error{
		Status: shown.status, Title: shown.title, Message: shown.message, Steps: shown.steps, Code: shown.code, Link: shown.link,
	}); err != nil {
		s.cfg.Logger.WarnContext(r.Context(), "page not written", "error", err)
	}
}

func (s *Server) internalPage(r *http.Request, err error) *displayedError {
	e := s.internal(r, err)
	if errors.Is(err, dcr.ErrUnreachable) && s.egress.isMissing(r.Context()) {
		return s.noEgressPage(e)
	}
	if errors.Is(err, dcr.ErrUnreachable) {
		return &displayedError{status: e.status, code: e.code, cause: err, title: language.Say("error.unidentified.title"),
			message: language.Say("error.unidentified.message"),
			steps:   []language.Text{language.Say("step.reloadMinute"), language.Say("error.unidentified.tell")}}
	}
	if errors.Is(err, storage.ErrRecord) {
		return &displayedError{status: e.status, code: e.code, cause: err, title: language.Say("error.unavailable.title"),
			message: language.Say("error.unavailable.record"),
			steps:   []language.Text{language.Say("step.reloadMinutes"), language.Say("step.laterTellOperators")}}
	}
	if e.status == http.StatusServiceUnavailable && !errors.Is(err, storage.ErrUnavailable) {
		return &displayedError{status: e.status, code: e.code, cause: err, title: language.Say("error.busy.title"),
			message: language.Say("error.busy.message"), steps: []language.Text{language.Say("step.reloadMinute")}}
	}
	if e.status == http.StatusServiceUnavailable {
		return &displayedError{status: e.status, code: e.code, cause: err, title: language.Say("error.unavailable.title"),
			message: language.Say("error.unavailable.storage"),
			steps:   []language.Text{language.Say("step.reloadSeconds"), language.Say("step.laterStartAgain")}}
	}
	return &displayedError{status: e.status, code: e.code, cause: err, title: language.Say("error.internal.title"),
		message: language.Say("error.internal.message"),
		steps:   []language.Text{language.Say("step.startAgain")}}
}

// refusalLevel returns the level at which a refusal is logged. Error is reserved for what
// only a fault of this server explains; requests alone cannot cause it. Overload, a failed
// fetch, and a client that disconnects while the store is read have lower levels.
func refusalLevel(r *http.Request, status int) slog.Level {
	switch {
	case status < http.StatusInternalServerError, errors.Is(r.Context().Err(), context.Canceled):
		return slog.LevelInfo
	case status == http.StatusServiceUnavailable:
		return slog.LevelWarn
	}
	return slog.LevelError
}

func (s *Server) logRefusal(r *http.Request, status int, code, description string, cause error) {
	s.sawRefusal(r, code)
	level := refusalLevel(r, status)
	attrs := []slog.Attr{slog.String("endpoint", r.URL.Path), slog.Int("status", status), slog.String("code", code), slog.String("description", description)}
	if cause != nil {
		attrs = append(attrs, slog.Any("cause", cause))
	}
	s.cfg.Logger.LogAttrs(r.Context(), level, "refused", attrs...)
}

// printableLong returns s with the characters that an error_description may contain, in at
// most 600 bytes. It is for whole descriptions.
func printableLong(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			out[i] = '\''
		}
	}
	return string(out[:min(len(out), 600)])
}

// sentence turns a description into a sentence: it capitalises the first letter and adds a
// full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	if c := s[0]; c >= 'a' && c <= 'z' {
		s = string(c-'a'+'A') + s[1:]
	}
	return s + "."
}
