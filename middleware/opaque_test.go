package middleware_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

const (
	googleClient = "32555940559.apps.googleusercontent.example.com"
	githubClient = "Iv1.8a61f9b3a7aba766"
	googleToken  = "ya29.a0AfH6SMBx-jA_k1b2C3d4E5f6G7h8I9"
	githubToken  = "gho_16C7e42F292c6912E7710c838347Ae178B4a"
)

// provider is a server that looks up tokens as Google or GitHub does.
type provider struct {
	*testing.T
	profile middleware.Profile
	server  *httptest.Server

	mu       sync.Mutex
	requests []*http.Request // without their bodies
	bodies   []string
	status   int
	header   http.Header
	answer   string
	gate     chan struct{} // if it is not nil, an answer waits for it
}

// googleAnswer and githubAnswer are answers as Google's "OAuth 2.0 for web server applications" and
// tokeninfo, and GitHub's "Check a token" document them.
func googleAnswer(changes claims) string {
	return text(with(claims{"azp": googleClient, "aud": googleClient, "sub": "110169484474386276334", "scope": "openid https://www.googleapis.com/auth/userinfo.email",
		"exp": strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10), "expires_in": "3599", "email": "reader@example.com", "email_verified": "true", "access_type": "online"}, changes))
}

func githubAnswer(changes claims) string {
	return text(with(claims{"id": 1, "url": "https://api.github.com/authorizations/1", "scopes": []string{"repo", "user"}, "token": githubToken, "token_last_eight": "Ae178B4a",
		"hashed_token": "25f94a2a5c7fbaf499c665bc73d67c1c87e496da8985131633ee0a95819db2e8", "app": claims{"url": "https://app.example.com", "name": "app", "client_id": githubClient},
		"note": json.RawMessage("null"), "created_at": "2011-09-06T17:26:27Z", "updated_at": "2011-09-06T20:39:23Z", "fingerprint": json.RawMessage("null"),
		"expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "user": claims{"login": "reader", "id": 583231, "type": "User", "site_admin": false}}, changes))
}

func text(c claims) string {
	out, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func startProvider(t *testing.T, profile middleware.Profile) *provider {
	p := &provider{T: t, profile: profile, status: http.StatusOK, answer: googleAnswer(nil)}
	if profile == middleware.GitHub {
		p.answer = githubAnswer(nil)
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.requests, p.bodies = append(p.requests, r), append(p.bodies, string(sent))
		status, answer, gate := p.status, p.answer, p.gate
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		for name := range p.header {
			w.Header().Set(name, p.header.Get(name))
		}
		p.mu.Unlock()
		if gate != nil {
			<-gate
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(p.server.Close)
	return p
}

// says sets the answer to all further questions.
func (p *provider) says(status int, answer string, header ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.answer, p.header = status, answer, make(http.Header)
	for i := 0; i+1 < len(header); i += 2 {
		p.header.Set(header[i], header[i+1])
	}
}

// questions returns how many questions came since the last call.
func (p *provider) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.requests)
	p.requests, p.bodies = nil, nil
	return n
}

// token returns a token of the provider that is another one for each n.
func (p *provider) token(n int) string {
	if p.profile == middleware.GitHub {
		return fmt.Sprintf("ghu_%036d", n)
	}
	return fmt.Sprintf("ya29.%036d", n)
}

// guard returns a guard for the tokens of the provider.
func (p *provider) guard(change ...func(*middleware.Issuer, *middleware.Introspection, *middleware.Config)) *middleware.Guard {
	p.Helper()
	one := middleware.Issuer{URL: p.server.URL, Profile: p.profile, InsecureNoAudience: true, Audiences: []string{googleClient, "another"}}
	asked := middleware.Introspection{Endpoint: p.server.URL, Opaque: true}
	if p.profile == middleware.GitHub {
		one.Audiences, asked.ClientID, asked.ClientSecret = []string{githubClient}, githubClient, "secret: of the app"
	}
	config := middleware.Config{Resource: resource}
	for _, c := range change {
		c(&one, &asked, &config)
	}
	config.Issuers = append(config.Issuers, one)
	config.Introspection = map[string]middleware.Introspection{one.URL: asked}
	guard, err := middleware.New(config)
	if err != nil {
		p.Fatal(err)
	}
	return guard
}

// retry returns the status and Retry-After of the answer to a request.
func retry(t *testing.T, guard *middleware.Guard, token string) (status, after int) {
	t.Helper()
	res := serve(guard.Protect(http.NotFoundHandler()), withToken(token))
	after, _ = strconv.Atoi(res.Header.Get("Retry-After"))
	return res.StatusCode, after
}

var opaqueProviders = []middleware.Profile{middleware.Google, middleware.GitHub}

// TestOpaqueProviders checks that a token is accepted as its provider describes it, and how the
// provider is asked: the token is in no URL.
func TestOpaqueProviders(t *testing.T) {
	google, github := startProvider(t, middleware.Google), startProvider(t, middleware.GitHub)
	token := wantVerdict(t, google.guard(), googleToken, nil)
	if token.Subject != "110169484474386276334" || token.ClientID != googleClient || token.Issuer != google.server.URL || len(token.Audience) != 0 ||
		!token.HasScope("openid", "https://www.googleapis.com/auth/userinfo.email") || time.Until(token.Expiry) < 59*time.Minute {
		t.Errorf("%+v", token)
	}
	r := google.requests[0]
	if r.Method != http.MethodPost || r.URL.String() != "/" || r.Header.Get("Authorization") != "Bearer "+googleToken || google.bodies[0] != "" {
		t.Errorf("%s %s %v %s", r.Method, r.URL, r.Header, google.bodies[0])
	}
	token = wantVerdict(t, github.guard(), githubToken, nil)
	if token.Subject != "583231" || token.ClientID != githubClient || !token.HasScope("repo", "user") || token.IssuedAt.Year() != 2011 || time.Until(token.Expiry) < 59*time.Minute {
		t.Errorf("%+v", token)
	}
	var own struct {
		User struct {
			Login string `json:"login"`
		} `json:"user"`
		Token *string `json:"token"`
	}
	if err := token.Claims(&own); err != nil || own.User.Login != "reader" || own.Token != nil {
		t.Errorf("%+v, %v", own, err)
	}
	r = github.requests[0]
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(githubClient+":secret: of the app"))
	if r.Method != http.MethodPost || r.URL.String() != "/applications/"+githubClient+"/token" || r.Header.Get("Authorization") != basic ||
		github.bodies[0] != `{"access_token":"`+githubToken+`"}` || r.Header.Get("Accept") != "application/vnd.github+json" {
		t.Errorf("%s %s %v %s", r.Method, r.URL, r.Header, github.bodies[0])
	}
}

// TestOpaqueTokensOfOthers checks that no other profile accepts tokens of Google and GitHub.
func TestOpaqueTokensOfOthers(t *testing.T) {
	for profile, url := range profiles {
		guard := guardOf(t, issuerOf(t, profile, url))
		wantVerdict(t, guard, googleToken, middleware.ErrToken)
		wantVerdict(t, guard, githubToken, middleware.ErrToken)
	}
}

// TestOtherTokensAreNotAskedAbout checks that what cannot be an access token of the provider is
// refused without a question: tokens of each other profile, of other kinds, and the table of
// broken tokens.
func TestOtherTokensAreNotAskedAbout(t *testing.T) {
	for _, profile := range opaqueProviders {
		p := startProvider(t, profile)
		guard := p.guard()
		others := []string{"ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghs_16C7e42F292c6912E7710c838347Ae178B4a", "ghr_16C7e42F292c6912E7710c838347Ae178B4a",
			"github_pat_11ABCDEFG0aBcDeFgHiJkL_16C7e42F292c6912", "e72e16c7e42f292c6912e7710c838347ae178b4a", "GHO_16C7e42F292c6912E7710c838347Ae178B4a",
			"gho_", "gho_short", "gho_16C7e42F292c6912/7710c838347Ae178B4a", "ya29.", "ya29", "1//0gYC03mnhbe3PCgYIARAAGBASNwF-L9IrdsQ9BfF", "4/0AX4XfWh-code-of-google", "a"}
		if profile == middleware.Google {
			others = append(others, githubToken)
		} else {
			others = append(others, googleToken)
		}
		for _, s := range shapes {
			others = append(others, tokenOf(t, s, p.server.URL), tokenOf(t, s, "https://accounts.google.com"))
		}
		for _, one := range middlewaretest.NewIssuer(t).Broken(resource) {
			others = append(others, one.Token)
		}
		for _, other := range others {
			if _, err := guard.Verify(t.Context(), other); err == nil {
				t.Errorf("%s: %s is accepted", profile, other)
			}
		}
		if n := p.questions(); n != 0 {
			t.Errorf("%s was asked %d times", profile, n)
		}
	}
}

// TestAnswersOfProviders checks what each answer of a provider means for the token.
func TestAnswersOfProviders(t *testing.T) {
	no, down := middleware.ErrToken, middleware.ErrUnavailable
	type answers map[string]struct {
		status int
		answer string
		want   error
	}
	const page = "<!doctype html>"
	both := answers{
		"an error of the server": {500, "{}", down}, "no gateway": {502, page, down}, "down": {503, "{}", down},
		"forbidden": {403, "{}", down}, "too many": {429, "{}", down}, "elsewhere": {302, "{}", down}, "empty": {200, "", down},
		"a page": {200, page, down}, "an array": {200, "[]", down}, "null": {200, "null", down}, "no content": {204, "", down},
		"too large": {200, `{"x":"` + strings.Repeat("x", 64<<10) + `"}`, down},
	}
	for name, tt := range map[middleware.Profile]answers{
		middleware.Google: {
			"as it is":              {200, googleAnswer(nil), nil},
			"exp a number":          {200, googleAnswer(claims{"exp": time.Now().Add(time.Minute).Unix()}), nil},
			"another listed client": {200, googleAnswer(claims{"aud": "another", "azp": "another"}), nil},
			"invalid":               {400, `{"error":"invalid_token","error_description":"Invalid Value"}`, no},
			"invalid, short":        {400, `{"error_description":"Invalid Value"}`, no},
			"invalid, 401":          {401, `{"error":"invalid_token"}`, no},
			"another error":         {400, `{"error":"invalid_request"}`, down},
			"401 without a reason":  {401, `{}`, down},
			"404":                   {404, `{}`, down},
			"an empty object":       {200, `{}`, down},
			"another client":        {200, googleAnswer(claims{"aud": "stranger", "azp": "stranger"}), no},
			"another audience":      {200, googleAnswer(claims{"aud": "stranger"}), no},
			"another party":         {200, googleAnswer(claims{"azp": "stranger"}), no},
			"no party":              {200, googleAnswer(claims{"azp": nil}), nil},
			"an unreadable party":   {200, googleAnswer(claims{"azp": ""}), no},
			"no audience":           {200, googleAnswer(claims{"aud": nil}), no},
			"an array of audiences": {200, googleAnswer(claims{"aud": []string{googleClient}}), no},
			"no subject":            {200, googleAnswer(claims{"sub": nil}), no},
			"a subject, no text":    {200, googleAnswer(claims{"sub": 1}), down},
			"expired":               {200, googleAnswer(claims{"exp": "1000000000"}), no},
			"no expiry":             {200, googleAnswer(claims{"exp": nil}), down},
			"an odd expiry":         {200, googleAnswer(claims{"exp": "soon"}), down},
			"about an ID token":     {200, googleAnswer(claims{"iss": "https://accounts.google.com", "nonce": "n"}), down},
			"aud twice":             {200, `{"aud":"` + googleClient + `",` + googleAnswer(nil)[1:], down},
		},
		middleware.GitHub: {
			"as it is":           {200, githubAnswer(nil), nil},
			"no scopes":          {200, githubAnswer(claims{"scopes": nil}), nil},
			"null scopes":        {200, githubAnswer(claims{"scopes": json.RawMessage("null")}), nil},
			"no end":             {200, githubAnswer(claims{"expires_at": json.RawMessage("null")}), nil},
			"no end, absent":     {200, githubAnswer(claims{"expires_at": nil}), nil},
			"unknown":            {404, `{"message":"Not Found"}`, no},
			"not valid":          {422, `{"message":"Validation Failed"}`, no},
			"wrong credentials":  {401, `{"message":"Bad credentials"}`, down},
			"a bad request":      {400, `{}`, down},
			"an empty object":    {200, `{}`, no},
			"another app":        {200, githubAnswer(claims{"app": claims{"client_id": "Iv1.0000000000000000"}}), no},
			"no app":             {200, githubAnswer(claims{"app": nil}), no},
			"an app, no object":  {200, githubAnswer(claims{"app": githubClient}), down},
			"no user":            {200, githubAnswer(claims{"user": nil}), no},
			"null user":          {200, githubAnswer(claims{"user": json.RawMessage("null")}), no},
			"a user without id":  {200, githubAnswer(claims{"user": claims{"login": "reader"}}), no},
			"an id in text":      {200, githubAnswer(claims{"user": claims{"id": "583231"}}), down},
			"expired":            {200, githubAnswer(claims{"expires_at": "2012-09-06T17:26:27Z"}), no},
			"an odd end":         {200, githubAnswer(claims{"expires_at": "soon"}), down},
			"app twice":          {200, `{"app":{"client_id":"x"},` + githubAnswer(nil)[1:], down},
			"the client at root": {200, githubAnswer(claims{"app": nil, "client_id": githubClient}), no},
		},
	} {
		p := startProvider(t, name)
		for which, one := range both {
			if _, own := tt[which]; !own {
				tt[which] = one
			}
		}
		for which, one := range tt {
			token := p.token(0)
			p.says(one.status, one.answer)
			_, err := p.guard().Verify(t.Context(), token)
			switch {
			case (err == nil) != (one.want == nil):
				t.Errorf("%s: %s: %v", name, which, err)
			case err != nil:
				wantVerdict(t, p.guard(), token, one.want)
			}
		}
	}
}
