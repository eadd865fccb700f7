// Package serve shows a catalogue of servers to programs and people.
//
// A [Handler] answers programs through the interface of the official registry, and in the
// older form of requirements R-REC-1 to R-REC-7, and people with pages. Nobody can change anything
// through it. What one answer costs is bounded, whatever is stored and whatever is asked.
package serve

import (
	"cmp"
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

// Config says what a [Handler] shows.
type Config struct {
	// Catalogue is what the handler shows.
	Catalogue *catalogue.Catalogue
	// Prefix is the path under which the handler is mounted, such as /registry. It begins
	// every path that the handler answers at; "" is the root.
	Prefix string
	// Title is the heading of the pages. "" means "Servers".
	Title string
	// CacheAge is how long others may keep an answer without asking again. With 0 they ask
	// each time, and are mostly told that nothing changed.
	CacheAge time.Duration
	// Icons fetches the icons of servers for the pages. Without it none is shown.
	Icons icon.Getter

	// MetaKey is the key in _meta under which this registry speaks itself, such as
	// com.example.registry/catalogue. Whatever else comes under it, from an upstream or in
	// a record, is left out.
	MetaKey string
	// Enrich returns what is said under MetaKey about an item, nil for nothing. What it
	// fails to say is left out. It is called for every item of every answer.
	Enrich func(registry.Item) (json.RawMessage, error)
	// Revision changes whenever Enrich may say something else than before. Enrich needs it.
	Revision func() string

	// Log is where faults go; nil means nowhere.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Handler answers readers of the registry: programs through the interface of the official
// registry under /v0.1 and /v0, and people with pages under /. Nobody can change anything
// through it, and it asks for no authentication: a registry that is private is wrapped by
// what guards it. It is safe for concurrent use.
type Handler struct {
	catalogue *catalogue.Catalogue
	prefix    string
	title     string
	age       string
	speaks    voice
	revision  func() string
	icons     *icon.Album // nil: none are shown
	names     *nameIndex
	makers    *makers
	pages     *templates.Registry
	policy    string
	log       *slog.Logger
	now       func() time.Time

	complained atomic.Int64 // the minute of the last complaint
}

// New returns a Handler.
func New(c Config) (*Handler, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("registry/serve: %w", err)
	}
	pages, err := templates.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("registry/serve: %w", err)
	}
	h := &Handler{
		catalogue: c.Catalogue, prefix: c.Prefix, title: cmp.Or(c.Title, "Servers"), age: "no-cache",
		speaks: voice{key: c.MetaKey, enrich: c.Enrich}, revision: c.Revision,
		names: newNameIndex(c.Catalogue), makers: newMakers(),
		pages: pages, policy: pages.ContentSecurityPolicy() + "; form-action 'self'", log: c.Log, now: c.Now,
	}
	if c.CacheAge > 0 {
		// Without the word public no shared cache keeps what was asked for with a token
		// (RFC 9111 section 3.5).
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

// prefixPattern is what a path is made of that needs no escaping.
var prefixPattern = regexp.MustCompile(`^/[a-zA-Z0-9/._~-]+$`)

func validPrefix(prefix string) bool {
	return path.Clean(prefix) == prefix && prefixPattern.MatchString(prefix)
}

const (
	// readTime bounds a request.
	readTime = 1900 * time.Millisecond
	// retryAfter is what a reader is told to wait when the store does not answer, in seconds.
	retryAfter = "2"
)

// call is one request on its way.
type call struct {
	w   http.ResponseWriter
	r   *http.Request
	ctx context.Context
	route
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(onBehalf(r), readTime)
	defer cancel()
	c := &call{w: w, r: r, ctx: ctx}
	path, inside := strings.CutPrefix(r.URL.EscapedPath(), h.prefix)
	var err error
	if c.route, err = resolve(path); !inside {
		err = errNothing
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Vary", "Accept-Encoding") // RFC 9110 section 12.5.5
	if c.api {
		allowReaders(w.Header())
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

// onBehalf is the context of a request that knows where it came from. Whoever calls the
// handler may have put a better answer there than the connection has, such as what a proxy
// says.
func onBehalf(r *http.Request) context.Context {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if fair.Requester(r.Context()).IsValid() || err != nil {
		return r.Context()
	}
	return fair.WithRequester(r.Context(), peer.Addr())
}

// allowReaders lets pages of every origin read what everybody may read (Fetch standard, CORS
// protocol).
func allowReaders(header http.Header) {
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Expose-Headers", "ETag, Retry-After")
}

const allowedMethods = "GET, HEAD, OPTIONS"

// serve does what does not depend on the place, and then goes there.
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
		return &refusal{http.StatusMethodNotAllowed, "This registry is read-only: GET and HEAD are all there is."}
	}
	if strings.HasSuffix(path, "/") && path != "/" || path == "" {
		h.move(c, "/"+strings.Trim(path, "/"))
		return nil
	}
	return c.serve(h, c)
}

// move leads from a path with a slash behind it to the one without. The path is one of
// ours, so it cannot name another host.
func (h *Handler) move(c *call, to string) {
	to = h.prefix + to
	if c.r.URL.RawQuery != "" {
		to += "?" + c.r.URL.RawQuery
	}
	c.w.Header().Set("Location", to)
	c.w.WriteHeader(http.StatusPermanentRedirect)
}

// send writes an answer with a body. The body of an answer to HEAD is not sent, its length
// is (RFC 9110 section 9.3.2).
func (c *call) send(status int, contentType string, body []byte) {
	header := c.w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body) // the client may be gone, and nobody else would want to know
	}
}
