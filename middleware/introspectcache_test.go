package middleware_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// TestRevocationIsSeen checks that a token is refused within Fresh of its revocation, in both
// modes.
func TestRevocationIsSeen(t *testing.T) {
	for _, mode := range []bool{false, true} {
		for _, cached := range []int{0, -1, 1} {
			issuer, clock := middlewaretest.NewIssuer(t), newClock()
			guard := newGuard(t, issuer, func(c *middleware.Config) { c.Now, c.CachedTokens = clock.Now, cached },
				introspects(issuer, func(i *middleware.Introspection) { i.Opaque = mode }))
			mint := issuer.Mint
			if mode {
				mint = issuer.MintOpaque
			}
			request := withToken(mint(claims{"aud": resource}))
			wantStatus(t, guard, request, 200)
			clock.Advance(9 * time.Second)
			wantStatus(t, guard, request, 200)
			wantQuestions(t, issuer, 1)
			clock.Advance(2 * time.Second)
			wantStatus(t, guard, request, 200)
			wantQuestions(t, issuer, 2)
			token := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
			issuer.Revoke(token)
			wantStatus(t, guard, request, 200) // the answer is still fresh
			clock.Advance(11 * time.Second)
			for range 3 {
				wantStatus(t, guard, request, 401)
			}
			wantQuestions(t, issuer, 3) // that it is over is remembered as well
			clock.Advance(11 * time.Second)
			wantStatus(t, guard, request, 401)
			wantQuestions(t, issuer, 4)
		}
	}
}

func TestFreshIsObeyed(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	guard := newGuard(t, issuer, func(c *middleware.Config) { c.Now = clock.Now }, introspects(issuer, opaque, func(i *middleware.Introspection) { i.Fresh = time.Minute }))
	request := withToken(issuer.MintOpaque(claims{"aud": resource}))
	for n := range 3 {
		wantStatus(t, guard, request, 200)
		clock.Advance(59 * time.Second)
		wantStatus(t, guard, request, 200)
		wantQuestions(t, issuer, n+1)
		clock.Advance(2 * time.Second)
	}
}

// TestAnswersEndWithTheToken checks that a cached response ends with the expiry of the token.
func TestAnswersEndWithTheToken(t *testing.T) {
	for _, mode := range []bool{false, true} {
		issuer, clock := middlewaretest.NewIssuer(t), newClock()
		guard := newGuard(t, issuer, func(c *middleware.Config) { c.Now = clock.Now },
			introspects(issuer, func(i *middleware.Introspection) { i.Opaque, i.Fresh = mode, time.Hour }))
		mint := issuer.Mint
		if mode {
			mint = issuer.MintOpaque
		}
		request := withToken(mint(claims{"aud": resource, "exp": clock.Now().Add(time.Minute).Unix()}))
		wantStatus(t, guard, request, 200)
		clock.Advance(69 * time.Second)
		wantStatus(t, guard, request, 200)
		clock.Advance(2 * time.Second)
		wantStatus(t, guard, request, 401)
	}
}

// TestOneQuestionForAll checks that requests with one token share a lookup, and that one that is
// cancelled does not cancel it for the others.
func TestOneQuestionForAll(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) { c.Client = &http.Client{Timeout: time.Minute} })
	release := make(chan struct{})
	issuer.SetDocument(introspectPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"active":true,"sub":"reader","client_id":"client","aud":%q,"exp":%d}`, resource, time.Now().Add(time.Hour).Unix())
	}))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan int)
	go func() {
		code, _ := status(guard, withToken("token").WithContext(ctx))
		first <- code
	}()
	eventually(t, "the question", func() bool { return issuer.IntrospectionRequests() == 1 })
	cancel()
	if code := <-first; code != 503 {
		t.Errorf("the request that gave up got %d", code)
	}
	var wg sync.WaitGroup
	codes := make(chan int, 64)
	for range cap(codes) {
		wg.Go(func() {
			code, _ := status(guard, withToken("token"))
			codes <- code
		})
	}
	close(release)
	wg.Wait()
	close(codes)
	for code := range codes {
		if code != 200 {
			t.Errorf("a request got %d", code)
		}
	}
	wantQuestions(t, issuer, 1)
}

// strangers send tokens from one address until no more of them can wait. The issuer answers whenever
// release gives something.
type strangers struct {
	*testing.T
	guard   *middleware.Guard
	sent    int
	asked   chan string // the tokens that the issuer is asked about
	release chan struct{}
	answers chan strangersAnswer
	waiting map[string]bool // of the tokens
}

type strangersAnswer struct {
	token string
	code  int
}

func newStrangers(t *testing.T, guard *middleware.Guard, issuer *middlewaretest.Issuer) *strangers {
	const atOnce, waiting = 64, 256
	s := &strangers{T: t, guard: guard, asked: make(chan string, 1000), release: make(chan struct{}), answers: make(chan strangersAnswer, 1000), waiting: map[string]bool{}}
	issuer.SetDocument(introspectPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked <- r.PostFormValue("token")
		<-s.release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"active":false}`)
	}))
	s.fill(atOnce + waiting + 1)
	eventually(t, "all questions", func() bool { return len(s.asked) == atOnce })
	return s
}

// fill sends one token more than there is room for.
func (s *strangers) fill(n int) {
	s.Helper()
	for range n {
		token := fmt.Sprintf("stranger-%d", s.sent)
		s.sent, s.waiting[token] = s.sent+1, true
		go func() {
			code, _ := status(s.guard, withToken(token))
			s.answers <- strangersAnswer{token, code}
		}()
	}
	s.turnedAway()
}

// next returns the next token that the issuer is asked about.
func (s *strangers) next() string {
	token := <-s.asked
	delete(s.waiting, token)
	return token
}

// turnedAway waits for a token that finds no room.
func (s *strangers) turnedAway() {
	s.Helper()
	got := <-s.answers
	if got.code != http.StatusServiceUnavailable {
		s.Fatalf("there was room for %s: %d", got.token, got.code)
	}
	delete(s.waiting, got.token)
}

// TestQuestionsAreBounded checks that the number of concurrent lookups and of those that wait is
// bounded, and that cached tokens are accepted meanwhile.
func TestQuestionsAreBounded(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) { c.Client = &http.Client{Timeout: time.Minute} })
	good := issuer.MintOpaque(claims{"aud": resource})
	wantStatus(t, guard, withToken(good), 200)
	s := newStrangers(t, guard, issuer)
	for n := range 10 {
		header := wantStatus(t, guard, withToken(fmt.Sprintf("another-%d", n)), 503)
		if header.Get("Retry-After") == "" {
			t.Errorf("%v", header)
		}
		wantStatus(t, guard, withToken(good), 200)
	}
	close(s.release)
	for range s.sent - 1 {
		if got := <-s.answers; got.code != 401 {
			t.Errorf("%s got %d", got.token, got.code)
		}
	}
	if len(s.asked) != s.sent-1 {
		t.Errorf("%d questions", len(s.asked))
	}
	wantStatus(t, guard, withToken("another-1"), 401)
}

// TestStrangersTakeNoTurnOfOthers: a person whose token must be looked up comes next, however many
// tokens of another network wait, also if somebody there has sent the same token.
func TestStrangersTakeNoTurnOfOthers(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) { c.Client = &http.Client{Timeout: time.Minute} })
	s := newStrangers(t, guard, issuer)
	for range len(s.asked) {
		s.next()
	}
	var people sync.WaitGroup
	isNext := func(token string) {
		people.Go(func() {
			r := withToken(token)
			r.RemoteAddr = "198.51.100.7:4711"
			_, _ = status(guard, r)
		})
		s.turnedAway() // for the person
		s.release <- struct{}{}
		if next := s.next(); next != token {
			t.Errorf("%s: the next question is about %s", token, next)
		}
		<-s.answers // which gave its place
	}
	isNext("mine")
	s.fill(2) // the newest ones make room
	for n := range s.sent {
		if token := fmt.Sprintf("stranger-%d", n); s.waiting[token] {
			isNext(token)
			break
		}
	}
	close(s.release)
	people.Wait()
}

// TestStrangersPushNothingOut checks that inactive tokens do not evict active ones from the
// cache.
func TestStrangersPushNothingOut(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque, func(i *middleware.Introspection) { i.Fresh = time.Hour }), func(c *middleware.Config) { c.CachedTokens = 4 })
	good := make([]string, 4)
	for n := range good {
		good[n] = issuer.MintOpaque(claims{"aud": resource})
		wantStatus(t, guard, withToken(good[n]), 200)
	}
	for n := range 500 {
		wantStatus(t, guard, withToken(fmt.Sprintf("stranger-%d", n)), 401)
	}
	wantQuestions(t, issuer, 504)
	for _, token := range good {
		wantStatus(t, guard, withToken(token), 200)
	}
	wantStatus(t, guard, withToken("stranger-499"), 401)
	wantQuestions(t, issuer, 504)
}

// TestAnswersOutliveKeys checks that neither new keys nor inactive tokens cause further lookups
// of a token whose response is cached.
func TestAnswersOutliveKeys(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	issuer.Rotate(jose.EdDSA)
	guard := newGuard(t, issuer, introspects(issuer, func(i *middleware.Introspection) { i.Fresh = time.Hour }), func(c *middleware.Config) {
		c.CachedTokens, c.Now = 4, clock.Now
	})
	good := make([]string, 4)
	for n := range good {
		good[n] = issuer.Mint(claims{"aud": resource})
		wantStatus(t, guard, withToken(good[n]), 200)
	}
	for range 100 {
		token := issuer.Mint(claims{"aud": resource})
		issuer.Revoke(token)
		wantStatus(t, guard, withToken(token), 401)
	}
	wantQuestions(t, issuer, 104)
	before := wantVerdict(t, guard, good[0], nil)
	clock.Advance(31 * time.Second)
	wantStatus(t, guard, unknownKey(t, issuer, clock), 401)
	wantFetches(t, issuer, 2)
	if wantVerdict(t, guard, good[0], nil) == before {
		t.Error("the token was not checked again with the new keys")
	}
	for _, token := range good {
		wantStatus(t, guard, withToken(token), 200)
	}
	wantQuestions(t, issuer, 104)
}

// TestAnswersAreForOneResource checks that guards of two resources do not share responses.
func TestAnswersAreForOneResource(t *testing.T) {
	const other = "https://files.example.com/mcp"
	for _, mode := range []bool{false, true} {
		issuer := middlewaretest.NewIssuer(t)
		look := introspects(issuer, func(i *middleware.Introspection) { i.Opaque = mode })
		notes := newGuard(t, issuer, look)
		files := newGuard(t, issuer, look, func(c *middleware.Config) { c.Resource = other })
		mint := issuer.Mint
		if mode {
			mint = issuer.MintOpaque
		}
		forNotes, forFiles, forBoth := mint(claims{"aud": resource}), mint(claims{"aud": other}), mint(claims{"aud": []string{other, resource}})
		for range 2 {
			wantStatus(t, notes, withToken(forNotes), 200)
			wantStatus(t, files, withToken(forNotes), 401)
			wantStatus(t, files, withToken(forFiles), 200)
			wantStatus(t, notes, withToken(forFiles), 401)
			wantStatus(t, notes, withToken(forBoth), 200)
			wantStatus(t, files, withToken(forBoth), 200)
		}
	}
}
