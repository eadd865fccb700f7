package authz_test

import (
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// browser is a person's browser: it keeps cookies and the last page.
type browser struct {
	h    *harness
	jar  http.CookieJar
	last reply
	page reply  // the last one with a form
	from string // the address that a proxy names, if it is not empty
}

func (h *harness) newBrowser() *browser {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return &browser{h: h, jar: jar}
}

func (b *browser) do(r *http.Request) reply {
	b.h.t.Helper()
	if b.from != "" {
		r.Header.Set("X-Forwarded-For", b.from)
	}
	b.last = b.h.with(b.jar, r)
	if strings.Contains(b.last.body, "<form") {
		b.page = b.last
	}
	return b.last
}

func (b *browser) open(address string) reply {
	b.h.t.Helper()
	return b.do(b.h.newRequest(http.MethodGet, address, nil))
}

// follow follows the redirect of the last answer.
func (b *browser) follow() reply {
	b.h.t.Helper()
	return b.open(b.last.url.ResolveReference(b.last.location(b.h.t)).String())
}

var (
	formTag  = regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	inputTag = regexp.MustCompile(`<(?:input|button)[^>]*>`)
	nameAttr = regexp.MustCompile(` name="([^"]*)"`)
	valAttr  = regexp.MustCompile(` value="([^"]*)"`)
)

// inputs returns the action of the page's form, its hidden and ticked inputs.
func (r reply) inputs(t testing.TB) (action string, values url.Values) {
	t.Helper()
	at := formTag.FindStringSubmatchIndex(r.body)
	if at == nil {
		t.Fatalf("a page without a form: %s", r)
	}
	found := []string{"", r.body[at[2]:at[3]]}
	first, _, _ := strings.Cut(r.body[at[0]:], "</form>") // a page may have others below
	values = url.Values{}
	for _, tag := range inputTag.FindAllString(first, -1) {
		name, value := nameAttr.FindStringSubmatch(tag), valAttr.FindStringSubmatch(tag)
		if name == nil || value == nil {
			continue
		}
		if strings.Contains(tag, `type="hidden"`) || strings.Contains(tag, " checked") {
			values.Add(name[1], html.UnescapeString(value[1]))
		}
	}
	return html.UnescapeString(found[1]), values
}

// submit sends the form of the last page with a form, with some inputs replaced. An empty
// value leaves an input out.
func (b *browser) submit(pairs ...string) reply {
	b.h.t.Helper()
	action, values := b.page.inputs(b.h.t)
	replaced := form(pairs...)
	for name, v := range replaced {
		values[name] = slices.DeleteFunc(v, func(s string) bool { return s == "" })
	}
	target, err := b.page.url.Parse(action)
	if err != nil {
		b.h.t.Fatal(err)
	}
	r := b.h.newRequest(http.MethodPost, target.String(), values)
	r.Header.Set("Origin", origin(b.h.issuer))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

// asks returns an authorization request of a client, with correct parameters.
func asks(c testClient) url.Values {
	return form("response_type", "code", "client_id", c.ID, "redirect_uri", c.redirect, "state", "af0ifjsldkj",
		"code_challenge", challenge, "code_challenge_method", "S256", "resource", notes)
}

func replaced(values url.Values, pairs ...string) url.Values {
	for name := range form(pairs...) {
		values.Del(name)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Add(pairs[i], pairs[i+1])
		}
	}
	return values
}

// walk runs the whole front channel: it signs in if necessary, decides, and returns the
// redirect to the client.
func (b *browser) walk(request url.Values, decision string, untick ...string) reply {
	b.h.t.Helper()
	b.open(b.h.issuer + "/authorize?" + request.Encode())
	for range 6 {
		switch {
		case b.last.status == http.StatusSeeOther && strings.HasPrefix(b.last.header.Get("Location"), b.h.issuer+"/"):
			b.follow()
		case b.last.status == http.StatusOK && strings.Contains(b.last.body, `name="password"`):
			b.submit("username", personName, "password", personPassword)
		case b.last.status == http.StatusOK && strings.Contains(b.last.body, `name="decision"`):
			_, values := b.last.inputs(b.h.t)
			pairs := []string{"decision", decision}
			for _, scope := range values["scope"] {
				if !slices.Contains(untick, scope) {
					pairs = append(pairs, "scope", scope)
				}
			}
			b.submit(append(pairs, "scope", "")...)
		default:
			return b.last
		}
	}
	return b.last
}

// code runs the front channel and returns the code.
func (b *browser) code(request url.Values) string {
	b.h.t.Helper()
	answer := b.walk(request, "allow")
	code := answer.location(b.h.t).Query().Get("code")
	if code == "" {
		b.h.t.Fatalf("no code in %s", answer.header.Get("Location"))
	}
	return code
}
