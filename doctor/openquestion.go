package doctor

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gatehouse.example/metadata"
)

// limit notes that an answer asks to come later: 429 (RFC 6585 section 4), or 503 with Retry-After
// (RFC 9110 section 15.6.4). What the server would say otherwise is not known.
func (e *exchange) limit() {
	after := e.get("Retry-After")
	if e.ofDocument() || e.status != http.StatusTooManyRequests && (e.status != http.StatusServiceUnavailable || after == "") {
		return
	}
	e.failure, e.reason = failLimited, fmt.Sprintf("answers %d", e.status)
	if after != "" {
		e.reason += " with Retry-After " + quoted(after)
	}
}

// The bounds of waiting for a server that asks to come later, once and in all.
const (
	maxPause  = 3 * time.Second
	maxPauses = 6 * time.Second
)

// pause returns how long to wait before a question is repeated, 0 if it is not.
func (e *exchange) pause() time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(e.get("Retry-After")))
	if e.failure != failLimited || err != nil || seconds < 0 || time.Duration(seconds)*time.Second > maxPause {
		return 0
	}
	return max(time.Duration(seconds)*time.Second, time.Second/10)
}

// again repeats a question once for which a server asked to come a little later.
func (w *walker) again(ctx context.Context, q question, e *exchange) *exchange {
	d := e.pause()
	if d == 0 || w.paused+d > maxPauses || w.courier.spent(ctx) != "" {
		return e
	}
	w.paused += d
	if w.sleep(ctx, d) != nil {
		return e
	}
	e.place += ".limited"
	w.exchanges = append(w.exchanges, e)
	return w.courier.ask(ctx, q)
}

// open tells why it is not known what clients are answered, "" if it is known.
func (e *exchange) open() string {
	switch {
	case e == nil:
		return "it was not asked"
	case e.failure == failBudget, e.failure == failForbid:
		return e.reason
	case e.failure == failLimited, e.failure == failTime && e.wrote:
		return e.String()
	}
	return ""
}

// open tells why nothing is known about a document, "" if something is.
func (d *document) open() string {
	if why := d.exchange.open(); why != "" {
		return why
	}
	if d.ok() && (d.over || d.late) {
		return d.exchange.String() + " with a body that " + d.uneven()
	}
	return ""
}

// uneven tells what is wrong with the end of a body that is cut.
func (e *exchange) uneven() string {
	switch {
	case e.over:
		return fmt.Sprintf("is larger than %d bytes", MaxBody)
	case e.late:
		return fmt.Sprintf("did not end in time, %d bytes came", len(e.body))
	}
	return fmt.Sprintf("breaks off after %d bytes", len(e.body))
}

// maxChallenge bounds a header with challenges, in bytes, as the package metadata does.
const maxChallenge = 16 << 10

// vast reports whether an answer has challenges that are too large to be read.
func (e *exchange) vast() bool {
	for _, value := range e.headers("WWW-Authenticate") {
		if len(value) > maxChallenge {
			return true
		}
	}
	return false
}

// unlinked tells why it is not known what is at the link of the challenge, "" if it is known or there
// is none.
func (w *walk) unlinked() string {
	e := w.unauthorized()
	if e.vast() {
		return fmt.Sprintf("WWW-Authenticate is larger than %d bytes", maxChallenge)
	}
	at := w.away()
	if at == "" || len(w.places) > 0 && w.places[0].form == "header" {
		return ""
	}
	return hostname(at) + " was not asked: the challenge names it; ask with --allow-host " + clean(hostname(at))
}

// away returns the link of the challenge if it is a URL of another origin, "" if it is not. RFC 9728
// section 5.1 allows any.
func (w *walk) away() string {
	c, ok := bearer(w.unauthorized())
	at, _ := c.Get("resource_metadata")
	if !ok || !askable(at) || sameOrigin(at, w.target) {
		return ""
	}
	return at
}

// unknown tells why it is not known whether there is resource metadata, "" if it is known.
func (w *walk) unknown() string {
	if why := w.unlinked(); why != "" {
		return why
	}
	for _, d := range w.places {
		if why := d.open(); why != "" {
			return why
		}
	}
	return ""
}

// loopback reports whether a host is this machine. Names have no case (RFC 4343 section 2).
func loopback(host string) bool { return metadata.IsLoopbackHost(strings.ToLower(host)) }

// tryTLS tells to try https, where a connection with http ended without an answer.
func (e *exchange) tryTLS() string {
	if strings.HasPrefix(e.url, "http:") && e.failure == failConnect && e.wrote {
		return " (if TLS is spoken at this port, write https://)"
	}
	return ""
}

// malformed reports whether a header has what HTTP forbids (RFC 9110 section 5.5).
func malformed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "malformed MIME header") || strings.Contains(text, "invalid header")
}

// share gives a part of the time that is left to some questions: what comes later needs time too.
func (w *walker) share(parent context.Context, part float64, do func(context.Context)) {
	end, ok := parent.Deadline()
	if !ok {
		do(parent)
		return
	}
	ctx, cancel := context.WithTimeout(parent, time.Duration(float64(time.Until(end))*part))
	defer cancel()
	do(ctx)
}
