package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"gatehouse.example/internal/fair"
	"gatehouse.example/storage"
	"gatehouse.example/templates/language"
)

// refusal is an error that is sent to the client: a detail, or the English sentence said, which
// pages say in the language of the reader.
type refusal struct {
	status int
	detail string
	said   language.Text
}

// inEnglish returns the detail for programs.
func (p *refusal) inEnglish() string {
	if p.detail != "" {
		return p.detail
	}
	return p.said.String()
}

// Error returns the status and the detail.
func (p *refusal) Error() string {
	return fmt.Sprintf("registry/serve: %d: %s", p.status, p.inEnglish())
}

func badRequest(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, detail: fmt.Sprintf(format, args...)}
}

func unprocessable(format string, args ...any) error {
	return &refusal{status: http.StatusUnprocessableEntity, detail: fmt.Sprintf(format, args...)}
}

// unsearchable refuses a search term whose length is not within the limit.
func unsearchable(id string, limit int) error {
	return &refusal{status: http.StatusUnprocessableEntity, said: language.Say(id, "count", limit)}
}

var (
	errNoServer  = saidRefusal(http.StatusNotFound, "registry.error.noServer")
	errNoVersion = saidRefusal(http.StatusNotFound, "registry.error.noVersion")
)

func saidRefusal(status int, id string) *refusal {
	return &refusal{status: status, said: language.Say(id)}
}

// refusalFor returns the error to send to the client. Other details go to the log: clients are
// not authenticated.
func (h *Handler) refusalFor(c *call, err error) *refusal {
	var p *refusal
	level := slog.LevelWarn // any client can cause a timeout of the store by its requests
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, fair.ErrBusy): // a flood of requests must not fill the log
		h.logFault("there are more requests than the registry can answer: some get 503")
		return saidRefusal(http.StatusServiceUnavailable, "registry.error.busy")
	case errors.Is(err, storage.ErrUnavailable) || c.ctx.Err() != nil:
		p = saidRefusal(http.StatusServiceUnavailable, "registry.error.unreadable")
	default:
		p = saidRefusal(http.StatusInternalServerError, "registry.error.record")
		level = slog.LevelError
	}
	if c.r.Context().Err() == nil {
		h.log.Log(c.ctx, level, "registry: a request failed", "status", p.status, "path", c.r.URL.EscapedPath(), "err", err)
	}
	return p
}

// headers sets the header fields of an error answer.
func (p *refusal) headers(header http.Header) {
	header.Set("Cache-Control", "no-store")
	if p.status == http.StatusServiceUnavailable {
		header.Set("Retry-After", retryAfter) // RFC 9110 section 10.2.3
	}
}

// problem sends problem details (RFC 9457), with the member error that the description of the
// interface has.
func (h *Handler) problem(c *call, err error) {
	p := h.refusalFor(c, err)
	p.headers(c.w.Header())
	body, _ := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Error  string `json:"error"`
	}{"about:blank", http.StatusText(p.status), p.status, p.inEnglish(), p.inEnglish()}) // RFC 9457 section 4.2.1
	c.send(p.status, "application/problem+json", body)
}
