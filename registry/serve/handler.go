// Package serve serves a catalogue of servers to programs and people.
//
// A [Handler] implements the interface of the official registry for programs, including its
// older form (requirements R-REC-1 to R-REC-7), and shows pages to people. It is read-only. The cost of one answer is limited,
// independently of the content of the catalogue and the request.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/message/icon"
	"gatehouse.example/registry"
	"gatehouse.example/storage/catalogue"
	"gatehouse.example/templates"
)

// Config configures a [Handler]. Catalogue is required.
type Config struct {
	// Catalogue is the catalogue to serve.
	Catalogue *catalogue.Catalogue
	// Prefix is the path under which the handler is mounted, such as /registry. Every path of
	// the handler begins with it. "" is the root.
	Prefix string
	// Title is the heading of the pages. Default: Servers.
	Title string
	// CacheAge is the time for which caches may reuse an answer without revalidation. Set it
	// to reduce the number of requests, if outdated answers are acceptable. With 0, caches
	// revalidate each time and mostly get 304.
	CacheAge time.Duration
	// Icons fetches the icons of servers for the pages. With nil the pages show no icons.
	Icons icon.Getter

	// Pages is the look of the pages. The program serves the logo, at its LogoPath.
	Pages templates.Look

	// MetaKey is this registry's own key of _meta, such as com.example.registry/catalogue. Set
	// it together with Enrich. Data of an upstream or a record under this key is dropped.
	MetaKey string
	// Enrich returns the value for MetaKey of an item, nil for none. It is called for every
	// item of every answer. If it fails, the item has no value.
	Enrich func(registry.Item) (json.RawMessage, error)
	// Revision returns a string that changes whenever results of Enrich may have changed. It
	// is required with Enrich, because it is part of the ETags.
	Revision func() string

	// Log receives faults. The default discards them.
	Log *slog.Logger
	// Now is the clock; nil means time.Now. Set it in tests.
	Now func() time.Time
}

// Handler serves the registry: to programs the interface of the official registry under /v0.1
// and /v0, to people pages under /. It is read-only and does not authenticate clients: wrap the
// handler of a private registry in a guard. It is safe for concurrent use.
type Handler struct {
	catalogue *catalogue.Catalogue
	prefix    string
	title     string
	age       string
	ownMeta   ownMeta
	revision  func() string
	icons     *icon.Album // nil: no icons are shown
	names     *nameIndex
	builder   *builder
	pages     *templates.Registry
	policy    string
	log       *slog.Logger
	now       func() time.Time

	lastFault atomic.Int64 // the minute of the last line of logFault
}

// New returns a handler, or an error if the configuration is invalid.
func New(c Config) (*Handler, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("registry/serve: %w", err)
	}
	pages, err := c.Pages.Registry()
	if err != nil {
		return nil, fmt.Errorf("registry/serve: %w", err)
	}
	h := &Handler{
		catalogue: c.Catalogue, prefix: c.Prefix, title: c.Title, age: "no-cache",
		ownMeta: ownMeta{key: c.MetaKey, enrich: c.Enrich}, revision: c.Revision,
		names: newNameIndex(c.Catalogue), builder: newBuilder(),
		pages: pages, policy: pages.ContentSecurityPolicy() + "; form-action 'self'", log: c.Log, now: c.Now,
	}
	if c.CacheAge > 0 {
		// Without public, no shared cache stores the answer to a request with an Authorization
		// field (RFC 9111 section 3.5).
		h.age = "max-age=" + strconv.Itoa(int(c.CacheAge/time.Second))
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.revision == nil {
		h.revision = func() string { return "" }
	}
	if h.now == nil {
		h.now = time.Now
	}
	if c.Icons != nil {
		h.icons = icon.NewAlbum(c.Icons, h.now)
	}
	return h, nil
}

func (c Config) check() error {
	switch {
	case c.Catalogue == nil:
		return errors.New("it needs a Catalogue")
	case c.Prefix != "" && !validPrefix(c.Prefix):
		return fmt.Errorf("the Prefix %q is not like /registry", c.Prefix)
	case c.CacheAge < 0:
		return errors.New("CacheAge is negative")
	case c.Enrich != nil && (c.MetaKey == "" || c.Revision == nil):
		return errors.New("an Enrich needs MetaKey and Revision")
	case c.MetaKey == "":
		return nil
	}
	return registry.CheckMetaKey(c.MetaKey)
}

// prefixPattern matches paths that need no escaping.
var prefixPattern = regexp.MustCompile(`^/[a-zA-Z0-9/._~-]+$`)

func validPrefix(prefix string) bool {
	return path.Clean(prefix) == prefix && prefixPattern.MatchString(prefix)
}

const (
	// readTime is the time limit of a request.
	readTime = 1900 * time.Millisecond
	// retryAfter is the value of Retry-After in 503 answers, in seconds.
	retryAfter = "2"
)

// call is one request in progress.
type call struct {
	w   http.ResponseWriter
	r   *http.Request
	ctx context.Context
	route
	leave func() // gives the place back in which the answer is built; nil if there is none, see place
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(withRequester(r), readTime)
	defer cancel()
	c := &call{w: w, r: r, ctx: ctx}
	path, inside := strings.CutPrefix(r.URL.EscapedPath(), h.prefix)
	var err error
	if c.route, err = resolve(path); !inside {
		err = errNoPage
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Vary", "Accept-Encoding") // RFC 9110 section 12.5.5
	if c.api {
		allowCORS(w.Header())
	}
	if err == nil {
		err = h.serve(c, path)
	}
	switch {
	case err == nil:
	case c.api:
		h.problem(c, err)
	default:
		h.errorPage(c, err)
	}
}

// withRequester returns the context of a request with the address of the client for
// fair.Requester. An address that the caller has put into the context, such as one from a
// trusted proxy, takes precedence over that of the connection.
func withRequester(r *http.Request) context.Context {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if fair.Requester(r.Context()).IsValid() || err != nil {
		return r.Context()
	}
	return fair.WithRequester(r.Context(), peer.Addr())
}

// allowCORS lets pages of every origin read the answer (Fetch standard, CORS protocol), with the headers
// that a guard around the handler names too.
func allowCORS(header http.Header) {
	header.Set("Access-Control-Allow-Origin", "*")
	header.Add("Access-Control-Expose-Headers", "ETag, Retry-After")
}

const allowedMethods = "GET, HEAD, OPTIONS"

// serve handles the method and trailing slashes, and calls the route's handler.
func (h *Handler) serve(c *call, path string) error {
	switch c.r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		c.w.Header().Set("Allow", allowedMethods)
		if c.api {
			c.w.Header().Set("Access-Control-Allow-Methods", "GET")
			c.w.Header().Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, If-None-Match, MCP-Protocol-Version")
			c.w.Header().Set("Access-Control-Max-Age", "86400")
		}
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	default:
		c.w.Header().Set("Allow", allowedMethods) // RFC 9110 section 15.5.6
		return &refusal{status: http.StatusMethodNotAllowed, detail: "This registry is read-only: it supports GET and HEAD."}
	}
	if strings.HasSuffix(path, "/") && path != "/" || path == "" {
		h.redirect(c, "/"+strings.Trim(path, "/"))
		return nil
	}
	return c.serve(h, c)
}

// redirect redirects to a path of this handler, from the same path with a slash at its end.
// Such a path cannot name another host.
func (h *Handler) redirect(c *call, to string) {
	to = h.prefix + to
	if c.r.URL.RawQuery != "" {
		to += "?" + c.r.URL.RawQuery
	}
	c.w.Header().Set("Location", to)
	c.w.WriteHeader(http.StatusPermanentRedirect)
}

// send writes an answer with a body. The answer to HEAD has the length of the body and not the
// body (RFC 9110 section 9.3.2). The answer is built then, so its place is free for others: how long
// sending takes is up to the client.
func (c *call) send(status int, contentType string, body []byte) {
	if c.leave != nil {
		c.leave()
	}
	header := c.w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body) // fails if the client has gone, which needs no action
	}
}
