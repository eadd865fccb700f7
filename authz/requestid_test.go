package authz_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestLinesAreAboutARequest: a consent and a refusal are logged with the request id that
// the answer names, and with the id that the client gave the request.
func TestLinesAreAboutARequest(t *testing.T) {
	t.Parallel()
	const traceparent, trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c"
	h := newHarness(t, setup{})
	line := func(request, says string) string {
		t.Helper()
		for line := range strings.SplitSeq(h.log.String(), "\n") {
			if strings.Contains(line, " request="+request) && strings.Contains(line, says) {
				return line
			}
		}
		t.Fatalf("no line says %q about request %s:\n%s", says, request, h.log.String())
		return ""
	}
	b := h.newBrowser().atConsent(personName)
	_, values := b.last.inputs(t)
	values.Set("decision", "allow")
	r := postForm(h, "/consent", values)
	r.Header.Set("Traceparent", traceparent)
	answer := h.with(b.jar, r)
	if own := answer.header.Get("X-Request-Id"); !strings.HasSuffix(line(own, "consent given"), " trace="+trace) {
		t.Errorf("the consent: %s", line(own, "consent given"))
	}

	// The log finds an introspection request by the id that the resource server gave it.
	for _, theirs := range []string{"QDRMFCGE7M5F43OLYAX2HAPJZ3", "evil\" level=ERROR msg=\"x"} {
		r = h.newRequest(http.MethodPost, "/introspect", url.Values{"token": {"x"}})
		r.SetBasicAuth(url.QueryEscape(notes), "wrong")
		r.Header.Set("X-Request-Id", theirs)
		answer = h.send(r)
		got := line(answer.header.Get("X-Request-Id"), "refused")
		if strings.Contains(got, theirs) != (len(theirs) == 26) || strings.Contains(got, "ERROR") {
			t.Errorf("asked as %q: %s", theirs, got)
		}
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/jwks.json", "/nowhere", "/healthz"} {
		if id := h.get(path).header.Get("X-Request-Id"); len(id) != 26 {
			t.Errorf("%s answers about %q", path, id)
		}
	}
}
