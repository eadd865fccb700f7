package middleware_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

func TestPreflight(t *testing.T) {
	guard := newGuard(t, middlewaretest.NewIssuer(t))
	var h inner
	res := serve(guard.Protect(&h), newRequest("OPTIONS", resource,
		"Origin", "https://inspector.example.org", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization,content-type,Mcp-Param-Region, mcp-param-x_1,x-other,mcp-param-,mcp-param-a\"b"))
	if res.StatusCode != http.StatusNoContent || len(h.requests) > 0 || res.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Fatalf("%s %v", res.Status, res.Header)
	}
	if res.Header.Get("Access-Control-Allow-Credentials") != "" || res.Header.Get("Www-Authenticate") != "" {
		t.Errorf("%v", res.Header)
	}
	allowed := make(map[string]bool)
	for name := range strings.SplitSeq(res.Header.Get("Access-Control-Allow-Headers"), ", ") {
		allowed[strings.ToLower(name)] = true
	}
	for _, name := range []string{"authorization", "content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "last-event-id", "mcp-param-region", "mcp-param-x_1"} {
		if !allowed[name] {
			t.Errorf("%s is not allowed", name)
		}
	}
	for name := range allowed {
		if name == "x-other" || name == "mcp-param-" || strings.ContainsAny(name, "\" *") {
			t.Errorf("%q is allowed", name)
		}
	}
	for _, method := range []string{"GET", "POST", "DELETE"} {
		if !strings.Contains(res.Header.Get("Access-Control-Allow-Methods"), method) {
			t.Errorf("%s is not allowed", method)
		}
	}
	if res := serve(guard.Protect(&h), newRequest("OPTIONS", resource)); res.StatusCode != http.StatusNoContent || len(h.requests) > 0 {
		t.Errorf("OPTIONS without an origin: %s", res.Status)
	}
}

func TestAnswersAreReadableByPages(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer)
	for _, request := range []*http.Request{newRequest("POST", resource, "Origin", "https://inspector.example.org"), withToken(issuer.Mint(claims{"aud": resource}))} {
		res := serve(guard.Protect(&inner{}), request)
		if res.Header.Get("Access-Control-Allow-Origin") != "*" || res.Header.Get("Access-Control-Allow-Credentials") != "" ||
			!strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") ||
			!strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
			t.Errorf("%s %v", res.Status, res.Header)
		}
	}
}

// arriving sets the local address of the connection in the context of a request, as net/http
// does.
func arriving(r *http.Request, ip string) *http.Request {
	addr := &net.TCPAddr{IP: net.ParseIP(ip), Port: 8081}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
}

func TestHostAndOriginOnLoopback(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	const local = "http://127.0.0.1:8081/mcp"
	listed := []string{"https://inspector.example.org"}
	for _, tt := range []struct {
		name, resource, listener string
		origins                  []string
		host, origin             string
		want                     bool
	}{
		{"no origin", local, "127.0.0.1", nil, "127.0.0.1:8081", "", true},
		{"localhost", local, "127.0.0.1", nil, "localhost:8081", "", true},
		{"capitals", local, "127.0.0.1", nil, "LOCALHOST:8081", "", true},
		{"IPv6", local, "::1", nil, "[::1]:8081", "", true},
		{"no port", local, "127.0.0.1", nil, "localhost", "", true},
		{"origin on loopback", local, "127.0.0.1", nil, "localhost:8081", "http://localhost:6274", true},
		{"origin on IPv6 loopback", local, "127.0.0.1", nil, "localhost:8081", "http://[::1]:6274", true},
		{"https origin on loopback", local, "127.0.0.1", nil, "localhost:8081", "https://127.0.0.1", true},
		{"listed origin", local, "127.0.0.1", listed, "127.0.0.1:8081", "https://inspector.example.org", true},
		{"any origin", local, "127.0.0.1", []string{"*"}, "127.0.0.1:8081", "https://anything.example.org", true},
		{"own host behind a proxy", resource, "127.0.0.1", nil, "notes.example.com", "", true},
		{"own host with a port", resource, "127.0.0.1", nil, "Notes.example.com:443", "", true},
		{"own origin behind a proxy", resource, "127.0.0.1", nil, "notes.example.com", "https://notes.example.com", true},
		{"elsewhere, any host and origin", resource, "192.0.2.7", nil, "10.0.0.1", "https://anything.example.org", true},
		{"elsewhere, no listener known", resource, "", nil, "whatever.example.org", "null", true},

		{"rebound name", local, "127.0.0.1", nil, "evil.example.org:8081", "", false},
		{"rebound name, loopback origin", local, "127.0.0.1", nil, "evil.example.org", "http://localhost:6274", false},
		{"rebound name that begins right", local, "127.0.0.1", nil, "localhost.evil.example.org", "", false},
		{"rebound name, listener not loopback", local, "192.0.2.7", nil, "evil.example.org", "", false},
		{"rebound name, resource not loopback", resource, "127.0.0.1", nil, "evil.example.org", "", false},
		{"rebound name, IPv6 listener", resource, "::1", nil, "evil.example.org", "", false},
		{"no host", local, "127.0.0.1", nil, "", "", false},
		{"all interfaces", local, "127.0.0.1", nil, "0.0.0.0:8081", "", false},
		{"foreign origin", local, "127.0.0.1", nil, "127.0.0.1:8081", "https://evil.example.org", false},
		{"foreign origin, resource not loopback", resource, "127.0.0.1", nil, "notes.example.com", "https://evil.example.org", false},
		{"origin null", local, "127.0.0.1", nil, "127.0.0.1:8081", "null", false},
		{"origin with a listed prefix", local, "127.0.0.1", listed, "127.0.0.1:8081", "https://inspector.example.org.evil.example.org", false},
		{"listed origin over http", local, "127.0.0.1", listed, "127.0.0.1:8081", "http://inspector.example.org", false},
		{"listed origin, other port", local, "127.0.0.1", listed, "127.0.0.1:8081", "https://inspector.example.org:8443", false},
		{"listed origin, other host", local, "127.0.0.1", listed, "evil.example.org", "https://inspector.example.org", false},
		{"origin that begins with localhost", local, "127.0.0.1", nil, "127.0.0.1:8081", "http://localhost.evil.example.org", false},
		{"origin with loopback as user", local, "127.0.0.1", nil, "127.0.0.1:8081", "http://localhost@evil.example.org", false},
		{"origin of a browser extension", local, "127.0.0.1", nil, "127.0.0.1:8081", "chrome-extension://localhost", false},
		{"origin of a file", local, "127.0.0.1", nil, "127.0.0.1:8081", "file://localhost", false},
		{"origin with a path", local, "127.0.0.1", nil, "127.0.0.1:8081", "http://localhost/x", false},
		{"origin that cannot be parsed", local, "127.0.0.1", nil, "127.0.0.1:8081", "http://[::1", false},
		{"empty origin", local, "127.0.0.1", nil, "127.0.0.1:8081", " ", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			guard := newGuard(t, issuer, func(c *middleware.Config) { c.Resource, c.AllowedOrigins = tt.resource, tt.origins })
			for _, handler := range []http.Handler{guard.Protect(&inner{}), guard.Metadata()} {
				for _, method := range []string{"POST", "OPTIONS", "GET"} {
					request := newRequest(method, tt.resource, "Authorization", "Bearer "+issuer.Mint(claims{"aud": tt.resource}))
					request.Host = tt.host
					if tt.origin != "" {
						request.Header.Set("Origin", tt.origin)
					}
					if tt.listener != "" {
						request = arriving(request, tt.listener)
					}
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, request)
					if got := w.Code != http.StatusForbidden; got != tt.want {
						t.Errorf("%s: %d", method, w.Code)
					}
					if !tt.want && (w.Header().Get("WWW-Authenticate") != "" || w.Header().Get("Access-Control-Allow-Origin") != "") {
						t.Errorf("%s: %v", method, w.Header())
					}
				}
			}
		})
	}
}

func TestForeignOriginAmongSeveral(t *testing.T) {
	guard := newGuard(t, middlewaretest.NewIssuer(t), func(c *middleware.Config) { c.Resource = "http://127.0.0.1:8081/mcp" })
	request := newRequest("POST", "http://127.0.0.1:8081/mcp", "Origin", "http://localhost:1", "Origin", "https://evil.example.org")
	if res := serve(guard.Protect(&inner{}), request); res.StatusCode != http.StatusForbidden {
		t.Errorf("%s", res.Status)
	}
}
