package middleware_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

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

// TestLives: people and clients send requests at random to a guard, while its configuration is replaced,
// time passes, tokens are revoked, and issuers change their keys and fail. A plain model of the rules
// (livesmodel_test.go) says of each request whether it reaches the handler and with which names, else
// with which challenge it is refused, and what a list shows.
func TestLives(t *testing.T) {
	t.Parallel()
	for seed := *livesSeed; seed < *livesSeed+uint64(*livesMany); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, seed)
			for range livesSteps {
				l.step()
				if t.Failed() {
					t.Fatalf("go test ./middleware -run '^TestLives$' -lives 1 -lives.seed %d; what happened:\n%s", seed, strings.Join(l.story, "\n"))
				}
			}
		})
	}
}

// life is a guard, its issuers, and the model beside them.
type life struct {
	livesModel
	t        *testing.T
	random   *rand.Rand
	clock    *clock
	issuers  [2]*middlewaretest.Issuer
	handles  [2]*middleware.Handles
	proofs   []*middlewaretest.ProofKey
	tokens   []*livesToken
	made     []*livesProof
	sessions []*livesHandle
	events   []*livesHandle
	ended    map[string]bool // sessions that the handler forgot
	count    int
	seen     *http.Request // what reached the handler
	body     string
	cursors  []*livesHandle
	event    middleware.Event
	story    []string
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{t: t, random: rand.New(rand.NewPCG(seed, 20)), clock: newClock(), ended: map[string]bool{}}
	l.now, l.nonces = l.clock.Now, map[string]livesNonce{}
	for i := range l.issuers {
		l.issuers[i], l.handles[i] = middlewaretest.NewIssuer(t), newHandles(t, byte(i+1))
		l.proofs = append(l.proofs, middlewaretest.NewProofKey(t, jose.ES256))
	}
	l.reload()
	for range 6 {
		l.mint()
	}
	return l
}

// step lets one thing happen.
func (l *life) step() {
	l.t.Helper()
	deeds := []struct {
		weight int
		do     func()
	}{
		{130, l.ask}, {12, l.mint}, {8, l.wait}, {8, l.reload}, {2, l.revoke}, {1, l.rotate}, {3, l.fail},
	}
	at := l.random.IntN(164)
	for _, d := range deeds {
		if at -= d.weight; at < 0 {
			d.do()
			return
		}
	}
}

func (l *life) tell(format string, args ...any) {
	l.story = append(l.story, l.now().Format("Jan _2 15:04:05 ")+fmt.Sprintf(format, args...))
}

func one[T any](l *life, from ...T) T { return from[l.random.IntN(len(from))] }

func (l *life) chance(in int) bool { return l.random.IntN(in) == 0 }

// reload replaces the guard by one with other settings, some of which are as before.
func (l *life) reload() {
	before, ruled := l.guard, l.rules.ruled
	for _, change := range []func(*livesRules){
		func(r *livesRules) { r.policy = l.somePolicy() },
		func(r *livesRules) { r.optional = l.chance(3) },
		func(r *livesRules) { r.ends = l.chance(2) },
		func(r *livesRules) {
			r.dpop = one(l, middleware.DPoPOff, middleware.DPoPAccepted, middleware.DPoPAccepted, middleware.DPoPRequired)
		},
		func(r *livesRules) { r.nonces = l.chance(2) },
		func(r *livesRules) { r.sessions = one(l, 0, 1, 1, 1, 2, 3) },
		func(r *livesRules) { r.asks = l.chance(3) },
		func(r *livesRules) { r.audience = l.chance(2) },
		func(r *livesRules) { r.both = !l.chance(3) },
		func(r *livesRules) { r.ruled = l.chance(3) },
		func(r *livesRules) { r.challengeScopes = one(l, nil, []string{"notes:read"}) },
	} {
		if before == nil || l.chance(3) {
			change(&l.rules)
		}
	}
	guard, err := middleware.New(l.config(before))
	if err != nil {
		l.t.Fatal(err)
	}
	l.count++
	l.guard, l.handleKey = guard, fmt.Sprint("own ", l.count)
	if s := l.rules.sessions; s == 1 || s == 2 {
		l.handleKey = fmt.Sprint("key ", s)
	}
	l.keys = l.keys && (before == nil || ruled == l.rules.ruled)
	l.tell("reload: %+v", l.rules)
	l.probe()
}

// settle waits for a fetch of keys in the background, as a token with a key that is not known does.
func (l *life) settle() {
	_, _ = l.guard.Verify(l.t.Context(), l.issuers[1].Mint(claims{"iss": l.issuers[0].URL(), "aud": resource, "iat": l.now().Add(-time.Hour).Unix(), "exp": l.now().Add(time.Hour).Unix()}))
}

// probe lets the guard learn the keys of the first issuer.
func (l *life) probe() {
	defer l.settle()
	if l.down {
		return
	}
	_, _ = l.guard.Verify(l.t.Context(), l.issuers[0].Mint(l.claims(&livesToken{subject: "probe", client: "probe", audience: resource, at: l.now(), ends: l.now().Add(time.Minute)})))
	l.keys = true
}

func (l *life) config(before *middleware.Guard) middleware.Config {
	r := l.rules
	c := middleware.Config{
		Resource: resource, Scopes: livesScopes, ChallengeScopes: r.challengeScopes, Policy: r.policy, Optional: r.optional, EndStreams: r.ends,
		Before: before, Now: l.now, Issuers: []middleware.Issuer{{URL: l.issuers[0].URL()}}, Introspection: map[string]middleware.Introspection{},
		DPoP: middleware.DPoP{Use: r.dpop, RequireNonce: r.nonces}, InsecureUnboundSessions: r.sessions == 3,
		Observe: func(_ *http.Request, e middleware.Event) { l.event = e },
	}
	if r.ruled {
		c.Issuers[0].ScopeMap = []middleware.ScopeRule{{Claim: []string{"roles"}, Value: "admin", Scopes: []string{"notes:admin"}}}
	}
	asked := func(at int, opaque bool) {
		id, secret := l.issuers[at].Credentials()
		c.Introspection[l.issuers[at].URL()] = middleware.Introspection{ClientID: id, ClientSecret: secret, Opaque: opaque}
	}
	if r.asks {
		asked(0, false)
	}
	if r.both {
		c.Issuers = append(c.Issuers, middleware.Issuer{URL: l.issuers[1].URL()})
		asked(1, true)
	}
	if r.audience {
		c.Audiences = []string{livesAudience}
	}
	if r.sessions == 1 || r.sessions == 2 {
		c.Sessions = l.handles[r.sessions-1]
	}
	return c
}

func (l *life) someScopes() []string {
	return slices.DeleteFunc(slices.Clone(livesScopes), func(string) bool { return l.chance(2) })
}

func (l *life) somePolicy() middleware.Policy {
	rules := func(names ...string) map[string][]string {
		out := map[string][]string{}
		for _, name := range names {
			if l.chance(2) {
				out[name] = one(l, nil, []string{"notes:read"}, []string{"notes:write"}, []string{"notes:write", "notes:read"}, []string{"notes:admin"}, []string{"notes:secret"})
			}
		}
		return out
	}
	p := middleware.Policy{Listing: one(l, middleware.ListAcquirable, middleware.ListAcquirable, middleware.ListGranted, middleware.ListAll)}
	if l.chance(3) {
		p.Scopes = []string{"notes:read"}
	}
	if l.chance(2) {
		p.Methods = rules("tools/call", "notifications/*", "tools/*", "ping")
	}
	if l.chance(3) {
		p.Methods = rules("ping", "tools/*", "notifications/*")
		p.Methods["*"] = one(l, []string{"notes:write"}, []string{"notes:admin"})
	}
	if !l.chance(3) {
		p.Tools = rules(append(livesTools, "list_*", "*")...)
	}
	if l.chance(2) {
		p.Resources = rules("notes://drafts/*", "notes://*")
	}
	if l.chance(2) {
		p.Prompts = rules("greet", "greet_*", "*")
	}
	if l.chance(2) {
		p.Implies = map[string][]string{"notes:admin": {"notes:write"}, "notes:write": {"notes:read"}}
	}
	return p
}

func (l *life) claims(k *livesToken) claims {
	l.count++
	out := claims{"sub": k.subject, "client_id": k.client, "aud": k.audience, "scope": strings.Join(k.scopes, " "), "iat": k.at.Unix(), "exp": k.ends.Unix(), "jti": fmt.Sprint("t", l.count)}
	if k.role {
		out["roles"] = []string{"reader", "admin"}
	}
	if k.key != nil {
		out["cnf"] = k.key.Confirmation()
	}
	return out
}

func (l *life) mint() {
	k := &livesToken{
		subject: one(l, "ada", "ada", "bob"), client: one(l, "editor", "shell"), second: l.chance(3), audience: one(l, resource, resource, resource, livesAudience, "https://other.example.com/mcp"),
		scopes: l.someScopes(), role: l.chance(3), at: l.now().Truncate(time.Second), generation: l.generation,
	}
	k.ends = k.at.Add(one(l, 30*time.Second, 5*time.Minute, time.Hour))
	if l.chance(3) {
		k.key = one(l, l.proofs...)
	}
	issuer := l.issuers[0]
	switch {
	case l.chance(20):
		k.withoutIssuer, k.text = true, fmt.Sprint("invented", l.count)
		k.key = nil
	case k.second:
		issuer = l.issuers[1]
		k.text = issuer.MintOpaque(l.claims(k))
	default:
		k.text = issuer.Mint(l.claims(k))
	}
	k.principalAtIssue = issuer.URL() + "|" + k.subject
	l.tokens = append(l.tokens, k)
	l.tell("token %d: %s of %s, second %t, for %s, %v, role %t, bound %t, until %s, invented %t", len(l.tokens)-1, k.subject, k.client, k.second, k.audience, k.scopes, k.role, k.key != nil, k.ends.Format("15:04:05"), k.withoutIssuer)
}

func (l *life) wait() {
	l.settle()
	d := one(l, time.Second, 4*time.Second, 12*time.Second, time.Minute, 4*time.Minute, 6*time.Minute, time.Hour)
	if l.chance(20) {
		d = 25 * time.Hour
	}
	if l.down && l.now().Sub(l.downSince)+d > 22*time.Hour {
		d = 30 * time.Hour // its keys have ended then, and have not before
	}
	l.clock.Advance(d + time.Duration(l.random.IntN(int(time.Second/time.Millisecond)))*time.Millisecond + time.Microsecond)
	l.tell("%s pass", d)
	l.probe()
}

func (l *life) revoke() {
	at := l.random.IntN(len(l.tokens))
	l.tell("token %d is revoked", at)
	l.tokens[at].revoked = true
	l.issuers[0].Revoke(l.tokens[at].text)
	l.issuers[1].Revoke(l.tokens[at].text)
}

// rotate gives the first issuer another key, which the guard learns with the first token of it.
func (l *life) rotate() {
	if l.down {
		return
	}
	l.settle()
	l.issuers[0].Rotate(jose.ES256)
	l.generation++
	l.clock.Advance(time.Minute)
	l.tell("another key")
	l.probe()
}

// fail lets both issuers fail, or answer again.
func (l *life) fail() {
	if !l.down && l.chance(2) {
		return
	}
	l.settle()
	l.down = !l.down
	for _, i := range l.issuers {
		i.SetDown(l.down)
	}
	l.downSince = l.now()
	l.tell("issuers are down: %t", l.down)
	l.clock.Advance(time.Minute) // when issuers may be asked again
	l.probe()
}

// ServeHTTP is the protected handler: it issues sessions, events and lists.
func (l *life) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.seen, l.body = r, string(body)
	l.count++
	session := r.Header.Get("Mcp-Session-Id")
	switch {
	case l.ended[session]:
		http.Error(w, "no session", http.StatusNotFound)
	case r.Method == http.MethodDelete && session != "":
		l.ended[session] = true
		w.WriteHeader(http.StatusTeapot)
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", streamType)
		fmt.Fprintf(w, "id: e-%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n", l.count)
	case strings.Contains(string(body), "initialize"):
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s-", l.count))
		w.WriteHeader(http.StatusTeapot)
	case strings.Contains(string(body), `/list"`):
		l.list(w, string(body))
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

// send sends a request, and compares what comes of it with the model.
func (l *life) send(r *livesRequest) {
	l.t.Helper()
	before := l.now()
	want := l.expect(r)
	raw := httptest.NewRequest(r.method, resource, strings.NewReader(r.body()))
	r.head(raw.Header)
	if r.body() == "" {
		raw.Body, raw.ContentLength = http.NoBody, 0
	}
	l.seen, l.event = nil, middleware.Event{}
	w, began := httptest.NewRecorder(), time.Now()
	l.guard.Protect(l).ServeHTTP(w, raw)
	if nonce := w.Header().Get("DPoP-Nonce"); nonce != "" {
		l.nonces[nonce] = livesNonce{at: before, key: l.handleKey}
	} else if l.rules.dpop != middleware.DPoPOff && l.rules.nonces {
		l.t.Error("no nonce")
	}
	l.tell("%s: %d, want %+v", l.named(r), w.Code, want)
	if want.status != l.event.Status || want.code != l.event.Code {
		l.t.Errorf("observed %+v", l.event)
	}
	if want.status != 0 {
		l.refused(want, r, w)
		return
	}
	l.reached(r, w, began)
}

// refused compares a refusal with the model.
func (l *life) refused(want livesWant, r *livesRequest, w *httptest.ResponseRecorder) {
	l.t.Helper()
	if l.seen != nil || w.Code != want.status {
		l.t.Errorf("%d %s, want %+v", w.Code, w.Body, want)
	}
	all, err := metadata.ParseChallenges(w.Header()["Www-Authenticate"])
	if err != nil || want.silent != (len(all) == 0) || want.status == 503 && w.Header().Get("Retry-After") == "" {
		l.t.Errorf("%v, %v", w.Header(), err)
	}
	codes := []string{}
	for _, c := range all {
		if code := get(c, "error"); code != "" {
			codes = append(codes, code)
		}
		got := slices.Sorted(slices.Values(strings.Fields(get(c, "scope"))))
		if get(c, "resource_metadata") != metaURL || !slices.Equal(got, slices.Sorted(slices.Values(want.scopes))) {
			l.t.Errorf("%s, want %+v", c, want)
		}
	}
	if !want.silent && strings.Join(codes, " ") != want.code {
		l.t.Errorf("errors %q, want %+v", codes, want)
	}
	used := r.token != nil && (r.scheme == "DPoP" || r.proof != nil)
	alone := l.rules.dpop == middleware.DPoPRequired || used
	for _, c := range all {
		if l.rules.dpop == middleware.DPoPOff && c.Is("DPoP") || l.rules.dpop != middleware.DPoPOff && alone && c.Is("Bearer") {
			l.t.Errorf("%v", all)
		}
	}
}

// reached compares what the handler and the client got with the model.
func (l *life) reached(r *livesRequest, w *httptest.ResponseRecorder, began time.Time) {
	l.t.Helper()
	if l.seen == nil {
		l.t.Errorf("refused: %d %s", w.Code, w.Body)
		return
	}
	token, ok := middleware.TokenFrom(l.seen.Context())
	if ok != (r.token != nil) || ok && (token.Principal() != r.token.principal() || token.ClientID != r.token.client) {
		l.t.Errorf("the handler sees %+v", token)
	}
	for _, scope := range append(livesScopes, "notes:secret") {
		if ok && token.HasScope(scope) != slices.Contains(l.holds(r.token), scope) {
			l.t.Errorf("the handler sees %s: %t", scope, token.HasScope(scope))
		}
	}
	for name, sent := range map[string]*livesHandle{"Mcp-Session-Id": r.session, "Last-Event-Id": r.event} {
		if got := l.seen.Header.Get(name); got != l.inside(sent) {
			l.t.Errorf("the handler sees %s %q, want %q", name, got, l.inside(sent))
		}
	}
	if l.seen.Header.Get("Authorization")+l.seen.Header.Get("DPoP") != "" {
		l.t.Error("the handler sees credentials")
	}
	end, limited := l.seen.Context().Deadline()
	if life := l.life(r.token); limited != (life != 0) || limited && (end.Before(began.Add(life)) || end.After(time.Now().Add(life))) {
		l.t.Errorf("the request ends at %s, want after %s", end, life)
	}
	l.got(r, w)
}

// life returns how long a request may last, 0 for as long as it likes.
func (l *life) life(k *livesToken) time.Duration {
	if k == nil || !l.rules.ends {
		return 0
	}
	return k.ends.Add(livesLeeway).Sub(l.now())
}
