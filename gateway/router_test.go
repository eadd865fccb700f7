package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gatehouse.example/gateway"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// routed is a router in front of gateways for several resources of one issuer.
type routed struct {
	*gateway.Router
	issuer *middlewaretest.Issuer
}

// newRouted returns a router for resources, each with the URL of its upstream.
func newRouted(t testing.TB, resources map[string]string, change ...func(*gateway.Config)) *routed {
	t.Helper()
	out := &routed{issuer: middlewaretest.NewIssuer(t)}
	var gates []*gateway.Gateway
	for resource, upstream := range resources {
		config := gateway.Config{Upstream: upstream, VerifyOnly: upstream == ""}
		config.Guard = middleware.Config{
			Resource: resource, AuthorizationServers: []string{out.issuer.URL()}, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		}
		for _, c := range change {
			c(&config)
		}
		g, err := gateway.New(config)
		if err != nil {
			t.Fatal(err)
		}
		gates = append(gates, g)
	}
	var err error
	if out.Router, err = gateway.NewRouter(gates...); err != nil {
		t.Fatal(err)
	}
	return out
}

// ask sends a request with a token for a resource from an address. Header fields come in pairs.
func (g *routed) ask(address, method, url, resource string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, nil)
	if r.URL.Path == "" {
		r.URL.Path = "/" // as clients send it (RFC 9110 section 4.2.3)
	}
	r.RemoteAddr = address + ":1234"
	if resource != "" {
		r.Header.Set("Authorization", "Bearer "+g.issuer.Mint(claims{"aud": resource}))
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Host" {
			r.Host = fields[i+1]
		} else {
			r.Header[fields[i]] = append(r.Header[fields[i]], fields[i+1])
		}
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

const (
	notesURL = "https://notes.example.com/mcp"
	admin    = "https://notes.example.com/mcp/admin"
	files    = "https://files.example.com"
	client   = "198.51.100.1"
	proxy    = "192.0.2.1"
)

func TestRouterFindsTheResource(t *testing.T) {
	up := newUpstream(t)
	g := newRouted(t, map[string]string{notesURL: up.URL + "/notes", admin: up.URL + "/admin", files: up.URL + "/files"})
	for _, tt := range []struct {
		url, resource string
		status        int
		reaches       string
	}{
		{notesURL, notesURL, 200, "/notes"},
		{notesURL + "/x", notesURL, 200, "/notes/x"},
		{notesURL + "/administrator", notesURL, 200, "/notes/administrator"},
		{admin, admin, 200, "/admin"},
		{admin + "/x", admin, 200, "/admin/x"},
		{"https://notes.example.com/%6dcp/%61dmin/x", admin, 200, "/admin/x"},
		{"https://NOTES.example.com:443/mcp", notesURL, 200, "/notes"},
		{"https://notes.example.com./mcp", notesURL, 200, "/notes"},
		{"https://notes.example.com.:443/mcp", notesURL, 200, "/notes"},
		{files + "/x", files, 200, "/files/x"},
		{files + "/mcp", files, 200, "/files/mcp"},
		// The token of one resource is good for no other.
		{notesURL, admin, 401, ""}, {admin, notesURL, 401, ""}, {files, notesURL, 401, ""}, {notesURL, files, 401, ""}, {admin, "", 401, ""},
		// Other hosts and paths.
		{"https://notes.example.com/other", notesURL, 404, ""},
		{"https://notes.example.com/mcpx", notesURL, 404, ""},
		{"https://notes.example.com/MCP", notesURL, 404, ""},
		{"https://notes.example.com:8443/mcp", notesURL, 421, ""},
		{"https://other.example.com/mcp", notesURL, 421, ""},
		{"https://notes.example.com.example.org/mcp", notesURL, 421, ""},
		{"https://127.0.0.1/mcp", notesURL, 421, ""},
		// A path that another reader gives to another resource.
		{notesURL + "/Admin", notesURL, 400, ""}, {notesURL + "/ADMIN/x", notesURL, 400, ""}, {notesURL + "/admin;v=1", notesURL, 400, ""},
		{notesURL + "/admin./x", notesURL, 400, ""}, {notesURL + "/admin%20", notesURL, 400, ""}, {notesURL + "/adm%C4%B1n", notesURL, 400, ""},
		{notesURL + "/x/../admin", notesURL, 400, ""}, {notesURL + "/%2e%2e/mcp", notesURL, 400, ""}, {notesURL + "//admin", notesURL, 400, ""}, {notesURL + "%2fadmin", notesURL, 400, ""},
		// A segment that is none for another reader.
		{notesURL + "/;x/admin", notesURL, 400, ""}, {notesURL + "/%20/admin", notesURL, 400, ""}, {notesURL + "/x/..%20/admin", notesURL, 400, ""}, {admin + "/...", admin, 400, ""},
		{notesURL + "/x;v=1", notesURL, 200, "/notes/x;v=1"}, {notesURL + "/;v=1", notesURL, 200, "/notes/;v=1"}, {notesURL + "/x/", notesURL, 200, "/notes/x/"},
		{files + "/...", files, 200, "/files/..."},
	} {
		w := g.ask(client, "GET", tt.url, tt.resource)
		var reached string
		if got := up.taken(); len(got) == 1 {
			reached = got[0].uri
		}
		if w.Code != tt.status || reached != tt.reaches {
			t.Errorf("%s for %s: %d %s at %q, want %d at %q", tt.url, tt.resource, w.Code, w.Body, reached, tt.status, tt.reaches)
		}
		if w.Code == 421 && !strings.Contains(w.Body.String(), "No resource here has this host") {
			t.Errorf("%s: %s", tt.url, w.Body)
		}
	}
}

// The host of a resource is known with and without its default port and the dot at its end.
func TestRouterKnowsTheHost(t *testing.T) {
	up := newUpstream(t)
	for resource, hosts := range map[string][]string{
		"https://[2001:db8::1]/mcp":          {"[2001:db8::1]", "[2001:db8::1]:443"},
		"https://notes.example.com:8443/mcp": {"notes.example.com:8443", "notes.example.com.:8443"},
		"https://notes.example.com./mcp":     {"notes.example.com", "notes.example.com.", "notes.example.com:443", "notes.example.com.:443"},
	} {
		g := newRouted(t, map[string]string{resource: up.URL})
		for _, host := range hosts {
			if w := g.ask(client, "GET", "/mcp", resource, "Host", host); w.Code != http.StatusOK {
				t.Errorf("%s at %s: %d %s", resource, host, w.Code, w.Body)
			}
		}
	}
}

// A body that does not arrive ends a request that is for no resource, too.
func TestRouterBodiesThatDawdle(t *testing.T) {
	keys, err := gateway.NewAssertionKeys(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	g := newRouted(t, map[string]string{notesURL: "http://127.0.0.1:9"}, func(c *gateway.Config) {
		c.Identity, c.AssertionKeys, c.BodyTime = gateway.IdentityAssertion, keys, 50*time.Millisecond
	})
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	for path, want := range map[string]int{"/jwks.json": 405, "/verify": 403, "/mcp": 421} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: other.example.com\r\nContent-Length: 100\r\n\r\n{", path)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if res.StatusCode != want || res.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %s %v", path, res.Status, res.Header)
		}
	}
}

// A Host is believed from a client, X-Forwarded-Host from a trusted proxy alone.
func TestRouterBehindAProxy(t *testing.T) {
	up := newUpstream(t)
	g := newRouted(t, map[string]string{notesURL: up.URL + "/notes", "https://files.example.com/mcp": up.URL + "/files"})
	for name, tt := range map[string]struct {
		address string
		fields  []string
		status  int
		reaches string
	}{
		"a proxy names the host":          {proxy, []string{"Host", "127.0.0.1:8082", "X-Forwarded-Host", "notes.example.com"}, 200, "/notes"},
		"a proxy passes it on":            {proxy, []string{"Host", "notes.example.com"}, 200, "/notes"},
		"a proxy names an unknown host":   {proxy, []string{"Host", "notes.example.com", "X-Forwarded-Host", "other.example.com"}, 421, ""},
		"a proxy names two":               {proxy, []string{"Host", "notes.example.com", "X-Forwarded-Host", "notes.example.com", "X-Forwarded-Host", "files.example.com"}, 421, ""},
		"a proxy names a list":            {proxy, []string{"Host", "notes.example.com", "X-Forwarded-Host", "notes.example.com, files.example.com"}, 421, ""},
		"a client names a host":           {client, []string{"Host", "notes.example.com", "X-Forwarded-Host", "files.example.com"}, 200, "/notes"},
		"a client without a good Host":    {client, []string{"Host", "127.0.0.1", "X-Forwarded-Host", "notes.example.com"}, 421, ""},
		"a client with another good Host": {client, []string{"Host", "files.example.com"}, 401, ""},
		"a proxy on a socket of IPv6":     {"[::ffff:" + proxy + "]", []string{"Host", "127.0.0.1", "X-Forwarded-Host", "notes.example.com"}, 200, "/notes"},
		"nobody knows who":                {"@", []string{"Host", "127.0.0.1", "X-Forwarded-Host", "notes.example.com"}, 421, ""},
	} {
		w := g.ask(tt.address, "GET", "/mcp", notesURL, tt.fields...)
		var reached string
		if got := up.taken(); len(got) == 1 {
			reached = got[0].uri
		}
		if w.Code != tt.status || reached != tt.reaches {
			t.Errorf("%s: %d %s at %q", name, w.Code, w.Body, reached)
		}
	}
}

// Each resource has its own metadata and challenge; what is not of one resource answers any host.
func TestRouterOwnPaths(t *testing.T) {
	up := newUpstream(t)
	keys, err := gateway.NewAssertionKeys(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	g := newRouted(t, map[string]string{notesURL: up.URL + "/notes", admin: up.URL + "/admin", "https://files.example.com/mcp": up.URL + "/files"},
		func(c *gateway.Config) { c.Identity, c.AssertionKeys = gateway.IdentityAssertion, keys })
	const wellKnown = "/.well-known/oauth-protected-resource"
	for url, want := range map[string]string{
		"https://notes.example.com" + wellKnown + "/mcp": notesURL, "https://notes.example.com" + wellKnown + "/mcp/admin": admin,
		"https://files.example.com" + wellKnown + "/mcp": "https://files.example.com/mcp", "https://files.example.com" + wellKnown: "https://files.example.com/mcp",
	} {
		var doc struct{ Resource string }
		if w := g.ask(client, "GET", url, ""); w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &doc) != nil || doc.Resource != want {
			t.Errorf("%s: %d %s", url, w.Code, w.Body)
		}
	}
	for url, want := range map[string]int{
		"https://notes.example.com" + wellKnown: 404, "https://notes.example.com" + wellKnown + "/x": 404, "https://other.example.com" + wellKnown + "/mcp": 421,
		"https://other.example.com/healthz": 200, "https://127.0.0.1/jwks.json": 200,
	} {
		if w := g.ask(client, "GET", url, ""); w.Code != want {
			t.Errorf("%s: %d %s, want %d", url, w.Code, w.Body, want)
		}
	}
	for _, resource := range []string{notesURL, admin} {
		path := strings.TrimPrefix(resource, "https://notes.example.com")
		if challenge := g.ask(client, "POST", resource, "").Header().Get("Www-Authenticate"); !strings.Contains(challenge, wellKnown+path+`"`) {
			t.Errorf("%s: %s", resource, challenge)
		}
	}
	g.Stop()
	if w := g.ask(client, "GET", "https://notes.example.com/healthz", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("while it stops: %d", w.Code)
	}
}

// A proxy that asks about several resources says which, and a client cannot.
func TestRouterVerify(t *testing.T) {
	g := newRouted(t, map[string]string{notesURL: "", admin: "", "https://files.example.com/mcp": ""})
	for name, tt := range map[string]struct {
		address string
		fields  []string
		status  int
	}{
		"the whole URL":                {proxy, []string{"X-Original-Url", notesURL + "?a=b"}, 200},
		"host and path":                {proxy, []string{"X-Forwarded-Host", "notes.example.com", "X-Forwarded-Uri", "/mcp/x?a=b"}, 200},
		"both":                         {proxy, []string{"X-Original-Url", notesURL, "X-Forwarded-Host", "notes.example.com", "X-Forwarded-Uri", "/mcp"}, 200},
		"both, and another host":       {proxy, []string{"X-Original-Url", notesURL, "X-Forwarded-Host", "files.example.com"}, 403},
		"both, and another path":       {proxy, []string{"X-Original-Url", notesURL, "X-Forwarded-Uri", "/mcp/admin"}, 403},
		"another resource":             {proxy, []string{"X-Original-Url", admin}, 401},
		"another resource in parts":    {proxy, []string{"X-Forwarded-Host", "files.example.com", "X-Forwarded-Uri", "/mcp"}, 401},
		"a resource read loosely":      {proxy, []string{"X-Original-Url", notesURL + "/Admin"}, 403},
		"dots":                         {proxy, []string{"X-Original-Url", notesURL + "/x/../admin"}, 403},
		"nothing":                      {proxy, nil, 403},
		"a host alone":                 {proxy, []string{"X-Forwarded-Host", "notes.example.com"}, 403},
		"a path alone":                 {proxy, []string{"X-Forwarded-Uri", "/mcp"}, 403},
		"two of them":                  {proxy, []string{"X-Original-Url", notesURL, "X-Original-Url", notesURL}, 403},
		"two of them, and parts":       {proxy, []string{"X-Original-Url", admin, "X-Original-Url", admin, "X-Forwarded-Host", "notes.example.com", "X-Forwarded-Uri", "/mcp"}, 403},
		"two hosts":                    {proxy, []string{"X-Forwarded-Host", "notes.example.com", "X-Forwarded-Host", "files.example.com", "X-Forwarded-Uri", "/mcp"}, 403},
		"two paths":                    {proxy, []string{"X-Forwarded-Host", "notes.example.com", "X-Forwarded-Uri", "/mcp", "X-Forwarded-Uri", "/mcp/admin"}, 403},
		"in other case":                {proxy, []string{"X-Original-Url", "HTTPS://NOTES.example.com/mcp", "X-Forwarded-Host", "Notes.Example.com"}, 200},
		"escapes":                      {proxy, []string{"X-Original-Url", notesURL + "/%2e%2e/x"}, 403},
		"an escaped slash":             {proxy, []string{"X-Original-Url", notesURL + "/x%2fy"}, 403},
		"a query at the resource":      {proxy, []string{"X-Forwarded-Host", "notes.example.com", "X-Forwarded-Uri", "/mcp?a=/../b"}, 200},
		"an escape of an escape":       {proxy, []string{"X-Original-Url", notesURL + "/%252e"}, 403},
		"another scheme":               {proxy, []string{"X-Original-Url", "ftp://notes.example.com/mcp"}, 403},
		"no URL":                       {proxy, []string{"X-Original-Url", "/mcp"}, 403},
		"a password":                   {proxy, []string{"X-Original-Url", "https://u:p@notes.example.com/mcp"}, 403},
		"an unknown host":              {proxy, []string{"X-Original-Url", "https://other.example.com/mcp"}, 403},
		"an unknown path":              {proxy, []string{"X-Original-Url", "https://notes.example.com/other"}, 403},
		"an address that is not known": {client, []string{"X-Original-Url", notesURL}, 403},
	} {
		if w := g.ask(tt.address, "GET", "https://gateway.example.com/verify", notesURL, tt.fields...); w.Code != tt.status || (w.Code == 200) != (w.Header().Get("Gatehouse-Subject") == "reader") {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
}

// A session of one resource is unknown at another, and an assertion names one upstream.
func TestRouterKeepsResourcesApart(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", "7")
		w.Header().Set("X-Assertion", r.Header.Get(gateway.HeaderAssertion))
	}))
	t.Cleanup(up.Close)
	keys, err := gateway.NewAssertionKeys(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	g := newRouted(t, map[string]string{notesURL: up.URL + "/notes", files: up.URL + "/files"},
		func(c *gateway.Config) { c.Identity, c.AssertionKeys = gateway.IdentityAssertion, keys })
	first := g.ask(client, "POST", notesURL, notesURL)
	session := first.Header().Get("Mcp-Session-Id")
	for resource, want := range map[string]int{notesURL: 200, files: 404} {
		if w := g.ask(client, "POST", resource, resource, "Mcp-Session-Id", session); w.Code != want {
			t.Errorf("%s: %d %s", resource, w.Code, w.Body)
		}
	}
	audiences := map[string]bool{}
	for _, resource := range []string{notesURL, files} {
		w := g.ask(client, "POST", resource, resource)
		says := decoded(t, w.Header().Get("X-Assertion"))
		if says.Issuer != resource {
			t.Errorf("%s: %+v", resource, says)
		}
		audiences[says.Audience] = true
	}
	if len(audiences) != 2 {
		t.Errorf("%v", audiences)
	}
}

// Resources that could be taken for each other are a mistake.
func TestRouterRefuses(t *testing.T) {
	build := func(change func(*gateway.Config), resources ...string) error {
		var gates []*gateway.Gateway
		for i, resource := range resources {
			config := gateway.Config{Upstream: "http://127.0.0.1:9000"}
			config.Guard.Resource, config.Guard.AuthorizationServers = resource, []string{"https://auth.example.com"}
			if i == len(resources)-1 {
				change(&config)
			}
			g, err := gateway.New(config)
			if err != nil {
				t.Fatal(err)
			}
			gates = append(gates, g)
		}
		_, err := gateway.NewRouter(gates...)
		return err
	}
	same := func(*gateway.Config) {}
	for _, other := range []string{
		notesURL, "https://notes.example.com./mcp", notesURL + "/", "https://notes.example.com/MCP", "https://notes.example.com/%6dcp",
		"https://notes.example.com/mcp;v=1", "https://notes.example.com/mcp.", "https://notes.example.com/mcp%20",
	} {
		if err := build(same, notesURL, files, other); err == nil || !strings.Contains(err.Error(), "can be taken for each other") || !strings.Contains(err.Error(), notesURL) {
			t.Errorf("%s: %v", other, err)
		}
	}
	if err := build(same, "http://127.0.0.1/mcp", "https://127.0.0.1/mcp"); err == nil {
		t.Error("two schemes are accepted")
	}
	if err := build(same, notesURL, admin, files, notesURL+"2", "https://notes.example.com:8443/mcp", "https://notes.example.com"); err != nil {
		t.Error(err)
	}
	if err := build(func(c *gateway.Config) {
		c.Guard.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	}, notesURL, files); err == nil || !strings.Contains(err.Error(), "trusted proxies") {
		t.Errorf("%v", err)
	}
	asserts := func(c *gateway.Config) { c.Identity, c.AssertionKey = gateway.IdentityAssertion, newKey(t) }
	if err := build(asserts, notesURL, files); err != nil {
		t.Error(err)
	}
	var gates []*gateway.Gateway
	for _, resource := range []string{notesURL, files} {
		config := gateway.Config{Upstream: "http://127.0.0.1:9000"}
		config.Guard.Resource, config.Guard.AuthorizationServers = resource, []string{"https://auth.example.com"}
		asserts(&config)
		g, err := gateway.New(config)
		if err != nil {
			t.Fatal(err)
		}
		gates = append(gates, g)
	}
	if _, err := gateway.NewRouter(gates...); err == nil || !strings.Contains(err.Error(), "share AssertionKeys") {
		t.Errorf("%v", err)
	}
	if _, err := gateway.NewRouter(); err == nil {
		t.Error("no gateway is accepted")
	}
}
