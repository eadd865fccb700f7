package templates_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

func TestError(t *testing.T) {
	check(t, "full", render(t, problem()), []string{
		"<h1>Unknown program</h1>", `role="alert">It is not known here.</p>`, "<ol><li>Remove the connection.</li><li>Add it again.</li></ol>",
		"<code>invalid_client</code>, status 400", `<title>Unknown program – Gatehouse</title>`,
		`href="https://app.example.org/cb?error=invalid_scope&amp;state=a" rel="noopener noreferrer nofollow" referrerpolicy="no-referrer"`,
		`The link leads to <bdi class="host">app.example.org</bdi>`,
	}, nil)
	for url, host := range map[string]string{"myapp://one/cb?a=b": "myapp://one", "com.example.app:/cb?a=b": "com.example.app:"} {
		p := problem()
		p.Link = &templates.Link{URL: url, Host: host}
		check(t, url, render(t, p), []string{`<a class="plain late" href="` + url + `"`, `<bdi class="host">` + host + `</bdi>`, "whichever program on this device"}, []string{"The link leads to"})
	}
	check(t, "empty", render(t, templates.Error{}), []string{"<h1>That did not work</h1>"}, []string{"<a ", "What you can do", "For support"})
	check(t, "one step", render(t, templates.Error{Steps: []language.Text{language.Detail("Try again.")}}), []string{"<p>Try again.</p>"}, []string{"<ol>"})
}

func TestLinkThatIsNotWhatItSays(t *testing.T) {
	for _, link := range []templates.Link{
		{URL: "javascript:alert(1)", Host: ""},
		{URL: "javascript://app.example.org/%0aalert(1)", Host: "app.example.org"},
		{URL: "JaVaScRiPt:alert(1)", Host: "app.example.org"},
		{URL: "data:text/html,<script>alert(1)</script>", Host: ""},
		{URL: "http://app.example.org/cb", Host: "app.example.org"},
		{URL: "cursor://anysphere.cursor-mcp/cb", Host: "anysphere.cursor-mcp"},
		{URL: "//app.example.org/cb", Host: "app.example.org"},
		{URL: "/cb", Host: ""},
		{URL: "", Host: ""},
		{URL: "https:app.example.org", Host: "app.example.org"},
		{URL: "https:///cb", Host: ""},
		{URL: "https://app.example.org@evil.example/cb", Host: "app.example.org"},
		{URL: "https://user@app.example.org/cb", Host: "app.example.org"},
		{URL: "https://evil.example/cb", Host: "app.example.org"},
		{URL: "https://app.example.org:8443/cb", Host: "app.example.org"},
		{URL: "https://app.example.org/cb", Host: ""},
		{URL: "https://app.example.org\\@evil.example/", Host: "app.example.org"},
		{URL: "https://app.example.org/\x00", Host: "app.example.org"},
		{URL: " https://app.example.org/cb", Host: "app.example.org"},
		{URL: "javascript:alert(1)", Host: "javascript:"},
		{URL: "javascript://app.example.org/%0aalert(1)", Host: "javascript://app.example.org"},
		{URL: "JavaScript:alert(1)", Host: "javascript:"},
		{URL: "data:text/html,x", Host: "data:"},
		{URL: "ms-settings:x", Host: "ms-settings:"},
		{URL: "http://127.0.0.1/cb", Host: "127.0.0.1"},
		{URL: "myapp://one/cb", Host: "myapp://two"},
		{URL: "myapp:/cb", Host: "other:"},
		{URL: "myapp:/cb", Host: "myapp:/cb"},
	} {
		p := problem()
		p.Link = &link
		check(t, link.URL, render(t, p), []string{"<h1>Unknown program</h1>"}, []string{"<a ", "href", "Leaving this site"})
	}
}

// failing accepts n bytes.
type failing struct{ n int }

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.n {
		return f.n, io.ErrShortWrite
	}
	f.n -= len(p)
	return len(p), nil
}

func TestWriteErrorIsReported(t *testing.T) {
	set := pages(t)
	for name, err := range map[string]error{
		"login":   set.Login(&failing{10}, login()),
		"consent": set.Consent(&failing{10}, consent()),
		"error":   set.Error(&failing{10}, problem()),
	} {
		if !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %v, want the writer's error", name, err)
		}
	}
}

func ExampleSet_Error() {
	pages, err := templates.New()
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Security-Policy", pages.ContentSecurityPolicy())
	w.WriteHeader(http.StatusBadRequest)
	err = pages.Error(w, templates.Error{
		Status: http.StatusBadRequest, Title: language.Detail("Unknown program"),
		Message: language.Detail("The program that sent you here is not known."),
		Steps:   []language.Text{language.Detail("Remove the connection in the program and add it again.")},
	})
	fmt.Println(w.Code, err, strings.Contains(w.Body.String(), "<h1>Unknown program</h1>"))
	// Output: 400 <nil> true
}
