package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
)

// refusal is an error that is told to whoever asked.
type refusal struct {
	status int
	detail string
}

// Error says the status and the detail.
func (p *refusal) Error() string { return fmt.Sprintf("registry/serve: %d: %s", p.status, p.detail) }

func badRequest(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func unprocessable(format string, args ...any) error {
	return &refusal{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}

var (
	errNoServer  = &refusal{http.StatusNotFound, "There is no such server."}
	errNoVersion = &refusal{http.StatusNotFound, "There is no such version of this server."}
)

// told returns what is told about an error. What a stranger does not need to know goes to
// the log instead.
func (h *Handler) told(c *call, err error) *refusal {
	var p *refusal
	level := slog.LevelWarn // anybody can ask for more than the store answers in time
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, fair.ErrBusy): // whoever floods is not worth a line in the log each time
		h.complain("more answers are asked for than can be made: some who ask are told to come again")
		return &refusal{http.StatusServiceUnavailable, "This registry is busy. Try again."}
	case errors.Is(err, storage.ErrUnavailable) || c.ctx.Err() != nil:
		p = &refusal{http.StatusServiceUnavailable, "The catalogue cannot be read at present. Try again."}
	default:
		p = &refusal{http.StatusInternalServerError, "The catalogue has something that cannot be read."}
		level = slog.LevelError
	}
	if c.r.Context().Err() == nil {
		h.log.Log(c.ctx, level, "registry: a request failed", "status", p.status, "path", c.r.URL.EscapedPath(), "err", err)
	}
	return p
}

// headers sets those of an answer that is an error.
func (p *refusal) headers(header http.Header) {
	header.Set("Cache-Control", "no-store")
	if p.status == http.StatusServiceUnavailable {
		header.Set("Retry-After", retryAfter) // RFC 9110 section 10.2.3
	}
}

// problem answers a program: problem details (RFC 9457), which are also an object with
// error, as the description of the interface has it.
func (h *Handler) problem(c *call, err error) {
	p := h.told(c, err)
	p.headers(c.w.Header())
	body, _ := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Error  string `json:"error"`
	}{"about:blank", http.StatusText(p.status), p.status, p.detail, p.detail}) // RFC 9457 section 4.2.1
	c.send(p.status, "application/problem+json", body)
}
