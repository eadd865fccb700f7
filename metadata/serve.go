package metadata

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxAge is the time for which caches may keep a document of [Serve].
const MaxAge = 5 * time.Minute

// corsRequestHeaders are the request headers that a page of another origin may send
// when it fetches a document. Protocol clients in browsers add all of them.
const corsRequestHeaders = "Accept, Authorization, Content-Type, If-None-Match, Last-Event-ID, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id"

// Serve returns a handler that answers GET and HEAD with doc as JSON. It marshals doc once,
// before it returns. The handler sends a strong ETag and answers 304 to a matching
// If-None-Match (RFC 9110 section 13.1.2). Metadata is public, so every origin may read it,
// without credentials, and OPTIONS answers preflights. Every other method gets 405 with Allow
// (RFC 9110 section 15.5.6).
func Serve(doc any) (http.Handler, error) { return ServeFor(doc, MaxAge) }

// ServeFor is [Serve] with another time for caches, in whole seconds. Use it for a document
// that may be replaced.
func ServeFor(doc any, maxAge time.Duration) (http.Handler, error) {
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("metadata: document: %w", err)
	}
	sum := sha256.Sum256(body)
	etag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	d := &document{body: body, etag: etag}
	d.common = http.Header{
		"Access-Control-Allow-Origin":   {"*"},
		"Access-Control-Expose-Headers": {"ETag, WWW-Authenticate"},
		"X-Content-Type-Options":        {"nosniff"},
	}
	d.cached = http.Header{
		"Cache-Control": {"public, max-age=" + strconv.Itoa(int(maxAge/time.Second))},
		"Etag":          {etag},
	}
	d.content = http.Header{
		"Content-Type":   {"application/json"},
		"Content-Length": {strconv.Itoa(len(body))},
	}
	d.preflight = http.Header{
		"Access-Control-Allow-Methods": {"GET, HEAD, OPTIONS"},
		"Access-Control-Allow-Headers": {corsRequestHeaders},
		"Access-Control-Max-Age":       {"86400"},
		"Allow":                        {"GET, HEAD, OPTIONS"},
	}
	return d, nil
}

// document is a JSON document with its headers, all computed once: answering a
// request allocates nothing.
type document struct {
	body                               []byte
	etag                               string
	common, cached, content, preflight http.Header
}

func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	setAll(header, d.common)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		d.get(w, r)
	case http.MethodOptions:
		setAll(header, d.preflight)
		w.WriteHeader(http.StatusNoContent)
	default:
		header["Allow"] = d.preflight["Allow"]
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (d *document) get(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	setAll(header, d.cached)
	if etagMatches(r.Header["If-None-Match"], d.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	setAll(header, d.content)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(d.body) // an error means that the client is gone
	}
}

// setAll copies the fields of src to dst. The slices are shared: they are never changed, and an
// append to them allocates.
func setAll(dst, src http.Header) {
	for name, values := range src {
		dst[name] = values
	}
}

// etagMatches reports whether If-None-Match fields match etag, by the weak comparison (RFC 9110
// section 13.1.2).
func etagMatches(fields []string, etag string) bool {
	for _, field := range fields {
		for candidate := range strings.SplitSeq(field, ",") {
			candidate = strings.Trim(candidate, " \t")
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
				return true
			}
		}
	}
	return false
}
