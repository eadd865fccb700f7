package gateway_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const trustedProxy = "10.0.0.1:1234"

// proving makes a gateway accept proofs, and believe a proxy.
func proving(use middleware.DPoPUse, original bool) func(*gateway.Config) {
	return func(c *gateway.Config) {
		c.Guard.DPoP = middleware.DPoP{Use: use}
		c.Guard.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		c.Guard.ClientCertificates.Header = "X-Ssl-Cert"
		if original {
			c.OriginalRequest = gateway.OriginalRequest{MethodHeader: "X-Forwarded-Method", URIHeader: "X-Forwarded-Uri"}
		}
	}
}

// TestProofsAtTheGateway shows that the gateway checks proofs for the URL that clients dial, and
// that neither proof nor certificate reaches the upstream, whose nonces do not reach clients.
func TestProofsAtTheGateway(t *testing.T) {
	var got http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Set("DPoP-Nonce", "of the upstream")
	}))
	defer upstream.Close()
	g := newGate(t, upstream.URL+"/inner", proving(middleware.DPoPAccepted, false))
	key := middlewaretest.NewProofKey(t, jose.ES256)
	token := g.issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": key.Confirmation()})
	send := func(url string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://127.0.0.1:9000/mcp", nil)
		key.Send(r, url, token, nil)
		r.Header["X-Ssl-Cert"], r.Header["dpop"] = []string{"forged"}, []string{"forged"}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w
	}
	if w := send(resource); w.Code != 200 || w.Header().Get("DPoP-Nonce") != "" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	for name := range got {
		if lower := strings.ToLower(name); lower == "dpop" || lower == "x-ssl-cert" || lower == "authorization" {
			t.Errorf("the upstream got %s", name)
		}
	}
	if w := send(upstream.URL + "/inner"); w.Code != 401 {
		t.Errorf("a proof for the upstream: %d", w.Code)
	}
}

// TestProofsAtVerify shows what /verify believes about the request that it is asked about.
func TestProofsAtVerify(t *testing.T) {
	const told = "X-Forwarded-Method: POST|X-Forwarded-Uri: /mcp?x=y"
	for name, tt := range map[string]struct {
		use      middleware.DPoPUse
		original bool
		from     string
		fields   string
		method   string // in the proof
		status   int
	}{
		"told by the proxy":             {middleware.DPoPRequired, true, trustedProxy, told, "POST", 200},
		"told over a socket of IPv6":    {middleware.DPoPRequired, true, "[::ffff:10.0.0.1]:1234", told, "POST", 200},
		"another method":                {middleware.DPoPRequired, true, trustedProxy, told, "GET", 401},
		"another path":                  {middleware.DPoPRequired, true, trustedProxy, "X-Forwarded-Method: POST|X-Forwarded-Uri: /other", "POST", 401},
		"told by a stranger":            {middleware.DPoPRequired, true, "192.0.2.1:1234", told, "POST", 401},
		"told twice":                    {middleware.DPoPRequired, true, trustedProxy, told + "|X-Forwarded-Method: POST", "POST", 401},
		"a whole URL":                   {middleware.DPoPRequired, true, trustedProxy, "X-Forwarded-Method: POST|X-Forwarded-Uri: " + resource, "POST", 401},
		"told half":                     {middleware.DPoPRequired, true, trustedProxy, "X-Forwarded-Method: POST", "POST", 401},
		"not told":                      {middleware.DPoPRequired, true, trustedProxy, "", "", 401},
		"nobody is believed":            {middleware.DPoPRequired, false, trustedProxy, told, "POST", 401},
		"nobody is believed, no method": {middleware.DPoPAccepted, false, trustedProxy, told, "", 401},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "http://127.0.0.1:1", proving(tt.use, tt.original))
			key := middlewaretest.NewProofKey(t, jose.ES256)
			token := g.issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": key.Confirmation()})
			url := resource
			if tt.method == "" {
				url = ""
			}
			r := httptest.NewRequest("GET", "http://127.0.0.1:9000/verify", nil)
			r.RemoteAddr = tt.from
			r.Header.Set("Authorization", "DPoP "+token)
			r.Header.Set("DPoP", key.Prove(tt.method, url, token, nil))
			for field := range strings.SplitSeq(tt.fields, "|") {
				if name, value, ok := strings.Cut(field, ": "); ok {
					r.Header.Add(name, value)
				}
			}
			for _, want := range []int{tt.status, 401} { // a proof is good for one request
				w := httptest.NewRecorder()
				g.ServeHTTP(w, r.Clone(t.Context()))
				if w.Code != want || want == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "DPoP ") {
					t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
				}
			}
			if tt.use == middleware.DPoPRequired {
				r := httptest.NewRequest("GET", "http://127.0.0.1:9000/verify", nil)
				r.Header.Set("Authorization", "Bearer "+g.issuer.Mint(middlewaretest.Claims{"aud": resource}))
				w := httptest.NewRecorder()
				if g.ServeHTTP(w, r); w.Code != 401 {
					t.Errorf("a bearer token: %d", w.Code)
				}
			}
		})
	}
}

// TestProofsAtVerifyAreForTheResource shows that no proof is good for a URL beside the resource,
// also if the proxy tells that the request is for that.
func TestProofsAtVerifyAreForTheResource(t *testing.T) {
	g := newGate(t, "http://127.0.0.1:1", proving(middleware.DPoPRequired, true))
	key := middlewaretest.NewProofKey(t, jose.ES256)
	token := g.issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": key.Confirmation()})
	for path, want := range map[string]int{"/mcp": 200, "/mcp/below": 200, "/other": 401, "/mcpx": 401, "/mcp/../other": 401} {
		r := httptest.NewRequest("GET", "http://127.0.0.1:9000/verify", nil)
		r.RemoteAddr = trustedProxy
		key.Send(r, strings.TrimSuffix(resource, "/mcp")+path, token, middlewaretest.Claims{"htm": "POST"})
		r.Header.Set("X-Forwarded-Method", "POST")
		r.Header.Set("X-Forwarded-Uri", path)
		w := httptest.NewRecorder()
		if g.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestProofsAreUsedOnceAtAll shows that /verify and the resource have one memory and one nonce.
func TestProofsAreUsedOnceAtAll(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	g := newGate(t, upstream.URL, proving(middleware.DPoPAccepted, true), func(c *gateway.Config) { c.Guard.DPoP.RequireNonce = true })
	key := middlewaretest.NewProofKey(t, jose.ES256)
	token := g.issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": key.Confirmation()})
	ask := func(target, proof string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://127.0.0.1:9000"+target, nil)
		r.RemoteAddr = trustedProxy
		for name, value := range map[string]string{"Authorization": "DPoP " + token, "DPoP": proof, "X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/mcp"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w
	}
	nonce := ask("/verify", key.Prove("POST", resource, token, nil)).Header().Get("DPoP-Nonce")
	proof := key.Prove("POST", resource, token, middlewaretest.Claims{"nonce": nonce})
	if w := ask("/mcp", proof); w.Code != 404 {
		t.Errorf("at the resource: %d %s", w.Code, w.Body)
	}
	if w := ask("/verify", proof); w.Code != 401 || !strings.Contains(w.Body.String(), "used before") {
		t.Errorf("again, at /verify: %d %s", w.Code, w.Body)
	}
}

// TestCertificatesAtVerify shows that the header of a proxy counts there, and its connection not.
func TestCertificatesAtVerify(t *testing.T) {
	g := newGate(t, "http://127.0.0.1:1", proving(middleware.DPoPOff, false))
	der := []byte("a certificate in DER")
	sum := sha256.Sum256(der)
	token := g.issuer.Mint(middlewaretest.Claims{"aud": resource, "cnf": map[string]string{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}})
	for from, want := range map[string]int{trustedProxy: 200, "192.0.2.1:1234": 401} {
		r := httptest.NewRequest("GET", "http://127.0.0.1:9000/verify", nil)
		r.RemoteAddr = from
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("X-Ssl-Cert", base64.StdEncoding.EncodeToString(der))
		w := httptest.NewRecorder()
		if g.ServeHTTP(w, r); w.Code != want {
			t.Errorf("from %s: %d %s", from, w.Code, w.Body)
		}
	}
}

func TestMistakesInOriginalRequests(t *testing.T) {
	for _, change := range []func(*gateway.Config){
		func(c *gateway.Config) { c.OriginalRequest.MethodHeader = "X-Forwarded-Method" },
		func(c *gateway.Config) {
			c.OriginalRequest = gateway.OriginalRequest{MethodHeader: "X-Forwarded-Method", URIHeader: "X-Forwarded-Uri"}
		},
	} {
		c := gateway.Config{Guard: middleware.Config{Resource: resource, AuthorizationServers: []string{"https://auth.example.com"}}, Upstream: "http://127.0.0.1:1"}
		change(&c)
		if _, err := gateway.New(c); err == nil || !strings.Contains(err.Error(), "original request") {
			t.Errorf("%v", err)
		}
	}
}
