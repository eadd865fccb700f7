package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

var (
	// ErrNotModified is returned if the first page is unchanged (Query.IfNoneMatch).
	ErrNotModified = errors.New("registry/upstream: nothing changed")
	// ErrNotFound matches an [AnswerError] with the status 404.
	ErrNotFound = errors.New("registry/upstream: not found")
	// ErrBusy matches an [AnswerError] with the status 429 or 503: the request should be
	// repeated later.
	ErrBusy = errors.New("registry/upstream: the upstream is busy")
	// ErrRedirect is returned for a redirect to another origin and for too many redirects.
	ErrRedirect = errors.New("registry/upstream: a redirect that is not followed")
	// ErrTooLarge is returned if an answer or a crawl exceeds its limit of bytes.
	ErrTooLarge = errors.New("too large")
	// ErrEndless is returned if a list does not end: a cursor repeats, or there are too many
	// pages or too many empty ones.
	ErrEndless = errors.New("registry/upstream: the list does not end")
	// ErrAnswer is returned for a 200 answer that does not follow the interface of a registry.
	ErrAnswer = errors.New("registry/upstream: not the answer of a registry")
)

// AnswerError is an answer of the upstream with an error status. errors.Is matches it with
// [ErrNotFound] for the status 404, and with [ErrBusy] for 429 and 503.
type AnswerError struct {
	Status int
	// Title and Detail are the upstream's description of the error, each at most 300
	// characters and without control characters. They may be empty.
	Title, Detail string
	// RetryAt is the earliest time for another request (Retry-After of a 429 or 503 answer), at
	// most 24 hours from now. It is zero if the upstream gives none.
	RetryAt time.Time
}

// Error returns the status, the title and the detail.
func (e *AnswerError) Error() string {
	text := fmt.Sprintf("registry/upstream: the upstream answers %d", e.Status)
	for _, part := range []string{e.Title, e.Detail} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

// Is reports whether the status belongs to target, [ErrNotFound] or [ErrBusy].
func (e *AnswerError) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	case ErrBusy:
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
	}
	return false
}

// maxProblem is the number of bytes that are read of an error answer.
const maxProblem = 64 << 10

// answerError reads an answer with an error status.
func (c *Client) answerError(response *http.Response) *AnswerError {
	e := &AnswerError{Status: response.StatusCode}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem)) // an incomplete body may still have a title
	e.Title, e.Detail = problem(body)
	if e.Is(ErrBusy) {
		e.RetryAt = retryAt(response.Header.Get("Retry-After"), c.now())
	}
	return e
}

// problem returns the title and the detail of an error: of a problem (RFC 9457), or of an
// object with the member error or message.
func problem(body []byte) (title, detail string) {
	var in struct{ Title, Detail, Error, Message json.RawMessage }
	if json.Unmarshal(body, &in) != nil {
		return "", ""
	}
	detail = text(in.Detail)
	for _, other := range []json.RawMessage{in.Error, in.Message} {
		if detail == "" {
			detail = text(other)
		}
	}
	return text(in.Title), detail
}

// maxText is the number of characters that are kept of a title or a detail.
const maxText = 300

// text returns a JSON string, shortened and without control characters, and "" for every other
// value.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
	if runes := []rune(s); len(runes) > maxText {
		s = string(runes[:maxText]) + "..."
	}
	return strings.TrimSpace(s)
}

// maxRetryAfter limits the time that an upstream can demand between two requests. A wrong date
// would otherwise end a mirror for good.
const maxRetryAfter = 24 * time.Hour

// retryAt parses Retry-After (RFC 9110 section 10.2.3): a number of seconds or a date. It
// returns the zero time if the field is empty or invalid.
func retryAt(field string, now time.Time) time.Time {
	at, err := http.ParseTime(field)
	if seconds, notNumber := strconv.ParseUint(field, 10, 64); notNumber == nil {
		at, err = now.Add(min(time.Duration(min(seconds, 1<<32))*time.Second, maxRetryAfter)), nil
	}
	switch {
	case err != nil:
		return time.Time{}
	case at.Before(now):
		return now
	case at.After(now.Add(maxRetryAfter)):
		return now.Add(maxRetryAfter)
	}
	return at
}
