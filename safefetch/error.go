package safefetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

var (
	// ErrRequest reports that the request is wrong: its URL is not an absolute https URL, has
	// user information, a fragment, a port that is not allowed or another origin, or a
	// condition cannot be sent. It depends on nothing but the request.
	ErrRequest = errors.New("not a request that may be sent")
	// ErrRefused reports that nothing was fetched. It deliberately does not give the reason.
	ErrRefused = errors.New("the address cannot be fetched")
	// ErrBusy reports that too many fetches are waiting.
	ErrBusy = errors.New("too many fetches at once")
	// ErrStatus reports another status than 200, or 304 to a conditional request. Redirects
	// have this error.
	ErrStatus = errors.New("the answer has another status than 200")
	// ErrMediaType reports a media type that is not in [Request].Accept.
	ErrMediaType = errors.New("the answer has another media type")
	// ErrTooLarge reports that the body or the header of the answer exceeds its bound.
	ErrTooLarge = errors.New("the answer is too large")
	// ErrMalformed reports that the answer is not HTTP/1.1, is cut short, or is compressed.
	ErrMalformed = errors.New("the answer cannot be read")
)

// Error is the error of [Fetcher.Get] unless the caller's context ended. Its text is that of
// the sentinel, the same for every reason, and may be shown to the requester: sentinels other
// than [ErrRefused] only describe the answer of a server at a public address, which the
// requester can ask directly. Only the sentinel can be unwrapped.
type Error struct {
	// Err is one of the sentinels of this package.
	Err error
	// Status is the status of the answer, if Err is [ErrStatus].
	Status int

	reason string
}

// Error returns the text of the sentinel.
func (e *Error) Error() string { return "safefetch: " + e.Err.Error() }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// LogValue returns the text of the sentinel with the reason.
func (e *Error) LogValue() slog.Value {
	return slog.StringValue(e.Error() + ": " + e.reason)
}

// Reason returns the text of an error with its reason, for the log. For an error of another
// package it returns the text alone. The reason may contain untrusted text, such as names in
// a certificate, and must not be shown to the requester.
func Reason(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.LogValue().String()
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// maxReason bounds a reason in bytes: untrusted text must not fill a log, and the names of a
// certificate alone may have kilobytes.
const maxReason = 300

func fail(sentinel error, format string, args ...any) *Error {
	reason := fmt.Sprintf(format, args...)
	if len(reason) > maxReason {
		reason = reason[:maxReason] + "…"
	}
	return &Error{Err: sentinel, reason: strings.ToValidUTF8(reason, "?")}
}

// contextError returns the error for a caller whose context ended.
func contextError(ctx context.Context) error {
	return fmt.Errorf("safefetch: %w", ctx.Err())
}
