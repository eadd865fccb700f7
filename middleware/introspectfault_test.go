package middleware_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/middleware"
	"gatehouse.example/middleware/middlewaretest"
)

// speaks returns a handler with a fixed response.
func speaks(status int, kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// repeats is a response with the secrets that an endpoint could reveal by mistake: the form and
// the credentials.
func repeats(r *http.Request) string {
	_ = r.ParseForm()
	id, secret, _ := r.BasicAuth()
	return strings.Join([]string{r.PostForm.Get("token"), id, secret, r.Header.Get("Authorization")}, `":1,"`)
}

// faultyEndpoints are endpoints that fail to report an active token.
func faultyEndpoints(t *testing.T, active string) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"it fails":                  speaks(500, "application/json", active),
		"it is too busy":            speaks(429, "application/json", active),
		"it is not there":           speaks(404, "application/json", active),
		"it wants other methods":    speaks(405, "application/json", active),
		"the credentials are wrong": speaks(401, "application/json", `{"active":false}`),
		"it is forbidden":           speaks(403, "application/json", `{"active":false}`),
		"another status":            speaks(201, "application/json", active),
		"no content":                speaks(204, "application/json", ""),
		"a page":                    speaks(200, "text/html", active),
		"no type":                   speaks(200, "", active),
		"a signed answer":           speaks(200, "application/token-introspection+jwt", active),
		"garbage":                   speaks(200, "application/json", "\x00\xff{]"),
		"a flood":                   speaks(200, "application/json", active+strings.Repeat(" ", 1<<20)),
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
		"a redirect that repeats": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere?"+repeats(r), http.StatusTemporaryRedirect)
		},
		"the connection closes": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"it breaks off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "10000")
			_, _ = io.WriteString(w, active)
		},
		"it hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // net/http sees that the guard is gone once it read the body
			<-r.Context().Done()
		},
		"it hangs in the middle": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, active[:10])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"it repeats the question": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"%s":1,"%[1]s":2}`, repeats(r))
		},
		"it repeats the question, not in HTTP": func(w http.ResponseWriter, r *http.Request) {
			writes(t, w, repeats(r))
		},
		"it repeats the token, not in HTTP": func(w http.ResponseWriter, r *http.Request) {
			writes(t, w, r.PostFormValue("token"))
		},
	}
}

// TestLookUpFaults checks that a failed lookup is 503, and never 401.
func TestLookUpFaults(t *testing.T) {
	active := fmt.Sprintf(`{"active":true,"sub":"reader","client_id":"client","aud":%q,"exp":%d}`, resource, time.Now().Add(time.Hour).Unix())
	for name, handler := range faultyEndpoints(t, active) {
		t.Run(name, func(t *testing.T) {
			issuer := middlewaretest.NewIssuer(t)
			issuer.SetDocument("/elsewhere", speaks(200, "application/json", active))
			for mode, token := range map[string]string{"opaque": issuer.MintOpaque(claims{"aud": resource}), "both": issuer.Mint(claims{"aud": resource})} {
				f := newFaultTest(t, issuer, mode == "opaque")
				answers(issuer, active)
				wantStatus(t, f.guard, withToken(issuer.Mint(claims{"aud": resource})), 200) // the keys are there
				issuer.SetDocument(introspectPath, handler)
				f.hasty.Store(strings.HasPrefix(name, "it hangs"))
				f.fails(t, token)
				f.hasty.Store(false)
				answers(issuer, active) // nothing is remembered of the fault
				wantStatus(t, f.guard, withToken(token), 200)
			}
		})
	}
}

// faultTest has a guard with a recorded log and a short timeout.
type faultTest struct {
	issuer *middlewaretest.Issuer
	guard  *middleware.Guard
	log    bytes.Buffer
	hasty  atomic.Bool
}

func newFaultTest(t *testing.T, issuer *middlewaretest.Issuer, isOpaque bool) *faultTest {
	f := &faultTest{issuer: issuer}
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		if f.hasty.Load() {
			ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
			t.Cleanup(cancel)
			r = r.WithContext(ctx)
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	f.guard = newGuard(t, issuer, introspects(issuer, func(i *middleware.Introspection) { i.Opaque = isOpaque }), func(c *middleware.Config) {
		c.Client = &http.Client{Transport: transport}
		c.Logger = slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	return f
}

// fails checks that a token gets 503, and that the log has a warning without secrets.
func (f *faultTest) fails(t *testing.T, token string) {
	t.Helper()
	wantAnswer(t, f.guard, withToken(token), http.StatusServiceUnavailable)
	_, err := f.guard.Verify(t.Context(), token)
	if !errors.Is(err, middleware.ErrUnavailable) || errors.Is(err, middleware.ErrToken) {
		t.Fatalf("Verify says %v", err)
	}
	if !strings.Contains(f.log.String(), "level=WARN") {
		t.Errorf("nothing in the log warns of it: %s", &f.log)
	}
	id, secret := f.issuer.Credentials()
	credentials := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))
	for _, hidden := range []string{token, secret, url.QueryEscape(secret), credentials} {
		if strings.Contains(f.log.String(), hidden) || strings.Contains(err.Error(), hidden) {
			t.Errorf("%q is in the error %q or in the log: %s", hidden, err, &f.log)
		}
	}
}

// writes returns a handler that sends a line that is not HTTP.
func writes(t *testing.T, w http.ResponseWriter, line string) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(connection, line+"\r\n\r\n")
	_ = connection.Close()
}

func TestUnreachableEndpoint(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	issuer := middlewaretest.NewIssuer(t)
	guard := newGuard(t, issuer, introspects(issuer, opaque, func(i *middleware.Introspection) { i.Endpoint = gone.URL }))
	wantAnswer(t, guard, withToken("token"), 503)
}

// TestAFailingEndpointIsOneLineASecond: requests cannot fill the log while tokens cannot be looked up.
func TestAFailingEndpointIsOneLineASecond(t *testing.T) {
	issuer, now := middlewaretest.NewIssuer(t), newClock()
	issuer.SetDocument(introspectPath, speaks(500, "text/plain", "down"))
	var log bytes.Buffer
	guard := newGuard(t, issuer, introspects(issuer, opaque), func(c *middleware.Config) {
		c.Now, c.Logger = now.Now, slog.New(slog.NewTextHandler(&log, nil))
	})
	for n := range 5 {
		wantAnswer(t, guard, withToken(fmt.Sprintf("token-%d", n)), 503)
	}
	now.Advance(2 * time.Second)
	wantAnswer(t, guard, withToken("token"), 503)
	if lines := strings.Count(log.String(), "cannot look up tokens"); lines != 2 {
		t.Errorf("%d lines: %s", lines, &log)
	}
}
