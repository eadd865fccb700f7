package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse.example/doctor"
)

// desk registers clients for a stable and remembers those that stay.
type desk struct {
	stable  *stable
	issuers []string
	stay    map[string]string // by client_id, the name
	count   int
}

// newDesk describes servers with several authorization servers, whose registrations are counted.
func newDesk(issuers ...string) *desk {
	d := &desk{stable: healthy(notes, issuer), issuers: issuers, stay: map[string]string{}}
	d.stable.resource["authorization_servers"] = issuers
	d.stable.open()
	for _, issuer := range issuers {
		one := healthy(notes, issuer).open()
		for route, handler := range one.routes {
			if strings.Contains(route, issuer) || strings.Contains(route, "well-known") && !strings.Contains(route, "notes.") {
				d.stable.routes[route] = handler
			}
		}
		origin, path := splitURL(issuer)
		d.stable.routes["GET "+origin+"/.well-known/oauth-authorization-server"+path] = one.routes["GET "+origin+"/.well-known/oauth-authorization-server"+path]
		d.stable.routes["POST "+issuer+"/register"] = func(w http.ResponseWriter, r *http.Request) { d.register(w, r, issuer) }
	}
	return d
}

func (d *desk) register(w http.ResponseWriter, r *http.Request, issuer string) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var client map[string]any
	_ = json.Unmarshal(body, &client)
	if strings.Contains(string(body), "javascript:") {
		answer(400, jsonType, `{"error":"invalid_redirect_uri"}`)(w, r)
		return
	}
	d.count++
	id := fmt.Sprintf("client-%d", d.count)
	d.stay[id] = fmt.Sprint(client["client_name"])
	client["client_id"], client["registration_client_uri"], client["registration_access_token"] = id, issuer+"/register/"+id, "token"
	d.stable.routes["DELETE "+issuer+"/register/"+id] = func(w http.ResponseWriter, r *http.Request) {
		delete(d.stay, id)
		w.WriteHeader(http.StatusNoContent)
	}
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(client)
}

// expectListed expects that each client that stays is listed.
func (d *desk) expectListed(t *testing.T, report *doctor.Report) {
	t.Helper()
	left := strings.Join(report.Left, "\n")
	for id, name := range d.stay {
		if !strings.Contains(left, id) && !strings.Contains(left, name) {
			t.Errorf("%s (%s) stays, and is not listed: %q", id, name, report.Left)
		}
	}
}

// TestThreeIssuers: requests for the removal are kept when registrations begin: with three
// authorization servers the bound on requests ends them, and nothing stays.
func TestThreeIssuers(t *testing.T) {
	d, count := newDesk(issuer+"/one", issuer+"/two", issuer+"/three"), 0
	transport := slowAt{inner: d.stable, at: func(*http.Request) time.Duration { return 0 }, asked: func(*http.Request) { count++ }}
	report, err := doctor.Check(t.Context(), notes, doctor.Options{Transport: transport, Register: true, Now: func() time.Time { return now }})
	if err != nil || count > doctor.MaxRequests || found(report, "not-finished") == nil {
		t.Errorf("%d requests, %v, %v", count, err, above(report))
	}
	if d.count < len(doctor.Clients()) || len(d.stay) > 0 || len(report.Left) > 0 {
		t.Errorf("%d registered, %v stay, listed %q", d.count, d.stay, report.Left)
	}
}

// TestSlowRegistration: a registration is begun only if the time that is left is enough to remove it,
// whatever it takes.
func TestSlowRegistration(t *testing.T) {
	for _, after := range []time.Duration{3 * time.Second, 7 * time.Second, 9 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(issuer)
			begin := time.Now()
			transport := roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/register") {
					answer, _ := lost{d.stable}.RoundTrip(r) // registered, whether anybody waits or not
					return slowAt{inner: ready{answer}, at: func(*http.Request) time.Duration { return after }}.RoundTrip(r)
				}
				return d.stable.RoundTrip(r)
			})
			report, err := doctor.Check(t.Context(), notes, doctor.Options{Transport: transport, Register: true, Now: func() time.Time { return now }})
			if err != nil || time.Since(begin) > doctor.MaxTime || found(report, "not-finished") == nil {
				t.Fatalf("after %s: %v, %v", time.Since(begin), err, report)
			}
			d.expectListed(t, report)
			if tooLate := after > 8*time.Second; tooLate != (len(report.Left) > 0) || tooLate && !strings.Contains(report.Left[0], "may have been registered at "+issuer) {
				t.Errorf("%s each: left %q", after, report.Left)
			}
		})
	}
}

// ready has an answer.
type ready struct{ answer *http.Response }

func (r ready) RoundTrip(*http.Request) (*http.Response, error) { return r.answer, nil }

// lost passes a request on also if nobody waits for its answer.
type lost struct{ inner http.RoundTripper }

func (l lost) RoundTrip(r *http.Request) (*http.Response, error) {
	return l.inner.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
}

// TestInterrupted: who interrupts an examination during a registration leaves nothing, or is told what
// may be left.
func TestInterrupted(t *testing.T) {
	for name, before := range map[string]bool{"before the answer": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(issuer)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			transport := roundTrip(func(r *http.Request) (*http.Response, error) {
				if err := r.Context().Err(); err != nil {
					return nil, err
				}
				answer, err := lost{d.stable}.RoundTrip(r)
				if d.count == 3 && r.Method == http.MethodPost {
					if cancel(); before {
						return nil, r.Context().Err()
					}
				}
				return answer, err
			})
			report, err := doctor.Check(ctx, notes, doctor.Options{Transport: transport, Register: true, Now: func() time.Time { return now }})
			if err != nil || d.count != 3 {
				t.Fatalf("%d registered, %v", d.count, err)
			}
			d.expectListed(t, report)
			if len(d.stay) != map[bool]int{true: 1, false: 0}[before] || len(report.Left) != len(d.stay) {
				t.Errorf("%v stay, listed %q", d.stay, report.Left)
			}
		})
	}
}

// TestLostAnswers: a registration whose answer cannot be read may have been one.
func TestLostAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		may    bool
	}{
		"half of an answer": {answer(201, jsonType, `{"client_id":"cli`), true},
		"no client_id":      {answer(201, jsonType, `{}`), true},
		"too much":          {answer(201, jsonType, `{"client_id":"a","x":"`+strings.Repeat("x", 300<<10)), true},
		"lost by a proxy":   {answer(504, "text/html", html), true},
		"refused":           {answer(400, jsonType, `{}`), false},
		"limited":           {later("60"), false},
	} {
		s := healthy(notes, issuer)
		s.with("POST "+issuer+"/register", c.answer)
		left := examined(t, s).Left
		if c.may != (len(left) > 0) || c.may && !slices.ContainsFunc(left, func(l string) bool { return strings.Contains(l, "may have been registered") }) {
			t.Errorf("%s: left %q", name, left)
		}
	}
}

// TestLostSignIn: so may one for a sign-in.
func TestLostSignIn(t *testing.T) {
	c := newClinic(t)
	c.with("POST "+issuer+"/register", answer(201, jsonType, `{"client_id":"do`))
	report := c.examined(c.visit)
	if len(report.Left) != 1 || !strings.Contains(report.Left[0], "may have been registered at "+issuer) {
		t.Errorf("left %q", report.Left)
	}
}

// TestSignInLimited: a sign-in that must wait is not refused, and neither is a code nor a refresh.
func TestSignInLimited(t *testing.T) {
	for name, limit := range map[string]func(*clinic){
		"registration": func(c *clinic) { c.with("POST "+issuer+"/register", later("60")) },
		"code":         func(c *clinic) { c.with("POST "+issuer+"/token", later("60")) },
		"refresh": func(c *clinic) {
			c.with("POST "+issuer+"/token", func(w http.ResponseWriter, r *http.Request) {
				if r.FormValue("grant_type") == "refresh_token" {
					later("60")(w, r)
					return
				}
				c.token(w, r)
			})
		},
	} {
		c := newClinic(t)
		limit(c)
		report := c.examined(c.visit)
		for _, f := range report.Findings {
			if f.ID != "rate-limited" && f.ID != "sign-in-not-tried" {
				t.Errorf("%s: %s: %s", name, f.ID, f.Saw)
			}
		}
		if found(report, "rate-limited") == nil || len(report.Left) > 0 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}
