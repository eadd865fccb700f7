package authz_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"gatehouse.example/metadata"
)

// reply is an answer of the server, with its whole body.
type reply struct {
	status int
	header http.Header
	body   string
	url    *url.URL // of the request
}

// String returns the important parts for messages, without the style of pages.
func (r reply) String() string {
	out := fmt.Sprintf("status %d", r.status)
	for _, name := range []string{"Location", "Content-Type", "Allow", "WWW-Authenticate"} {
		if v := r.header.Values(name); len(v) > 0 {
			out += fmt.Sprintf(", %s: %q", name, v)
		}
	}
	body := styleTag.ReplaceAllString(r.body, "")
	return out + "\n" + body[:min(len(body), 3000)]
}

var styleTag = regexp.MustCompile(`(?s)<head>.*</header>`)

func (r reply) location(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse(r.header.Get("Location"))
	if err != nil || r.header.Get("Location") == "" {
		t.Fatalf("status %d without a usable Location %q: %s", r.status, r.header.Get("Location"), r.body)
	}
	return u
}

// json returns the members of a JSON object.
func (r reply) json(t testing.TB) map[string]any {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(r.body), &members); err != nil {
		t.Fatalf("status %d, not a JSON object: %v\n%s", r.status, err, r.body)
	}
	return members
}

func (r reply) member(t testing.TB, name string) string {
	t.Helper()
	s, _ := r.json(t)[name].(string)
	return s
}

// send sends a request without cookies, as a program does.
func (h *harness) send(r *http.Request) reply {
	h.t.Helper()
	return h.with(nil, r)
}

func (h *harness) with(jar http.CookieJar, r *http.Request) reply {
	h.t.Helper()
	carrier := http.RoundTripper(h.transport)
	if h.wire != nil {
		carrier = h.wire(carrier)
	}
	client := http.Client{Transport: carrier, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r.WithContext(h.t.Context()))
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{status: res.StatusCode, header: res.Header, body: string(body), url: r.URL}
}

// newRequest makes a request; values become the query of a GET and the form of a POST.
func (h *harness) newRequest(method, path string, values url.Values) *http.Request {
	h.t.Helper()
	target, body := path, ""
	if strings.HasPrefix(path, "/") {
		target = origin(h.issuer) + path
	}
	switch {
	case method == http.MethodPost:
		body = values.Encode()
	case len(values) > 0:
		target += "?" + values.Encode()
	}
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

func origin(issuer string) string {
	u, _ := url.Parse(issuer)
	return u.Scheme + "://" + u.Host
}

// post sends a form to a path below the issuer, as a program does.
func (h *harness) post(path string, pairs ...string) reply {
	h.t.Helper()
	return h.send(h.newRequest(http.MethodPost, h.issuer+path, form(pairs...)))
}

func (h *harness) get(path string) reply {
	h.t.Helper()
	return h.send(h.newRequest(http.MethodGet, h.issuer+path, nil))
}

// form returns the values of alternating names and values.
func form(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return values
}

// redemption returns a token request that exchanges a code, with correct parameters. The
// method as adds the header of a client with client_secret_basic.
func redemption(c testClient, code string) url.Values {
	values := form("grant_type", "authorization_code", "code", code, "redirect_uri", c.redirect, "code_verifier", verifier)
	return identified(c, values)
}

// naming adds resource parameters to a token request.
func naming(values url.Values, resources ...string) url.Values {
	values["resource"] = resources
	return values
}

func refreshing(c testClient, token string) url.Values {
	return identified(c, form("grant_type", "refresh_token", "refresh_token", token))
}

func identified(c testClient, values url.Values) url.Values {
	if c.Metadata.TokenEndpointAuthMethod != metadata.AuthMethodBasic {
		values.Set("client_id", c.ID)
	}
	if c.Metadata.TokenEndpointAuthMethod == metadata.AuthMethodPost {
		values.Set("client_secret", c.secret)
	}
	return values
}

// toToken sends a token request of a client.
func (h *harness) toToken(c testClient, values url.Values) reply {
	h.t.Helper()
	return h.as(c, "/token", values)
}

// as sends a form with the authentication of a client.
func (h *harness) as(c testClient, path string, values url.Values) reply {
	h.t.Helper()
	if c.Metadata.TokenEndpointAuthMethod == metadata.AuthMethodPrivateKeyJWT && values.Get("client_assertion") == "" {
		values = asserted(values, h.assertion(clientKey(), c.ID, h.issuer, nil))
	}
	r := h.newRequest(http.MethodPost, h.issuer+path, values)
	if c.Metadata.TokenEndpointAuthMethod == metadata.AuthMethodBasic {
		r.SetBasicAuth(c.ID, c.secret)
	}
	return h.send(r)
}

// tokens are the results of a code exchange.
type tokens struct{ access, refresh, code string }

// tokens signs in with a new browser, consents and redeems.
func (h *harness) tokens(c testClient) tokens {
	h.t.Helper()
	return h.newBrowser().tokens(c, asks(c))
}

func (b *browser) tokens(c testClient, request url.Values) tokens {
	b.h.t.Helper()
	code := b.code(request)
	answer := b.h.toToken(c, redemption(c, code))
	if answer.status != http.StatusOK {
		b.h.t.Fatalf("redeem: status %d: %s", answer.status, answer.body)
	}
	return tokens{access: answer.member(b.h.t, "access_token"), refresh: answer.member(b.h.t, "refresh_token"), code: code}
}

// introspect sends the token to /introspect as the notes server.
func (h *harness) introspect(token string) reply {
	h.t.Helper()
	return h.introspectAs(notes, notesSecret, token)
}

func (h *harness) introspectAs(id, secret, token string) reply {
	h.t.Helper()
	r := h.newRequest(http.MethodPost, h.issuer+"/introspect", form("token", token))
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	return h.send(r)
}

func (h *harness) active(token string) bool {
	h.t.Helper()
	answer := h.introspect(token)
	if answer.status != http.StatusOK {
		h.t.Fatalf("introspect: status %d: %s", answer.status, answer.body)
	}
	active, _ := answer.json(h.t)["active"].(bool)
	if !active && strings.TrimSpace(answer.body) != `{"active":false}` {
		h.t.Errorf("an inactive token must answer nothing but active: %s", answer.body)
	}
	return active
}

// claims decodes the payload of a JWT without verifying its signature.
func claims(t testing.TB, token string) map[string]any {
	t.Helper()
	return jwtPart(t, token, 1)
}

func jwtPart(t testing.TB, token string, part int) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("not a JWT: %q", token)
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[part])
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	return members
}
