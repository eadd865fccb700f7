package gateway_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/gateway"
	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

var (
	livesMany = flag.Int("lives", 12, "how many random lives TestLives lives")
	livesSeed = flag.Uint64("lives.seed", 1, "the first of them")
)

// livesSteps is how much happens in one life.
const livesSteps = 250

const (
	livesProxy    = "10.0.0.1"
	livesClient   = "203.0.113.7"
	livesStranger = "198.51.100.9"
)

var livesScopes = []string{"notes:read", "notes:write", "notes:admin"}

// TestLives: clients send requests at random to three resources behind one router, directly and through
// a trusted proxy, which also asks at /verify, while gateways get other settings and the upstream fails.
// A plain model of the rules (livesmodel_test.go) says of each request whether it reaches the upstream,
// at which URL and with which headers, else with which challenge it is refused, and what is recorded.
func TestLives(t *testing.T) {
	t.Parallel()
	for seed := *livesSeed; seed < *livesSeed+uint64(*livesMany); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, seed)
			for range livesSteps {
				l.step()
				if t.Failed() {
					t.Fatalf("go test ./gateway -run '^TestLives$' -lives 1 -lives.seed %d; what happened:\n%s", seed, strings.Join(l.story, "\n"))
				}
			}
		})
	}
}

// life is a router, its issuers, the upstream, and the model beside them.
type life struct {
	livesModel
	t        *testing.T
	random   *rand.Rand
	mu       sync.Mutex
	clock    time.Time
	issuers  [2]*middlewaretest.Issuer
	shared   *middleware.Issuers
	handles  *middleware.Handles
	keys     *gateway.AssertionKeys
	secrets  [3]*gateway.UpstreamHeaders
	router   *gateway.Router
	proofs   []*middlewaretest.ProofKey
	tokens   []*livesToken
	made     []*livesProof
	sessions []*livesSession
	asked    *livesRequest // that is being sent
	seen     []*http.Request
	bodies   []string
	events   []middleware.Event
	records  []reflect.Value // audit events
	count    int
	story    []string
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{t: t, random: rand.New(rand.NewPCG(seed, 21)), clock: time.Now().Truncate(time.Second)}
	l.now = func() time.Time { l.mu.Lock(); defer l.mu.Unlock(); return l.clock }
	l.nonces = map[string]livesNonce{}
	l.gates = []*livesGate{
		{at: 0, resource: "https://notes.example.com/mcp", host: "notes.example.com", path: "/mcp", upstream: "http://up.example.org/n"},
		{at: 1, resource: "https://notes.example.com/api", host: "notes.example.com", path: "/api", upstream: "http://up.example.org/v1/"},
		{at: 2, resource: "https://files.example.com", host: "files.example.com", upstream: "http://up.example.org"},
	}
	var err error
	config := middleware.IssuersConfig{Now: l.now}
	for i := range l.issuers {
		l.issuers[i] = middlewaretest.NewIssuer(t)
		config.Issuers = append(config.Issuers, middleware.Issuer{URL: l.issuers[i].URL()})
		l.proofs = append(l.proofs, middlewaretest.NewProofKey(t, jose.ES256))
	}
	if l.shared, err = middleware.NewIssuers(config); err == nil {
		l.handles, err = middleware.NewHandles(bytes.Repeat([]byte{7}, 32))
	}
	if err == nil {
		l.keys, err = gateway.NewAssertionKeys(newKey(t))
	}
	for i, g := range l.gates {
		if err == nil {
			l.secrets[i], err = gateway.NewUpstreamHeaders(http.Header{"X-Up-Key": {"secret of " + g.host}})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	l.reload()
	for range 8 {
		l.mint()
	}
	return l
}

func (l *life) step() {
	l.t.Helper()
	switch at := l.random.IntN(100); {
	case at < 80:
		l.ask()
	case at < 88:
		l.mint()
	case at < 94:
		d := one(l, time.Second, 12*time.Second, time.Minute, 4*time.Minute, 6*time.Minute, time.Hour)
		l.mu.Lock()
		l.clock = l.clock.Add(d + time.Duration(l.random.IntN(1000))*time.Millisecond + time.Microsecond)
		l.mu.Unlock()
		l.tell("%s pass", d)
	case at < 99:
		l.reload()
	default:
		if err := l.keys.Replace(newKey(l.t)); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *life) tell(format string, args ...any) {
	l.story = append(l.story, l.now().Format("Jan _2 15:04:05 ")+fmt.Sprintf(format, args...))
}

func one[T any](l *life, from ...T) T { return from[l.random.IntN(len(from))] }

func (l *life) chance(in int) bool { return l.random.IntN(in) == 0 }

func (l *life) someScopes() []string {
	return slices.DeleteFunc(slices.Clone(livesScopes), func(string) bool { return l.chance(2) })
}

// reload gives some gateways other settings, keeps the others, and makes a router of all.
func (l *life) reload() {
	gates := []*gateway.Gateway{}
	for _, g := range l.gates {
		if g.gate == nil || !l.chance(3) {
			before := g.gate
			g.livesSettings = l.someSettings(g)
			gate, err := gateway.New(l.config(g, before))
			if err != nil {
				l.t.Fatal(err)
			}
			l.count++
			if g.gate, g.handles = gate, fmt.Sprint("own ", l.count); g.shared {
				g.handles = fmt.Sprint("key ", g.at)
			}
			l.tell("gateway %d: %+v", g.at, g.livesSettings)
		}
		gates = append(gates, g.gate)
	}
	router, err := gateway.NewRouter(gates...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.router = router
}

func (l *life) someSettings(g *livesGate) livesSettings {
	s := livesSettings{
		identity: one(l, gateway.IdentityHeaders, gateway.IdentityHeaders, gateway.IdentityAssertion, gateway.IdentityNone),
		dpop:     one(l, middleware.DPoPOff, middleware.DPoPAccepted, middleware.DPoPAccepted, middleware.DPoPRequired),
		nonces:   l.chance(2), optional: l.chance(3), ends: l.chance(2), sighted: l.chance(2), told: !l.chance(3), shared: l.chance(2),
		cert: one(l, "", "Client-Cert", "X-Tls-Cert"), passes: l.chance(2), own: l.chance(2),
	}
	s.binds = s.identity == gateway.IdentityAssertion && l.chance(2)
	s.shared = s.shared && g.at != 1
	if l.chance(2) {
		s.challengeScopes = []string{"notes:read"}
	}
	if l.chance(3) {
		s.policy.Scopes = []string{"notes:read"}
	}
	rules := func(names ...string) map[string][]string {
		out := map[string][]string{names[0]: {"notes:read"}}
		for _, name := range names {
			if l.chance(2) {
				out[name] = one(l, nil, []string{"notes:read"}, []string{"notes:write"}, []string{"notes:admin", "notes:write"})
			}
		}
		return out
	}
	switch {
	case g.at == 0 && !l.chance(4):
		s.policy.Tools = rules("list_notes", "add_note", "drop")
	case g.at == 1 && !l.chance(4):
		s.policy.Routes = rules("GET /api/notes/{id}", "GET /api/notes", "POST /api/notes", "/api/admin/", "/api/")
	}
	return s
}

func (l *life) config(g *livesGate, before *gateway.Gateway) gateway.Config {
	c := gateway.Config{
		Guard: middleware.Config{
			Resource: g.resource, SharedIssuers: l.shared, AuthorizationServers: []string{l.issuers[0].URL(), l.issuers[1].URL()}, Scopes: livesScopes, ChallengeScopes: g.challengeScopes,
			Policy: g.policy, Optional: g.optional, EndStreams: g.ends, DPoP: middleware.DPoP{Use: g.dpop, RequireNonce: g.nonces},
			ClientCertificates: middleware.ClientCertificates{Header: g.cert}, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
			Observe: func(_ *http.Request, e middleware.Event) { l.events = append(l.events, e) },
		},
		Upstream: g.upstream, Identity: g.identity, Before: before, Transport: l, InsecureTrustMCPHeaders: g.sighted,
	}
	record := reflect.ValueOf(&c.Guard.Audit).Elem() // of a package that this one does not import
	record.Set(reflect.MakeFunc(record.Type(), func(in []reflect.Value) []reflect.Value { l.records = append(l.records, in[0]); return nil }))
	if g.identity == gateway.IdentityAssertion {
		c.AssertionKeys = l.keys
	}
	if g.binds {
		c.AssertionBinding = gateway.BoundToRequest
	}
	if g.told {
		c.OriginalRequest = gateway.OriginalRequest{MethodHeader: "X-Forwarded-Method", URIHeader: "X-Forwarded-Uri"}
	}
	if g.shared {
		c.Guard.Sessions = l.handles
	}
	if g.passes {
		c.PassHeaders = []string{"X-Team-User"}
	}
	if g.own {
		c.UpstreamHeaders = l.secrets[g.at]
	}
	return c
}

func (l *life) mint() {
	l.count++
	resources := []string{l.gates[0].resource, l.gates[1].resource, l.gates[2].resource, "https://notes.example.com", "https://files.example.com/mcp"}
	k := &livesToken{
		subject: one(l, "ada", "ada", "bob 100% é"), client: one(l, "editor", "shell"), audience: []string{one(l, resources[:3]...)}, scopes: l.someScopes(),
		ends: l.now().Truncate(time.Second).Add(one(l, 30*time.Second, 5*time.Minute, time.Hour)), id: fmt.Sprint("t", l.count),
	}
	if l.chance(5) {
		k.audience = append(k.audience, one(l, resources...))
	}
	if l.chance(10) {
		k.audience = resources[3:]
	}
	issuer := one(l, l.issuers[:]...)
	k.issuer = issuer.URL()
	members := claims{"sub": k.subject, "client_id": k.client, "aud": k.audience, "scope": strings.Join(k.scopes, " "), "iat": l.now().Unix(), "exp": k.ends.Unix(), "jti": k.id, "gid": "g-" + k.subject}
	switch l.random.IntN(6) {
	case 0, 1:
		k.key = one(l, l.proofs...)
		members["cnf"] = k.key.Confirmation()
	case 2:
		k.cert = one(l, "one certificate", "another")
		sum := sha256.Sum256([]byte(k.cert))
		members["cnf"] = map[string]string{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}
	}
	k.text = issuer.Mint(members)
	l.tokens = append(l.tokens, k)
	l.tell("token %d: %s of %s for %v, %v, bound %t %q, until %s", len(l.tokens)-1, k.subject, k.client, k.audience, k.scopes, k.key != nil, k.cert, k.ends.Format("15:04:05"))
}

// RoundTrip is the upstream.
func (l *life) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		raw, _ := io.ReadAll(r.Body)
		body = string(raw)
	}
	l.seen, l.bodies = append(l.seen, r), append(l.bodies, body)
	out := &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":7,"result":{}}`)), Header: http.Header{
		"Content-Type": {"application/json"}, "Set-Cookie": {"a=b"}, "Www-Authenticate": {"Basic"}, "X-Request-Id": {"upstream"}, "Access-Control-Allow-Origin": {"https://up.example.org"},
		"Alt-Svc": {"h3"}, "X-Kept": {"yes"}, "Dpop-Nonce": {"of the upstream"},
	}}
	if own := r.Header.Get("X-Up-Key"); own != "" {
		out.Header["X-Up-Key"] = []string{own}
	}
	switch l.asked.fails {
	case "dead":
		return nil, errors.New("no connection")
	case "401", "407":
		out.StatusCode = map[string]int{"401": 401, "407": 407}[l.asked.fails]
	case "503":
		out.StatusCode = 503
	case "away", "back":
		out.StatusCode = 307
		out.Header.Set("Location", map[string]string{"away": "http://up.example.org.example.net/x", "back": "/n/x?y"}[l.asked.fails])
	case "busy":
		if len(l.seen) == 1 {
			out.StatusCode = 409
		}
	}
	if l.asked.rpc == "initialize" && out.StatusCode == 200 {
		out.Header["Mcp-Session-Id"] = []string{r.URL.EscapedPath()}
	}
	return out, nil
}

// send sends a request, and compares what comes of it with the model.
func (l *life) send(r *livesRequest) {
	l.t.Helper()
	at, want := l.now(), l.expect(r)
	raw := r.raw()
	l.asked, l.seen, l.bodies, l.events, l.records = r, nil, nil, nil, nil
	w, began := httptest.NewRecorder(), time.Now()
	if r.alone != nil {
		r.alone.gate.ServeHTTP(w, raw)
	} else {
		l.router.ServeHTTP(w, raw)
	}
	if nonce := w.Header().Get("DPoP-Nonce"); nonce != "" && want.gate != nil {
		l.nonces[nonce] = livesNonce{at.Truncate(livesWindow / 5), want.gate.handles} // five in the life of one
	}
	l.tell("%s: %d %s, want %+v", l.named(r), w.Code, bytes.TrimSpace(w.Body.Bytes()), want)
	if w.Code != want.status {
		l.t.Errorf("%d, want %+v", w.Code, want)
		return
	}
	l.recorded(r, want)
	if !want.passed {
		l.refused(want, w)
		return
	}
	if g := want.gate; r.verify {
		l.identified(g, r, w.Header(), began, "", "")
	} else {
		l.reached(g, r, w, began)
	}
}

// refused compares a refusal with the model.
func (l *life) refused(want livesWant, w *httptest.ResponseRecorder) {
	l.t.Helper()
	all, err := metadata.ParseChallenges(w.Header()["Www-Authenticate"])
	if err != nil || len(l.seen) > 0 || want.silent != (len(all) == 0) {
		l.t.Errorf("%v %v, %d at the upstream, want %+v", w.Header(), err, len(l.seen), want)
	}
	codes := []string{}
	for _, c := range all {
		if code, _ := c.Get("error"); code != "" {
			codes = append(codes, code)
		}
		scope, _ := c.Get("scope")
		about, _ := c.Get("resource_metadata")
		if !slices.Equal(slices.Sorted(slices.Values(strings.Fields(scope))), slices.Sorted(slices.Values(want.scopes))) || !strings.HasPrefix(about, "https://"+want.gate.host+"/.well-known/") || !strings.HasSuffix(about, want.gate.path) {
			l.t.Errorf("%s, want %+v", c, want)
		}
	}
	if !want.silent && strings.Join(codes, " ") != want.code {
		l.t.Errorf("errors %q, want %+v", codes, want)
	}
}

// recorded compares the decision that was recorded with the model.
func (l *life) recorded(r *livesRequest, want livesWant) {
	l.t.Helper()
	judged := want.gate != nil && !(r.verify && want.gate.binds)
	if !judged {
		if len(l.events)+len(l.records) > 0 {
			l.t.Errorf("recorded %+v", l.events)
		}
		return
	}
	if len(l.events) != 1 || len(l.records) != 1 {
		l.t.Errorf("recorded %+v", l.events)
		return
	}
	e, a := l.events[0], l.records[0]
	remote := livesStranger
	if r.proxied {
		remote = livesClient
	}
	allowed := e.Status == 0
	if allowed != want.passed || !allowed && !r.verify && e.Status != want.status || e.Code != want.code || e.Remote.String() != remote {
		l.t.Errorf("recorded %+v, want %+v", e, want)
	}
	kind, person, grant := "operation", "", ""
	if !allowed {
		kind = "operation-refused"
	}
	if e.Token != nil {
		person, grant = r.token.subject, "g-"+r.token.subject
	}
	if good := want.passed || want.status == 403 || want.status == 404; good != (e.Token != nil) && r.token != nil && want.status != 400 {
		l.t.Errorf("recorded with token %v, want %+v", e.Token, want)
	}
	for name, is := range map[string]string{"Kind": kind, "Person": person, "Grant": grant, "Resources": "[" + want.gate.resource + "]", "Network": remote + "/32"} {
		if got := fmt.Sprint(a.FieldByName(name)); got != is {
			l.t.Errorf("audited with %s %q, want %q", name, got, is)
		}
	}
}

// assertion returns a verified assertion.
func (l *life) assertion(text string) (out gateway.Assertion) {
	l.t.Helper()
	w := httptest.NewRecorder()
	l.router.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://any.example.com/jwks.json", nil))
	var set jose.JSONWebKeySet
	signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
	if err = errors.Join(err, json.Unmarshal(w.Body.Bytes(), &set)); err != nil {
		l.t.Error(err)
		return out
	}
	payload, err := signed.Verify(set)
	if err = errors.Join(err, json.Unmarshal(payload, &out)); err != nil {
		l.t.Error(err)
	}
	return out
}
