package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"os"
	"strings"
	"time"

	"gatehouse.example/internal/requestid"
	"gatehouse.example/middleware"
)

// The reasons for which the gateway does not forward a response.
var (
	errCredentials = errors.New("the upstream requires credentials of its own: it must accept the requests of the gateway, without any or with those in the settings for the upstream")
	errElsewhere   = errors.New("the upstream redirects to a URL that is not below its own: configure the URL at which it answers without a redirect")
	errSwitched    = errors.New("the upstream switched to another protocol without a request for it")
)

// retryAfter is the Retry-After for requests that the upstream did not answer, in seconds.
const retryAfter = 5

// flushPause is how long a part of a body of known length may wait for the next one. Most such bodies
// come as a whole, and then header and body go out at once. The proxy forwards streams of events and
// bodies of unknown length without waiting in any case.
const flushPause = 10 * time.Millisecond

// newTransport returns the default transport to the upstream. It does not limit the time of a
// response, because tools may be slow.
func newTransport(settings *tls.Config) http.RoundTripper {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     settings,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 256,
		// Some servers close idle connections after five seconds. A message that is being sent at
		// that moment would be lost, and must not be sent twice.
		IdleConnTimeout:        4 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // bodies are forwarded as they are
	}
}

// silent is a transport without informational responses (such as 103) and without trailers.
type silent struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.RoundTripper.RoundTrip(r.WithContext(untraced{r.Context()}))
	if err != nil {
		return nil, err
	}
	out := *res // trailers are written to the original
	out.Trailer = nil
	return &out, nil
}

// untraced is a context without the hooks that report informational responses to the proxy.
type untraced struct{ context.Context }

// Value implements context.Context.
func (u untraced) Value(key any) any {
	value := u.Context.Value(key)
	if _, hooks := value.(*httptrace.ClientTrace); hooks {
		return nil
	}
	return value
}

// newProxy returns the reverse proxy for admitted requests. It does not log: its hooks do.
func (g *Gateway) newProxy(transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:      reopening{silent{transport}},
		FlushInterval:  flushPause,
		BufferPool:     &buffers{},
		Rewrite:        g.rewrite,
		ModifyResponse: g.admitAnswer,
		ErrorHandler:   g.failed,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
}

// forward sends a request that the guard admitted to the upstream.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r.Context())
	var about *boundRequest
	if g.binds {
		var ok bool
		if about, ok = g.bind(w, r, v); !ok {
			return
		}
	}
	if token, ok := middleware.TokenFrom(r.Context()); ok {
		var err error
		v.identify = func() (http.Header, error) { return g.identify(token, about) }
		if v.identity, err = v.identify(); err != nil {
			g.log.ErrorContext(r.Context(), "cannot sign an assertion", "error", err)
			g.refuse(w, r, refusal{status: http.StatusInternalServerError, description: "The gateway failed."})
			return
		}
	}
	if v.body != nil && v.streams {
		_ = http.NewResponseController(w).EnableFullDuplex() // fails only where it is always on
	}
	r.Header.Del("Upgrade") // RFC 9110 section 7.8: a server MAY ignore it
	defer v.end(w)
	g.proxy.ServeHTTP(w, r)
	v.whole = true
}

// identify returns the headers with the identity of the caller with a token, for a request unless
// it is nil.
func (g *Gateway) identify(token *middleware.Token, about *boundRequest) (http.Header, error) {
	switch g.identity {
	case IdentityHeaders:
		return identityHeaders(token), nil
	case IdentityAssertion:
		signed, err := g.asserter.sign(token, about)
		return http.Header{HeaderAssertion: {signed}}, err
	}
	return nil, nil
}

// rewrite makes the request for the upstream.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	v, out := visitOf(pr.In.Context()), pr.Out
	out.URL.Scheme, out.URL.Host, out.Host = g.places.upstream.Scheme, g.places.upstream.Host, ""
	out.URL.Path, out.URL.RawPath = under(g.places.upstream, v.rest)
	out.URL.RawQuery = pr.In.URL.RawQuery // as it is: no decision depends on it
	out.Trailer = nil
	own := g.headers.now()
	strip(out.Header, func(name string) bool { return g.drops.of(name) || own.names.Has(name) })
	// RFC 9110 section 7.6.3: a gateway MUST send Via with each request that it forwards.
	out.Header.Add("Via", strings.TrimPrefix(pr.In.Proto, "HTTP/")+" gatehouse")
	out.Header["X-Forwarded-For"] = []string{forwardedFor(pr.In, v.remote)}
	out.Header["X-Forwarded-Host"] = []string{g.places.resource.Host}
	out.Header["X-Forwarded-Proto"] = []string{g.places.resource.Scheme}
	setRequestID(pr.In.Context(), out.Header)
	for _, added := range []http.Header{v.identity, own.header} {
		maps.Copy(out.Header, added)
	}
}

// setRequestID sends the id of the request to the upstream, and not the id that the client sent.
// It removes a traceparent that is invalid, and a tracestate without a traceparent (W3C Trace
// Context, section 4.3).
func setRequestID(ctx context.Context, header http.Header) {
	id := requestid.From(ctx)
	header[requestid.Header] = []string{id.Own}
	if id.Trace == "" {
		header.Del(requestid.TraceHeader)
		header.Del("Tracestate")
	}
}

// forwardedFor returns the value of X-Forwarded-For: the client, and the trusted proxy in front
// of the gateway if there is one.
func forwardedFor(r *http.Request, remote netip.Addr) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	switch {
	case err != nil:
		return "unknown" // RFC 7239 section 6.2
	case !remote.IsValid() || remote == peer.Addr().Unmap():
		return peer.Addr().Unmap().String()
	}
	return remote.String() + ", " + peer.Addr().Unmap().String()
}

// admitAnswer returns an error for a response that must not be forwarded, and removes headers
// that are not for the client.
func (g *Gateway) admitAnswer(res *http.Response) error {
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return errCredentials
	case http.StatusSwitchingProtocols:
		return errSwitched
	}
	own := g.headers.now()
	strip(res.Header, func(name string) bool { return dropsAnswer.of(name) || own.names.Has(name) })
	if err := g.relocate(res); err != nil {
		return err
	}
	v := visitOf(res.Request.Context())
	v.leave(res.Request, res.Header)
	v.answered = true
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // the guard ignores parameters, too
	res.Body = &answer{ReadCloser: res.Body, request: res.Request, log: g.log, events: media == "text/event-stream"}
	return nil
}

// relocate replaces a Location at the upstream, which clients cannot reach, by the public URL.
func (g *Gateway) relocate(res *http.Response) error {
	location := res.Header.Get("Location")
	if location == "" {
		return nil
	}
	if at, err := res.Request.URL.Parse(location); err == nil {
		if public, ok := g.places.back(at); ok {
			res.Header.Set("Location", public.String())
			return nil
		}
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return errElsewhere
	}
	res.Header.Del("Location")
	return nil
}

// answer is the body of a response.
type answer struct {
	io.ReadCloser
	request *http.Request
	log     *slog.Logger
	events  bool
}

// Read implements io.Reader. A stream of events that ends with its context ends like a complete
// one: clients discard an incomplete event (HTML standard, section 9.2.6).
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	ctx := a.request.Context()
	switch {
	case err == nil || errors.Is(err, io.EOF):
	case a.events && ctx.Err() != nil:
		return n, io.EOF
	case ctx.Err() == nil:
		a.log.WarnContext(ctx, "the upstream closed the connection in the middle of a response", "path", a.request.URL.EscapedPath(), "error", err)
	}
	return n, err
}

func stopping(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrStopping)
}

// failed answers a request for which there is no response that can be forwarded.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	v := visitOf(ctx)
	v.leave(r, w.Header())
	bodyErr := v.body.Failure()
	switch {
	case errors.Is(bodyErr, os.ErrDeadlineExceeded):
		g.refuse(w, r, refusal{status: http.StatusRequestTimeout, description: "The message took too long to arrive."})
	case stopping(ctx):
		g.refuse(w, r, refusal{status: http.StatusServiceUnavailable, description: "The gateway is stopping.", retryAfter: retryAfter})
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		g.refuse(w, r, refusal{status: http.StatusGatewayTimeout, description: "The access token expired before there was an answer."})
	case ctx.Err() != nil:
		panic(http.ErrAbortHandler) // the client is gone
	case bodyErr != nil:
		g.refuse(w, r, refusal{status: http.StatusBadRequest, description: "The message did not arrive as a whole."})
	default:
		g.upstreamFailed(w, r, err)
	}
}

// upstreamFailed answers and logs a request if the upstream is down or its response cannot be
// forwarded.
func (g *Gateway) upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	why := refusal{status: http.StatusBadGateway, description: "The server behind the gateway does not answer.", retryAfter: retryAfter}
	if errors.Is(err, errCredentials) || errors.Is(err, errElsewhere) || errors.Is(err, errSwitched) {
		why = refusal{status: http.StatusBadGateway, description: "The server behind the gateway gave an answer that cannot be passed on."}
	}
	g.log.WarnContext(r.Context(), "the upstream failed", "upstream", g.places.upstream.String(), "path", r.URL.EscapedPath(), "error", err)
	why.write(w, r)
}
