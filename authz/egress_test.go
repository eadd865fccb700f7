package authz_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/dcr"
	"gatehouse.example/internal/webtest"
)

// egressHost is the host that the server tries to reach.
const egressHost = "lookout.example.com"

// noEgress is a harness whose only access to the web is a proxy, which refuses connections at
// first.
type noEgress struct {
	*harness
	web   *webtest.Web
	proxy *webtest.Proxy
	open  *atomic.Bool // whether egressHost can be reached
}

func newEnclosed(t *testing.T, change func(*authz.Config)) noEgress {
	t.Helper()
	web := webtest.New(t)
	e := noEgress{web: web, proxy: web.Proxy(), open: &atomic.Bool{}}
	e.proxy.Answer(func(string) bool { return e.open.Load() })
	e.harness = newHarness(t, setup{config: func(c *authz.Config) {
		c.Fetcher, c.Documents = e.proxy.Fetcher(t), dcr.Documents{Trust: dcr.TrustAsk}
		c.Egress = authz.EgressCheck{Hosts: []string{egressHost}}
		if change != nil {
			change(c)
		}
	}})
	return e
}

func (e noEgress) server() *authz.Server { return e.handler.Load() }

// offers reports whether every copy of the metadata offers documents, and checks that none
// may be cached for long.
func (e noEgress) offers() bool {
	e.t.Helper()
	said := map[string]bool{}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/"} {
		answer := e.get(path)
		if age := answer.header.Get("Cache-Control"); age != "public, max-age=30" || answer.header.Get("Etag") == "" {
			e.t.Errorf("%s: Cache-Control %q, ETag %q", path, age, answer.header.Get("Etag"))
		}
		said[fmt.Sprint(answer.json(e.t)["client_id_metadata_document_supported"])] = true
	}
	if len(said) != 1 || said["false"] {
		e.t.Fatalf("the copies say %v", said)
	}
	return said["true"]
}

// document publishes a client document behind the proxy.
func (e noEgress) document(host string) testClient {
	id := e.web.URL(host, "/client.json")
	e.web.Document(id, fmt.Sprintf(plainDocument, id))
	return described(id, "http://127.0.0.1:49152/callback")
}

func (e noEgress) home() string {
	r := e.newRequest("GET", e.issuer+"/", nil)
	r.Header.Set("Accept", acceptOfBrowsers)
	return e.send(r).body
}

// TestWithoutEgressDocumentsAreNotOffered: while the public web cannot be reached, no copy
// of the metadata offers documents, so that clients register. The error for a client that
// uses a document anyway names the cause and the settings that solve it. When the web can be
// reached again, documents are offered and work.
func TestWithoutEgressDocumentsAreNotOffered(t *testing.T) {
	t.Parallel()
	e := newEnclosed(t, nil)
	c := e.document("client.example.com")
	if asked := e.proxy.Asked(); len(asked) != 0 {
		t.Fatalf("before the first request, %q was asked", asked)
	}
	if e.offers() || !e.server().EgressMissing(t.Context()) {
		t.Error("documents are offered without a way to them")
	}
	if asked := e.proxy.Asked(); !slices.Equal(asked, []string{egressHost + ":443"}) {
		t.Errorf("one look asks %q", asked)
	}
	page := e.newBrowser().open(e.issuer + "/authorize?" + asks(c).Encode())
	if page.status != http.StatusServiceUnavailable || page.header.Get("Retry-After") == "" || page.header.Get("Location") != "" {
		t.Errorf("page: %s", page)
	}
	for _, words := range []string{"no way there at the moment", "connect again", "setting <code>proxy</code>", "client-documents-pinned"} {
		if !strings.Contains(page.body, words) {
			t.Errorf("the page does not say %q: %s", words, page)
		}
	}
	if home := e.home(); !strings.Contains(home, "No way to the public web") || !strings.Contains(home, "egress-check") || !strings.Contains(home, "register here connect as usual") {
		t.Errorf("home: %s", home)
	}
	registered := e.registerFrom("203.0.113.7", "notes")
	if registered.status != http.StatusCreated {
		t.Fatalf("register: %s", registered)
	}
	e.newBrowser().code(asks(described(registered.member(t, "client_id"), "https://client.example.org/callback")))

	e.server().LookOut(t.Context())
	e.open.Store(true)
	e.server().LookOut(t.Context())
	e.clock.advance(time.Minute)
	if !e.offers() || e.server().EgressMissing(t.Context()) || strings.Contains(e.home(), "No way") {
		t.Error("documents are not offered although the way is there")
	}
	e.newBrowser().tokens(c, asks(c))
	for line, want := range map[string]int{"no way to the public web": 1, "there is a way to the public web again": 1, "proxy, client-documents-pinned, egress-check": 1} {
		if n := strings.Count(e.log.String(), line); n != want {
			t.Errorf("%q is in the log %d times: %s", line, n, e.log)
		}
	}
}

// TestOneLookInVainIsNotBelieved: after a success only the second failed check in a row
// counts, and checks are more frequent while they fail.
func TestOneLookInVainIsNotBelieved(t *testing.T) {
	t.Parallel()
	e := newEnclosed(t, nil)
	e.open.Store(true)
	steps := []struct {
		open, offers bool
		next         time.Duration
	}{
		{true, true, 5 * time.Minute}, {false, true, 5 * time.Second}, {true, true, 5 * time.Minute}, {false, true, 5 * time.Second}, {false, false, 10 * time.Second},
		{false, false, 20 * time.Second}, {false, false, 40 * time.Second}, {false, false, time.Minute}, {false, false, time.Minute}, {true, true, 5 * time.Minute},
	}
	for i, step := range steps {
		e.open.Store(step.open)
		if i > 0 {
			e.server().LookOut(t.Context())
		}
		if got := e.offers(); got != step.offers || e.server().NextLook() != step.next {
			t.Errorf("step %d: offered %v, next look after %v", i, got, e.server().NextLook())
		}
	}
}

// TestStrangersDoNotDecide: fetches from hosts that clients name, failed or successful,
// neither change the result of the check nor cause one.
func TestStrangersDoNotDecide(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{true, false} {
		e := newEnclosed(t, nil)
		c := e.document("client.example.com")
		e.proxy.Answer(func(to string) bool { return (to == egressHost+":443") == there })
		if e.offers() != there {
			t.Fatalf("way %v", there)
		}
		for i := range 5 {
			stranger := c
			if there {
				stranger = e.document(fmt.Sprintf("c%d.example.com", i)) // fails
			}
			page := e.newBrowser().open(e.issuer + "/authorize?" + asks(stranger).Encode())
			if want := map[bool]int{true: 503, false: 303}[there]; page.status != want && page.status != 200 {
				t.Fatalf("way %v: %s", there, page)
			}
		}
		if e.offers() != there {
			t.Errorf("way %v: fetches of clients changed the result", there)
		}
		if n := strings.Count(strings.Join(e.proxy.Asked(), " "), egressHost); n != 1 {
			t.Errorf("way %v: looked %d times", there, n)
		}
	}
}

// TestPinsWithOpenRegistration: with open registration the metadata does not mislead
// clients whose documents are not pinned. With registration by token it still offers
// documents.
func TestPinsWithOpenRegistration(t *testing.T) {
	t.Parallel()
	const id = "https://client.example.com/client.json"
	for registration, want := range map[authz.Registration]bool{authz.RegistrationOpen: false, authz.RegistrationToken: true, authz.RegistrationClosed: true} {
		e := newEnclosed(t, func(c *authz.Config) {
			c.Registration = registration
			c.Documents = dcr.Documents{Trust: dcr.TrustAsk, Pinned: map[string][]byte{id: fmt.Appendf(nil, plainDocument, id)}}
		})
		if e.offers() != want {
			t.Errorf("registration %s without a way to the web: documents are offered: %v", registration, !want)
		}
		if b := e.newBrowser(); b.tokens(described(id, "http://127.0.0.1:49152/callback"), asks(described(id, "http://127.0.0.1:49152/callback"))).refresh == "" {
			t.Errorf("registration %s: the pinned client is not let in", registration)
		}
	}
}

// TestPinnedClientsNeedNoEgress: with pinned documents the metadata still offers documents,
// and a pinned client signs in while nothing can be fetched; other clients get an error that
// explains this. Where only pinned documents are accepted, there is no check.
func TestPinnedClientsNeedNoEgress(t *testing.T) {
	t.Parallel()
	const id = "https://client.example.com/client.json"
	pinned := described(id, "http://127.0.0.1:49152/callback")
	for _, tt := range []struct {
		trust  dcr.Trust
		status int
		words  string
	}{
		{dcr.TrustAsk, http.StatusServiceUnavailable, "no way there at the moment"},
		{dcr.TrustDeny, http.StatusBadRequest, "clients of this host are not accepted here"},
	} {
		e := newEnclosed(t, func(c *authz.Config) {
			c.Registration = authz.RegistrationClosed
			c.Documents = dcr.Documents{Trust: tt.trust, Pinned: map[string][]byte{id: fmt.Appendf(nil, plainDocument, id)}}
		})
		document := e.get("/.well-known/oauth-authorization-server").json(t)
		if document["client_id_metadata_document_supported"] != true || document["registration_endpoint"] != nil {
			t.Errorf("%s: %v", tt.trust, document)
		}
		b := e.newBrowser()
		held := b.tokens(pinned, asks(pinned))
		if b.page.body != "" && strings.Contains(b.page.body, "Unverified") {
			t.Errorf("%s: nobody vouches for what the operator wrote", tt.trust)
		}
		e.clock.advance(48 * time.Hour)
		if answer := e.toToken(pinned, refreshing(pinned, held.refresh)); answer.status != http.StatusOK {
			t.Errorf("%s: refresh: %s", tt.trust, answer)
		}
		if e.server().EgressMissing(t.Context()) != (tt.trust == dcr.TrustAsk) {
			t.Errorf("%s: egress", tt.trust)
		}
		heard := len(e.proxy.Asked())
		page := e.newBrowser().open(e.issuer + "/authorize?" + asks(e.document("other.example.com")).Encode())
		if page.status != tt.status || !strings.Contains(page.body, tt.words) || strings.Contains(page.body, "connect again") && tt.status == 503 {
			t.Errorf("%s: another client: %s", tt.trust, page)
		}
		if n := len(e.proxy.Asked()); tt.trust == dcr.TrustDeny && (n != 0 || heard != 0) {
			t.Errorf("%s: %q", tt.trust, e.proxy.Asked())
		}
		if home := e.home(); strings.Contains(home, "No way") != (tt.trust == dcr.TrustAsk) || tt.trust == dcr.TrustAsk && !strings.Contains(home, "<bdi>Notes</bdi> without") {
			t.Errorf("%s: home %s", tt.trust, home)
		}
	}
}

// TestTheFirstRequestWaitsForTheFirstLook: no answer offers documents before the first
// check has ended. One of several concurrent requests starts the check, which does not depend
// on that request's context.
func TestTheFirstRequestWaitsForTheFirstLook(t *testing.T) {
	t.Parallel()
	e := newEnclosed(t, nil)
	began, held := make(chan struct{}), make(chan struct{})
	e.proxy.Answer(func(string) bool {
		close(began)
		<-held
		return false
	})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if e.offers() {
				t.Error("offered before it was known")
			}
		})
	}
	select {
	case <-began:
	case <-time.After(20 * time.Second):
		t.Fatal("there is no check")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if e.server().EgressMissing(gone) {
		t.Error("missing before it was known")
	}
	close(held)
	all.Wait()
	if asked := e.proxy.Asked(); len(asked) != 1 {
		t.Errorf("looked for %q", asked)
	}
}

// TestRunNoticesTheWay: a running server detects both changes by itself, and ends.
func TestRunNoticesTheWay(t *testing.T) {
	t.Parallel()
	e := newEnclosed(t, func(c *authz.Config) { c.Egress.Every, c.Egress.Again = 5*time.Millisecond, time.Millisecond })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.server().Run(ctx) }()
	for _, open := range []bool{false, true, false, true} {
		e.open.Store(open)
		for deadline := time.Now().Add(20 * time.Second); e.server().EgressMissing(t.Context()) == open; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("way %v: not noticed", open)
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNoCheckIsNoCheck: without configured hosts there is no check, and documents are
// offered. An invalid host is refused.
func TestNoCheckIsNoCheck(t *testing.T) {
	t.Parallel()
	e := newEnclosed(t, func(c *authz.Config) { c.Egress.Hosts = nil })
	answer := e.get("/.well-known/oauth-authorization-server")
	if answer.json(t)["client_id_metadata_document_supported"] != true || answer.header.Get("Cache-Control") != "public, max-age=300" || len(e.proxy.Asked()) != 0 {
		t.Errorf("%s %v, asked %q", answer, answer.header, e.proxy.Asked())
	}
	page := e.newBrowser().open(e.issuer + "/authorize?" + url.Values(asks(e.document("client.example.com"))).Encode())
	if page.status != http.StatusServiceUnavailable || strings.Contains(page.body, "client-documents-pinned") {
		t.Errorf("page: %s", page)
	}
	cfg := e.cfg
	cfg.Egress.Hosts = []string{"10.0.0.1", "claude.ai:443"}
	if _, err := authz.New(t.Context(), cfg); err == nil || strings.Count(err.Error(), "egress-check") != 2 {
		t.Errorf("error %v", err)
	}
	cfg.Egress.Hosts = slices.Repeat([]string{egressHost}, 9)
	if _, err := authz.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "more than 8") {
		t.Errorf("error %v", err)
	}
}
