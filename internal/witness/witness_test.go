package witness_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gatehouse.example/internal/deptest"
	"gatehouse.example/internal/witness"
)

func TestDeps(t *testing.T) { deptest.Check(t) }

// complaints counts what a search finds.
type complaints struct {
	testing.TB
	n int
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(string, ...any) { c.n++ }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestWitness: what a request and its answer carry is found in each form, and nothing else is.
func TestWitness(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.SetCookie(rw, &http.Cookie{Name: "session", Value: "value-of-a-cookie"})
		rw.Header().Set("Location", "/?code=code-of-a-grant&state=public")
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"access_token":"eyJhbGciOiJub25lIn0.payload.signature-of-it","client_id":"public-id"}`)
	}))
	t.Cleanup(server.Close)
	w := witness.New()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(url.Values{"password": {"pass word&more"}, "code": {"123456"}, "client_id": {"public-id"}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("public-id", "secret%3Dof-basic")
	res, err := w.Over(http.DefaultTransport).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "signature-of-it") {
		t.Errorf("the answer is %s, %v", body, err)
	}
	for text, want := range map[string]int{
		"password=pass+word%26more": 1, "cGFzcyB3b3JkJm1vcmU": 1, "pass word\\u0026more": 1, "at 12:00:00.123456Z, 1234567": 0, "code=123456 ": 1,
		"value-of-a-cookie": 1, "code-of-a-grant": 1, "signature-of-it": 1, "secret=of-basic": 1, "secret%3Dof-basic": 1,
		digest("pass word&more"): 1, digest("eyJhbGciOiJub25lIn0.payload.signature-of-it"): 0, "public-id public": 0, "": 1,
	} {
		c := &complaints{TB: t}
		if w.Search(c, map[string]string{"log": text}); c.n != want && (want == 0 || c.n == 0) {
			t.Errorf("%q has %d, want %d", text, c.n, want)
		}
	}
	if w.Known() < 8 {
		t.Error(fmt.Sprint(w.Known(), " are known"))
	}
}
