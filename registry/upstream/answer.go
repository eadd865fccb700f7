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
	// ErrNotModified says that the first page is what the caller has already.
	ErrNotModified = errors.New("registry/upstream: nothing changed")
	// ErrNotFound says that the upstream does not have what was asked for.
	ErrNotFound = errors.New("registry/upstream: not found")
	// ErrBusy says that the upstream wants to be asked later.
	ErrBusy = errors.New("registry/upstream: the upstream is busy")
	// ErrRedirect says that the upstream leads somewhere else.
	ErrRedirect = errors.New("registry/upstream: a redirect that is not followed")
	// ErrTooLarge says that an answer, or all of a crawl, has more bytes than allowed.
	ErrTooLarge = errors.New("too large")
	// ErrEndless says that a crawl comes to no end: a cursor that was there before, too
	// many pages, or too many empty ones.
	ErrEndless = errors.New("registry/upstream: the list does not end")
	// ErrAnswer says that an answer is none of a registry.
	ErrAnswer = errors.New("registry/upstream: not the answer of a registry")
)

// AnswerError is an answer that is an error: the upstream was reached and refuses. It is an
// [ErrNotFound] with the status 404, and an [ErrBusy] with 429 and 503.
type AnswerError struct {
	Status int
	// Title and Detail are what the upstream says, cut and without control characters. They
	// may be empty.
	Title, Detail string
	// RetryAt is when the upstream wants to be asked again, zero if it does not say.
	RetryAt time.Time
}

// Error says the status and the detail.
func (e *AnswerError) Error() string {
	text := fmt.Sprintf("registry/upstream: the upstream answers %d", e.Status)
	for _, said := range []string{e.Title, e.Detail} {
		if said != "" {
			text += ": " + said
		}
	}
	return text
}

// Is reports what kind of error the status is.
func (e *AnswerError) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	case ErrBusy:
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
	}
	return false
}

// maxProblem bounds how much of an error is read.
const maxProblem = 64 << 10

// refusal reads an answer that is an error.
func (c *Client) refusal(response *http.Response) *AnswerError {
	e := &AnswerError{Status: response.StatusCode}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem)) // half of it is better than nothing
	e.Title, e.Detail = problem(body)
	if e.Is(ErrBusy) {
		e.RetryAt = retryAt(response.Header.Get("Retry-After"), c.now())
	}
	return e
}

// problem reads what an upstream says about an error: a problem (RFC 9457), or an object
// with error alone.
func problem(body []byte) (title, detail string) {
	var said struct{ Title, Detail, Error, Message json.RawMessage }
	if json.Unmarshal(body, &said) != nil {
		return "", ""
	}
	detail = text(said.Detail)
	for _, other := range []json.RawMessage{said.Error, said.Message} {
		if detail == "" {
			detail = text(other)
		}
	}
	return text(said.Title), detail
}

// maxSaid is how many characters of what an upstream says are kept.
const maxSaid = 300

// text returns a string as it can be shown, and "" for every other value.
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
	if runes := []rune(s); len(runes) > maxSaid {
		s = string(runes[:maxSaid]) + "..."
	}
	return strings.TrimSpace(s)
}

// maxRetryAfter bounds how long an upstream can send a caller away.
const maxRetryAfter = 24 * time.Hour

// retryAt reads Retry-After (RFC 9110 section 10.2.3): a number of seconds or a date. What
// cannot be read is zero.
func retryAt(field string, now time.Time) time.Time {
	if field == "" {
		return time.Time{}
	}
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
