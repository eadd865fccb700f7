package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"gatehouse.example/internal/headername"
)

// UpstreamHeaders are request headers with credentials of the gateway, such as an API key, that
// are sent to the upstream and to no other server. Clients can neither set nor read them. They
// can be replaced while gateways use them, and are safe for concurrent use. Make them with
// [NewUpstreamHeaders].
type UpstreamHeaders struct {
	current atomic.Pointer[upstreamHeaders]
}

type upstreamHeaders struct {
	header http.Header
	names  headername.Set
}

// maxCredential bounds the value of a header, in bytes.
const maxCredential = 8 << 10

// settable are credentials that the gateway never forwards from clients, and can send itself.
var settable = headername.NewSet("authorization", "cookie", "x-authorization", "x-access-token", "x-id-token", "x-serverless-authorization")

// meant are headers with a meaning of their own, which are no credentials.
var meant = headername.NewSet("accept*", "content-*", "if-*", "last-event-id", "mcp-*", "range", "traceparent", "tracestate", "user-agent", "via")

// NewUpstreamHeaders returns headers. An error is about a name that cannot hold a credential of
// the gateway, or a value that is empty or not visible ASCII; it does not repeat the value.
func NewUpstreamHeaders(header http.Header) (*UpstreamHeaders, error) {
	h := &UpstreamHeaders{}
	return h, h.Replace(header)
}

// Replace replaces all headers. After an error they are the same as before.
func (h *UpstreamHeaders) Replace(header http.Header) error {
	out := &upstreamHeaders{header: http.Header{}}
	var names []string
	for name, values := range header {
		switch {
		case !headername.Canonical(http.CanonicalHeaderKey(name)) || strings.Trim(name, "-") == "":
			return fmt.Errorf("upstream header %q: a name has letters, digits and hyphens", name)
		case !settable.Has(name) && (unsent.Has(name) || meant.Has(name)):
			return fmt.Errorf("upstream header %q: it is no credential, or the gateway sets it itself", name)
		case len(values) != 1 || !credential(values[0]):
			return fmt.Errorf("upstream header %q: its value must be one line of visible ASCII characters, at most %d", name, maxCredential)
		}
		out.header[http.CanonicalHeaderKey(name)] = []string{values[0]}
		names = append(names, headername.Fold(name))
	}
	out.names = headername.NewSet(names...)
	h.current.Store(out)
	return nil
}

// credential reports whether a text can be the value of a header, and is the same after readers
// have trimmed it (RFC 9110 section 5.5).
func credential(value string) bool {
	return value != "" && len(value) <= maxCredential && strings.TrimSpace(value) == value &&
		!strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' })
}

// String returns the names without the values.
func (h *UpstreamHeaders) String() string {
	if h == nil || h.current.Load() == nil {
		return "[]"
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(h.current.Load().header)))
}

// GoString returns the names without the values, for %#v.
func (h *UpstreamHeaders) GoString() string { return "gateway.UpstreamHeaders" + h.String() }

// LogValue returns the names without the values, for logs.
func (h *UpstreamHeaders) LogValue() slog.Value { return slog.StringValue(h.String()) }

// now returns the current headers, none for nil.
func (h *UpstreamHeaders) now() *upstreamHeaders {
	if h == nil || h.current.Load() == nil {
		return &upstreamHeaders{}
	}
	return h.current.Load()
}

// toUpstream returns an error for credentials that would have no effect, or that clients could set.
func (c *Config) toUpstream() error {
	header := c.UpstreamHeaders.now()
	passed := slices.IndexFunc(c.PassHeaders, header.names.Has)
	switch {
	case passed >= 0:
		return fmt.Errorf("header %q cannot be passed on: it is a credential of the gateway", c.PassHeaders[passed])
	case c.VerifyOnly && (c.UpstreamTLS != nil || len(header.header) > 0):
		return errors.New("there are credentials for an upstream, and nothing is forwarded to it")
	case c.UpstreamTLS != nil && c.Transport != nil:
		return errors.New("there are two transports to the upstream: set Transport or UpstreamTLS")
	case c.UpstreamTLS != nil && !strings.HasPrefix(strings.ToLower(c.Upstream), "https:"):
		return errors.New("there are settings of TLS, and the upstream is not https")
	}
	return nil
}
