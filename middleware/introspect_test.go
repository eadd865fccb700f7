package middleware_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gatehouse.example/metadata"
	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const introspectPath = "/introspect"

// introspects configures a guard to look up the tokens of an issuer.
func introspects(issuer *middlewaretest.Issuer, change ...func(*middleware.Introspection)) func(*middleware.Config) {
	return func(c *middleware.Config) {
		i := middleware.Introspection{}
		i.ClientID, i.ClientSecret = issuer.Credentials()
		for _, f := range change {
			f(&i)
		}
		if c.Introspection == nil {
			c.Introspection = make(map[string]middleware.Introspection)
		}
		c.Introspection[issuer.URL()] = i
	}
}

func opaque(i *middleware.Introspection) { i.Opaque = true }

// answers publishes what the issuer says about every token.
func answers(issuer *middlewaretest.Issuer, text string) {
	issuer.SetDocument(introspectPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}))
}

func wantQuestions(t *testing.T, issuer *middlewaretest.Issuer, want int) {
	t.Helper()
	if got := issuer.IntrospectionRequests(); got != want {
		t.Fatalf("%d questions, want %d", got, want)
	}
}

func TestOpaqueTokens(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) {
		c.Policy.Implies = map[string][]string{"notes:write": {"notes:read"}}
	})
	now := time.Now().Truncate(time.Second)
	token := passes(t, guard, withToken(issuer.MintOpaque(claims{
		"aud": []string{resource}, "sub": "reader", "client_id": "editor", "scope": "notes:write", "jti": "one",
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})))
	if token.Subject != "reader" || token.ClientID != "editor" || token.Issuer != issuer.URL() || token.ID != "one" ||
		!slices.Equal(token.Audience, []string{resource}) || !token.HasScope("notes:write", "notes:read") || token.HasScope("admin") ||
		!token.Expiry.Equal(now.Add(time.Minute)) || !token.IssuedAt.Equal(now) {
		t.Errorf("%+v", *token)
	}
	// What the RFC leaves out may be left out, unless it is needed here.
	token = passes(t, guard, withToken(issuer.MintOpaque(claims{"aud": resource, "iss": nil, "iat": nil, "jti": nil, "scope": nil})))
	if token.Issuer != issuer.URL() || !token.IssuedAt.IsZero() || len(token.Scopes) != 0 {
		t.Errorf("%+v", *token)
	}
	passes(t, guard, withToken(issuer.Mint(claims{"aud": resource}))) // JWTs are looked up like all others
	c := refused(t, guard, withToken("invented"), http.StatusUnauthorized)
	if get(c, "error") != "invalid_token" {
		t.Errorf("%s", c)
	}
	if issuer.KeyRequests() != 0 {
		t.Error("the keys of an issuer with opaque tokens were fetched")
	}
}

// TestQuestion looks at what is asked.
func TestQuestion(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	asked := make(chan *http.Request, 1)
	issuer.SetDocument(introspectPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked <- r
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"active":false}`)
	}))
	guard := newGuard(t, issuer, introspects(issuer, opaque, func(i *middleware.Introspection) {
		i.ClientID, i.ClientSecret = "notes:é +%", "p:w& =%20"
	}))
	const token = "a+b/c=="
	refused(t, guard, withToken(token), http.StatusUnauthorized)
	r := <-asked
	if r.Method != "POST" || r.URL.RawQuery != "" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Accept") != "application/json" {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	if want := (url.Values{"token": {token}, "token_type_hint": {"access_token"}}).Encode(); r.PostForm.Encode() != want {
		t.Errorf("the question is %s, want %s", r.PostForm.Encode(), want)
	}
	// RFC 6749 section 2.3.1.
	id, secret, _ := r.BasicAuth()
	if id != "notes%3A%C3%A9+%2B%25" || secret != "p%3Aw%26+%3D%2520" {
		t.Errorf("the credentials are %q, %q", id, secret)
	}
	if _, ok := r.Header["Idempotency-Key"]; ok || len(r.Header["Cookie"]) > 0 {
		t.Errorf("%v", r.Header)
	}
}

// answered is what an issuer says about a good token, with changes. A nil value leaves a
// member out.
func answered(changes claims) string {
	all := claims{"active": true, "sub": `"reader"`, "client_id": `"client"`, "aud": `"` + resource + `"`, "exp": time.Now().Add(time.Minute).Unix(), "scope": `"a"`}
	maps.Copy(all, changes)
	var members []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != nil {
			members = append(members, fmt.Sprintf("%q:%v", name, all[name]))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// answerTable is what issuers could say, and what follows.
func answerTable(issuer string) map[string]struct {
	text string
	want int
} {
	with, now := answered, time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	return map[string]struct {
		text string
		want int
	}{
		"as it is":            {with(nil), 418},
		"of this issuer":      {with(claims{"iss": `"` + issuer + `"`}), 418},
		"unknown members":     {with(claims{"ext": `{"a":[1,null,{}]}`, "username": `"x"`, "Active": false, "ACTIVE": 1}), 418},
		"bearer":              {with(claims{"token_type": `"bearer"`, "token_use": `"access_token"`}), 418},
		"aud among others":    {with(claims{"aud": `["https://other.example.org","` + resource + `"]`}), 418},
		"exp a moment ago":    {with(claims{"exp": at(-8 * time.Second)}), 418},
		"nbf a moment ahead":  {with(claims{"nbf": at(9 * time.Second)}), 418},
		"white space":         {" \n" + with(nil) + "\n ", 418},
		"inactive":            {`{"active":false}`, 401},
		"inactive and more":   {with(claims{"active": false}), 401},
		"inactive, odd":       {`{"active":false,"exp":0,"aud":null,"sub":7}`, 401},
		"aud absent":          {with(claims{"aud": nil}), 401},
		"aud empty":           {with(claims{"aud": `""`}), 401},
		"aud no values":       {with(claims{"aud": `[]`}), 401},
		"aud null":            {with(claims{"aud": "null"}), 401},
		"aud another":         {with(claims{"aud": `"https://other.example.org/mcp"`}), 401},
		"aud several others":  {with(claims{"aud": `["https://other.example.org/mcp","` + resource + `/admin"]`}), 401},
		"iss another":         {with(claims{"iss": `"https://other.example.org"`}), 401},
		"iss with a slash":    {with(claims{"iss": `"` + issuer + `/"`}), 401},
		"sub absent":          {with(claims{"sub": nil}), 401},
		"sub empty":           {with(claims{"sub": `""`}), 401},
		"client_id absent":    {with(claims{"client_id": nil}), 401},
		"client_id empty":     {with(claims{"client_id": `""`}), 401},
		"cnf: bound to a key": {with(claims{"cnf": `{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}`}), 401},
		"exp absent":          {with(claims{"exp": nil}), 401},
		"exp a minute ago":    {with(claims{"exp": at(-time.Minute)}), 401},
		"nbf a minute ahead":  {with(claims{"nbf": at(time.Minute)}), 401},
		"iat a minute ahead":  {with(claims{"iat": at(time.Minute)}), 401},
		"bound to a key":      {with(claims{"token_type": `"DPoP"`}), 401},
		"a refresh token":     {with(claims{"token_use": `"refresh_token"`}), 401},
		"a refresh token (2)": {with(claims{"token_type": `"refresh_token"`}), 401},
	}
}

// notAnswers is what issuers could say that tells nothing about the token.
func notAnswers() map[string]string {
	with := answered
	return map[string]string{
		"active absent":         with(claims{"active": nil}),
		"active null":           with(claims{"active": "null"}),
		"active a string":       with(claims{"active": `"true"`}),
		"active a number":       with(claims{"active": 1}),
		"active in other case":  with(claims{"active": nil, "Active": true}),
		"active twice":          `{"active":false,` + with(nil)[1:],
		"active twice, escaped": `{"\u0061ctive":true,"active":false}`,
		"aud twice":             `{"aud":"https://other.example.org",` + with(nil)[1:],
		"aud an object":         with(claims{"aud": `{"a":"` + resource + `"}`}),
		"exp a string":          with(claims{"exp": fmt.Sprintf(`"%d"`, time.Now().Add(time.Minute).Unix())}),
		"exp milliseconds":      with(claims{"exp": time.Now().Add(time.Minute).UnixMilli()}),
		"sub a number":          with(claims{"sub": 7}),
		"scope an array":        with(claims{"scope": `["a"]`}),
		"empty":                 "",
		"an empty object":       "{}",
		"null":                  "null",
		"true":                  "true",
		"an array":              "[" + with(nil) + "]",
		"two answers":           with(nil) + with(nil),
		"cut off":               strings.TrimSuffix(with(nil), "}"),
		"a page":                "<!doctype html><title>Sign in</title>",
		"too large":             with(claims{"x": `"` + strings.Repeat("x", 64<<10) + `"`}),
	}
}

func TestAnswers(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	for name, tt := range answerTable(issuer.URL()) {
		t.Run(name, func(t *testing.T) {
			answers(issuer, tt.text)
			wantAnswer(t, newGuard(t, issuer, introspects(issuer, opaque)), withToken("token"), tt.want)
		})
	}
	for name, text := range notAnswers() {
		t.Run(name, func(t *testing.T) {
			answers(issuer, text)
			wantAnswer(t, newGuard(t, issuer, introspects(issuer, opaque)), withToken("token"), http.StatusServiceUnavailable)
		})
	}
}

// wantAnswer looks at the status, and that the challenge is the right one.
func wantAnswer(t *testing.T, guard *middleware.Guard, r *http.Request, want int) {
	t.Helper()
	if want == http.StatusTeapot {
		passes(t, guard, r)
		return
	}
	c := refused(t, guard, r, want)
	if code := get(c, "error"); want == http.StatusUnauthorized && code != "invalid_token" || want == http.StatusServiceUnavailable && code != "" {
		t.Errorf("the challenge is %s", c)
	}
	if want == http.StatusServiceUnavailable && wantStatus(t, guard, r, want).Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
}

// TestBothMustAgree: a JWT that is right in itself and is looked up as well.
func TestBothMustAgree(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	exp := time.Now().Add(time.Minute).Truncate(time.Second)
	const usual = `"sub":"reader","client_id":"client"`
	aud := `,"aud":"` + resource + `"`
	for name, tt := range map[string]struct {
		members string
		want    int
	}{
		"the same":          {usual + aud, 418},
		"another sub":       {`"sub":"other","client_id":"client"` + aud, 401},
		"no sub":            {`"client_id":"client"` + aud, 401},
		"another client":    {`"sub":"reader","client_id":"other"` + aud, 401},
		"no client":         {`"sub":"reader"` + aud, 401},
		"another aud":       {usual + `,"aud":"https://other.example.org"`, 401},
		"no aud":            {usual, 401},
		"another issuer":    {usual + aud + `,"iss":"https://other.example.org"`, 401},
		"scopes as granted": {usual + aud + `,"scope":"a b c"`, 418},
		"scopes taken back": {usual + aud + `,"scope":"c a"`, 418},
	} {
		t.Run(name, func(t *testing.T) {
			answers(issuer, fmt.Sprintf(`{"active":true,"exp":%d,%s}`, exp.Unix(), tt.members))
			guard := newGuard(t, issuer, introspects(issuer))
			request := withToken(issuer.Mint(claims{"aud": resource, "scope": "a b"}))
			wantAnswer(t, guard, request, tt.want)
			if tt.want != 418 {
				return
			}
			token := passes(t, guard, request)
			if !token.Expiry.Equal(exp) {
				t.Errorf("the expiry is %v, not the earlier one", token.Expiry)
			}
			if taken := strings.Contains(tt.members, `"c a"`); !token.HasScope("a") || token.HasScope("b") == taken || token.HasScope("c") {
				t.Errorf("the scopes are %q", token.Scopes)
			}
		})
	}
	answers(issuer, fmt.Sprintf(`{"active":true,%s}`, usual+aud))
	wantStatus(t, newGuard(t, issuer, introspects(issuer)), withToken(issuer.Mint(claims{"aud": resource})), 401) // no exp
}

// TestBothAsksForGoodTokensOnly: nobody is asked about a JWT that is wrong in itself.
func TestBothAsksForGoodTokensOnly(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer))
	answers(issuer, fmt.Sprintf(`{"active":true,"sub":"reader","client_id":"client","aud":%q,"exp":%d}`, resource, time.Now().Add(time.Hour).Unix()))
	for _, broken := range issuer.Broken(resource) {
		if code, _ := status(guard, withToken(broken.Token)); code != 401 && code != 400 {
			t.Errorf("%s: %d", broken.Name, code)
		}
	}
	wantStatus(t, guard, withToken(issuer.MintOpaque(claims{"aud": resource})), 401)
	wantQuestions(t, issuer, 0)
	passes(t, guard, withToken(issuer.Mint(claims{"aud": resource})))
	wantQuestions(t, issuer, 1)
}

func TestBrokenTokensAreNotActive(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque))
	for _, broken := range issuer.Broken(resource) {
		if code, _ := status(guard, withToken(broken.Token)); code != 401 && code != 400 {
			t.Errorf("%s: %d", broken.Name, code)
		}
	}
}

// TestOpaqueBesideOthers: who is asked about which token.
func TestOpaqueBesideOthers(t *testing.T) {
	alone, both, all := middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t), middlewaretest.NewIssuer(t)
	guard := newGuard(t, all, introspects(both), introspects(all, opaque), func(c *middleware.Config) {
		c.AuthorizationServers = append(c.AuthorizationServers, alone.URL(), both.URL())
	})
	wantBoth, wantAll := 0, 0
	check := func(token string, want, moreBoth, moreAll int) {
		t.Helper()
		wantStatus(t, guard, withToken(token), want)
		wantBoth, wantAll = wantBoth+moreBoth, wantAll+moreAll
		wantQuestions(t, both, wantBoth)
		wantQuestions(t, all, wantAll)
	}
	good := claims{"aud": resource}
	check(alone.Mint(good), 200, 0, 0)
	check(both.Mint(good), 200, 1, 0)
	check(all.Mint(good), 200, 0, 1)
	check(all.MintOpaque(good), 200, 0, 1)
	check(both.MintOpaque(good), 401, 0, 1)  // is none of all's
	check(alone.MintOpaque(good), 401, 0, 1) // is none of all's
	check(middlewaretest.NewIssuer(t).Mint(good), 401, 0, 1)
	for _, broken := range alone.Broken(resource) {
		if code, _ := status(guard, withToken(broken.Token)); code != 401 && code != 400 {
			t.Errorf("%s: %d", broken.Name, code)
		}
	}
	// Nobody speaks for another: neither in a JWT nor in an answer.
	wantAll = all.IntrospectionRequests()
	check(all.Mint(claims{"aud": resource, "iss": alone.URL()}), 401, 0, 0)
	check(all.MintOpaque(claims{"aud": resource, "iss": alone.URL()}), 401, 0, 1)
}

// TestEndpointOfTheMetadata: without one in the configuration, the metadata says where.
func TestEndpointOfTheMetadata(t *testing.T) {
	issuer, clock := middlewaretest.NewIssuer(t), newClock()
	mint := func() *http.Request {
		now := clock.Now()
		return withToken(issuer.MintOpaque(claims{"aud": resource, "iat": nil, "exp": now.Add(time.Hour).Unix()}))
	}
	var reads atomic.Int32
	publish := func(endpoint string) {
		document, err := metadata.Serve(metadata.AuthorizationServer{Issuer: issuer.URL(), IntrospectionEndpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		issuer.SetDocument(asPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reads.Add(1)
			document.ServeHTTP(w, r)
		}))
	}
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) { c.Now = clock.Now })
	for _, bad := range []string{"", "http://auth.example.com/introspect", "/introspect", "ftp://127.0.0.1/", issuer.URL() + "/introspect#a"} {
		publish(bad)
		wantAnswer(t, guard, mint(), 503)
		clock.Advance(2 * time.Second)
	}
	reads.Store(0)
	publish(issuer.URL() + introspectPath)
	for range 3 {
		wantStatus(t, guard, mint(), 200)
	}
	clock.Advance(5*time.Minute - time.Second)
	wantStatus(t, guard, mint(), 200)
	if reads.Load() != 1 {
		t.Errorf("the metadata was read %d times", reads.Load())
	}
	clock.Advance(time.Second)
	wantStatus(t, guard, mint(), 200)
	if reads.Load() != 2 {
		t.Errorf("the metadata was read %d times", reads.Load())
	}
	// What was found serves on.
	issuer.SetDocument(asPath, nil)
	clock.Advance(time.Hour)
	wantStatus(t, guard, mint(), 200)
	// Nobody reads it again and again while it is not there.
	fresh := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) { c.Now = clock.Now })
	reads.Store(0)
	issuer.SetDocument(asPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	for range 5 {
		wantStatus(t, fresh, mint(), 503)
	}
	if reads.Load() != 1 {
		t.Errorf("the metadata was read %d times", reads.Load())
	}
}

func TestIntrospectionRefused(t *testing.T) {
	const one, two, local = "https://auth.example.com", "https://login.example.com", "http://127.0.0.1:8080"
	good := middleware.Introspection{ClientID: "notes", ClientSecret: "secret"}
	entry := func(change func(*middleware.Introspection)) middleware.Introspection {
		i := good
		change(&i)
		return i
	}
	endpoint := func(address string) middleware.Introspection {
		return entry(func(i *middleware.Introspection) { i.Endpoint = address })
	}
	type asked = map[string]middleware.Introspection
	for name, tt := range map[string]struct {
		introspection asked
		want          string // what the error says; empty for none
	}{
		"none":                      {nil, ""},
		"both modes":                {asked{one: good, two: entry(func(i *middleware.Introspection) { i.Opaque = true })}, ""},
		"an endpoint":               {asked{one: endpoint("https://tokens.example.com/introspect")}, ""},
		"loopback":                  {asked{local: endpoint("http://127.0.0.1:8080/introspect")}, ""},
		"an unknown issuer":         {asked{"https://other.example.com": good}, "none of the authorization servers"},
		"an issuer with a slash":    {asked{one + "/": good}, "none of the authorization servers"},
		"two with opaque tokens":    {asked{one: entry(opaque), two: entry(opaque)}, "one issuer at most"},
		"no id":                     {asked{one: entry(func(i *middleware.Introspection) { i.ClientID = "" })}, "client id"},
		"no secret":                 {asked{one: entry(func(i *middleware.Introspection) { i.ClientSecret = "" })}, "secret"},
		"nothing":                   {asked{one: {}}, "client id"},
		"not https":                 {asked{one: endpoint("http://auth.example.com/introspect")}, "https"},
		"loopback of a real issuer": {asked{one: endpoint("http://127.0.0.1:8080/introspect")}, "https"},
		"not loopback":              {asked{local: endpoint("http://auth.example.com/introspect")}, "https"},
		"no host":                   {asked{one: endpoint("https:///introspect")}, "introspection: " + one},
		"a path":                    {asked{one: endpoint("/introspect")}, "introspection: " + one},
		"with a password":           {asked{one: endpoint("https://a:hidden@auth.example.com/introspect")}, "introspection: " + one},
		"with a fragment":           {asked{one: endpoint("https://auth.example.com/introspect#a")}, "introspection: " + one},
		"less than no time":         {asked{one: entry(func(i *middleware.Introspection) { i.Fresh = -1 })}, "less than no time"},
	} {
		guard, err := middleware.New(middleware.Config{Resource: resource, AuthorizationServers: []string{one, two, local}, Introspection: tt.introspection})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (err == nil || guard != nil || !strings.HasPrefix(err.Error(), "middleware: config: ") || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v", name, err)
		case err != nil && (strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), good.ClientSecret+`"`)):
			t.Errorf("%s: the secret is in the error: %v", name, err)
		}
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	i := middleware.Introspection{Endpoint: "https://auth.example.com/introspect", ClientID: "notes", ClientSecret: "hidden"}
	config := middleware.Config{Introspection: map[string]middleware.Introspection{"https://auth.example.com": i}}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "introspection", i, "pointer", &i)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "introspection", i)
	for _, text := range []string{log.String(), fmt.Sprint(i, &i, config), fmt.Sprintf("%v %+v %#v %s", i, config, config, i)} {
		if strings.Contains(text, "hidden") || !strings.Contains(text, "notes") {
			t.Errorf("%s", text)
		}
	}
}

// TestRevocationIsSeen: a token ends within Fresh of its revocation, in both modes.
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

// TestAnswersEndWithTheToken: however fresh an answer is, the token ends at its expiry.
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

// TestOneQuestionForAll: requests with one token share a question, and one that gives up
// takes nothing away from the others.
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

// TestQuestionsAreBounded: of many tokens at once, some are not asked about. Those that are
// remembered serve on.
func TestQuestionsAreBounded(t *testing.T) {
	const bound = 64
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) { c.Client = &http.Client{Timeout: time.Minute} })
	good := issuer.MintOpaque(claims{"aud": resource})
	wantStatus(t, guard, withToken(good), 200)
	release := make(chan struct{})
	var at atomic.Int32
	issuer.SetDocument(introspectPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		at.Add(1)
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"active":false}`)
	}))
	var wg sync.WaitGroup
	var inactive atomic.Int32
	for n := range bound {
		wg.Go(func() {
			if code, _ := status(guard, withToken(fmt.Sprintf("stranger-%d", n))); code == 401 {
				inactive.Add(1)
			}
		})
	}
	eventually(t, "all questions", func() bool { return at.Load() == bound })
	for n := range 10 {
		header := wantStatus(t, guard, withToken(fmt.Sprintf("another-%d", n)), 503)
		if header.Get("Retry-After") == "" {
			t.Errorf("%v", header)
		}
		wantStatus(t, guard, withToken(good), 200)
	}
	close(release)
	wg.Wait()
	if inactive.Load() != bound || at.Load() != bound {
		t.Errorf("%d questions, %d answers", at.Load(), inactive.Load())
	}
	wantStatus(t, guard, withToken("another-1"), 401)
}

// TestStrangersPushNothingOut: inactive answers have a place of their own.
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

// TestAnswersOutliveKeys: an answer is remembered apart from the token that it is about, so
// that new keys do not lead to new questions; nor do tokens that are not active.
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

// TestAnswersAreForOneResource: guards of two resources share nothing, however they come
// by their answers.
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

func TestAudiences(t *testing.T) {
	issuer := middlewaretest.NewIssuer(t)
	accept := func(c *middleware.Config) {
		c.Audiences = []string{"api://notes", "https://Notes.example.net/", "0a1b"}
	}
	for name, guard := range map[string]*middleware.Guard{
		"JWT":    newGuard(t, issuer, accept),
		"both":   newGuard(t, issuer, accept, introspects(issuer)),
		"opaque": newGuard(t, issuer, accept, introspects(issuer, opaque)),
	} {
		for _, aud := range []any{"api://notes", "https://Notes.example.net/", "0a1b", resource, []string{"x", "0a1b"}} {
			if code, _ := status(guard, withToken(issuer.Mint(claims{"aud": aud}))); code != 200 {
				t.Errorf("%s: %q: %d", name, aud, code)
			}
		}
		for _, aud := range []any{"api://Notes", "api://notes/", "https://notes.example.net/", "https://Notes.example.net", "0A1B", "0a1b 0a1b", "", []string{"api:", "//notes"}} {
			if code, _ := status(guard, withToken(issuer.Mint(claims{"aud": aud}))); code != 401 {
				t.Errorf("%s: %q: %d", name, aud, code)
			}
		}
	}
}
