package gateway

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
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

// Why an answer of the upstream does not reach the client.
var (
	errCredentials = errors.New("the upstream wants credentials of its own: it must accept the requests of the gateway without any")
	errElsewhere   = errors.New("the upstream redirects to somewhere that is not below it: name the URL at which it answers itself")
	errSwitched    = errors.New("the upstream switched to another protocol without being asked")
)

// retryAfter is when a client may try again what the upstream did not answer, in seconds.
const retryAfter = 5

// newTransport makes connections to the upstream. There is no bound on how long an answer
// takes: tools may be slow.
func newTransport() http.RoundTripper {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 256,
		// Servers of some languages close idle connections after five seconds. A message that is
		// being sent at that moment would be lost, and must not be sent twice.
		IdleConnTimeout:        4 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // bodies pass as they are
	}
}

// silent is a transport that tells nothing but the answer: no answers before it (103), and
// nothing after its body.
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

// untraced is a context without the hooks by which the proxy would learn of such answers.
type untraced struct{ context.Context }

// Value implements context.Context.
func (u untraced) Value(key any) any {
	value := u.Context.Value(key)
	if _, hooks := value.(*httptrace.ClientTrace); hooks {
		return nil
	}
	return value
}

// newProxy returns what forwards admitted requests. What it would log, the hooks log.
func (g *Gateway) newProxy(transport http.RoundTripper) *httputil.ReverseProxy {
	if transport == nil {
		transport = newTransport()
	}
	return &httputil.ReverseProxy{
		Transport:      reopening{silent{transport}},
		FlushInterval:  -1, // streams pass as they come
		Rewrite:        g.rewrite,
		ModifyResponse: g.admitAnswer,
		ErrorHandler:   g.failed,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
}

// forward sends a request that the guard admitted to the upstream.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r.Context())
	if token, ok := middleware.TokenFrom(r.Context()); ok {
		var err error
		if v.identity, err = g.identify(token); err != nil {
			g.log.ErrorContext(r.Context(), "nobody can be told who calls", "error", err)
			g.refuse(w, r, refusal{status: http.StatusInternalServerError, description: "The gateway failed."})
			return
		}
	}
	if v.body != nil && !g.reads {
		_ = http.NewResponseController(w).EnableFullDuplex() // an error says that it always is
	}
	r.Header.Del("Upgrade") // RFC 9110 section 7.8: a server MAY ignore it
	g.proxy.ServeHTTP(w, r)
}

// identify returns the headers that say who a token speaks for.
func (g *Gateway) identify(token *middleware.Token) (http.Header, error) {
	switch g.identity {
	case IdentityHeaders:
		return identityHeaders(token), nil
	case IdentityAssertion:
		signed, err := g.asserter.sign(token)
		return http.Header{HeaderAssertion: {signed}}, err
	}
	return nil, nil
}

// rewrite makes the request for the upstream.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	v, out := visitOf(pr.In.Context()), pr.Out
	out.URL.Scheme, out.URL.Host, out.Host = g.places.upstream.Scheme, g.places.upstream.Host, ""
	out.URL.Path, out.URL.RawPath = under(g.places.upstream, v.rest)
	out.URL.RawQuery = pr.In.URL.RawQuery // nothing was decided by it
	out.Trailer = nil
	strip(out.Header, g.passes.drops)
	// RFC 9110 section 7.6.3: a gateway MUST send Via with each request that it forwards.
	out.Header.Add("Via", strings.TrimPrefix(pr.In.Proto, "HTTP/")+" gatehouse")
	out.Header["X-Forwarded-For"] = []string{senders(pr.In, v.remote)}
	out.Header["X-Forwarded-Host"] = []string{g.places.resource.Host}
	out.Header["X-Forwarded-Proto"] = []string{g.places.resource.Scheme}
	pass(pr.In.Context(), out.Header)
	for name, values := range v.identity {
		out.Header[name] = values
	}
}

// pass names the request to the upstream as our log does. What the client called it stays in
// our log, and what it says of its trace goes on only as the specification has it: a
// traceparent that cannot be read is not passed on, nor a tracestate without one (W3C Trace
// Context, section 4.3).
func pass(ctx context.Context, header http.Header) {
	id := requestid.From(ctx)
	header[requestid.Header] = []string{id.Own}
	if id.Trace == "" {
		header.Del(requestid.TraceHeader)
		header.Del("Tracestate")
	}
}

// senders is the client, and the proxy that told of it.
func senders(r *http.Request, remote netip.Addr) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	switch {
	case err != nil:
		return "unknown" // RFC 7239 section 6.2
	case !remote.IsValid() || remote == peer.Addr().Unmap():
		return peer.Addr().Unmap().String()
	}
	return remote.String() + ", " + peer.Addr().Unmap().String()
}

// admitAnswer judges the header of an answer, and takes out what is not for the client.
func (g *Gateway) admitAnswer(res *http.Response) error {
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return errCredentials
	case http.StatusSwitchingProtocols:
		return errSwitched
	}
	strip(res.Header, unanswered.Has)
	if err := g.relocate(res); err != nil {
		return err
	}
	visitOf(res.Request.Context()).leave(res.Request, res.Header)
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // the guard looks no further than the type, either
	res.Body = &answer{ReadCloser: res.Body, request: res.Request, log: g.log, events: media == "text/event-stream"}
	return nil
}

// relocate replaces a URL of the upstream, which clients do not know, by the public one.
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

// answer is the body of an answer.
type answer struct {
	io.ReadCloser
	request *http.Request
	log     *slog.Logger
	events  bool
}

// Read implements io.Reader. A stream of events whose time is over, or which the guard ended,
// ends like one that is complete: an event that has begun is of no use to anybody (HTML
// standard, section 9.2.6).
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	ctx := a.request.Context()
	switch {
	case err == nil || errors.Is(err, io.EOF):
	case a.events && ctx.Err() != nil:
		return n, io.EOF
	case ctx.Err() == nil:
		a.log.WarnContext(ctx, "the upstream hung up in the middle of an answer", "path", a.request.URL.EscapedPath(), "error", err)
	}
	return n, err
}

func stopping(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrStopping)
}

// failed answers a request that got no answer from the upstream, or none that the client
// may have.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	v := visitOf(ctx)
	v.leave(r, w.Header())
	unsent := v.body.Failure()
	switch {
	case errors.Is(unsent, os.ErrDeadlineExceeded):
		g.refuse(w, r, refusal{status: http.StatusRequestTimeout, description: "The message took too long to arrive."})
	case stopping(ctx):
		g.refuse(w, r, refusal{status: http.StatusServiceUnavailable, description: "The gateway is stopping.", retryAfter: retryAfter})
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		g.refuse(w, r, refusal{status: http.StatusGatewayTimeout, description: "The access token expired before there was an answer."})
	case ctx.Err() != nil:
		panic(http.ErrAbortHandler) // the client is gone
	case unsent != nil:
		g.refuse(w, r, refusal{status: http.StatusBadRequest, description: "The message did not arrive as a whole."})
	default:
		g.unanswered(w, r, err)
	}
}

// unanswered answers for an upstream that is down or wrong.
func (g *Gateway) unanswered(w http.ResponseWriter, r *http.Request, err error) {
	why := refusal{status: http.StatusBadGateway, description: "The server behind the gateway does not answer.", retryAfter: retryAfter}
	if errors.Is(err, errCredentials) || errors.Is(err, errElsewhere) || errors.Is(err, errSwitched) {
		why = refusal{status: http.StatusBadGateway, description: "The server behind the gateway gave an answer that cannot be passed on."}
	}
	g.log.WarnContext(r.Context(), "the upstream failed", "upstream", g.places.upstream.String(), "path", r.URL.EscapedPath(), "error", err)
	why.write(w, r)
}
