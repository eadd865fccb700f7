package safefetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

var (
	// ErrRequest says that the request itself is wrong: not an absolute https URL, one with
	// user information, a fragment or a port that is not allowed, one of another origin, or
	// a condition that cannot be sent. It depends on nothing but the request.
	ErrRequest = errors.New("not a request that may be sent")
	// ErrRefused says that nothing was fetched, and on purpose not why.
	ErrRefused = errors.New("the address cannot be fetched")
	// ErrBusy says that too many fetches are waiting for their turn.
	ErrBusy = errors.New("too many fetches at once")
	// ErrStatus says that the status is not 200, and not 304 to a conditional request.
	// A redirect is such an answer.
	ErrStatus = errors.New("the answer has another status than 200")
	// ErrMediaType says that the answer has a media type that was not asked for.
	ErrMediaType = errors.New("the answer has another media type")
	// ErrTooLarge says that the body or the header of the answer exceeds its bound.
	ErrTooLarge = errors.New("the answer is too large")
	// ErrMalformed says that the answer is not HTTP/1.1, is cut short, or is compressed.
	ErrMalformed = errors.New("the answer cannot be read")
)

// Error is what [Fetcher.Get] returns unless the caller's context ended. Its text is that
// of the sentinel, the same whatever the reason, and may be told to a stranger: those
// other than [ErrRefused] only say what the server at a public address answered, which he
// can ask himself. Nothing but the sentinel can be unwrapped.
type Error struct {
	// Err is one of the sentinels of this package.
	Err error
	// Status is what the server answered, if Err is [ErrStatus].
	Status int

	reason string
}

// Error returns the text of the sentinel.
func (e *Error) Error() string { return "safefetch: " + e.Err.Error() }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// LogValue adds the reason.
func (e *Error) LogValue() slog.Value {
	return slog.StringValue(e.Error() + ": " + e.reason)
}

// Reason returns what a log may say of an error of this package, and of any other error
// its text. It may repeat what strangers wrote, such as names in a certificate, and must
// not be told to them.
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

// maxReason bounds what a stranger can write into a log: the names of a certificate
// alone may fill kilobytes.
const maxReason = 300

func fail(sentinel error, format string, args ...any) *Error {
	reason := fmt.Sprintf(format, args...)
	if len(reason) > maxReason {
		reason = reason[:maxReason] + "…"
	}
	return &Error{Err: sentinel, reason: strings.ToValidUTF8(reason, "?")}
}

// ended is the error of a caller whose context is over.
func ended(ctx context.Context) error {
	return fmt.Errorf("safefetch: %w", ctx.Err())
}
