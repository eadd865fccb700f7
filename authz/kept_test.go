package authz_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/storage"
)

// keeps returns the transactions in a browser's cookies, by the name of the cookie.
func (b *browser) keeps() map[string]string {
	b.h.t.Helper()
	home, err := url.Parse(b.h.issuer)
	if err != nil {
		b.h.t.Fatal(err)
	}
	kept := map[string]string{}
	for _, cookie := range b.jar.Cookies(home) {
		if strings.HasPrefix(cookie.Name, "__Host-authz_transaction_") {
			kept[cookie.Name] = cookie.Value
		}
	}
	return kept
}

// putBack restores cookies that the browser has dropped.
func (b *browser) putBack(cookies map[string]string) {
	b.h.t.Helper()
	home, err := url.Parse(b.h.issuer)
	if err != nil {
		b.h.t.Fatal(err)
	}
	for name, value := range cookies {
		b.jar.SetCookies(home, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: true}})
	}
}

// consentPage opens the consent page of a client.
func (b *browser) consentPage(c testClient) {
	b.h.t.Helper()
	b.open(b.h.issuer + "/authorize?" + asks(c).Encode())
	if b.follow(); strings.Contains(b.last.body, `name="password"`) {
		b.submit("username", personName, "password", personPassword)
		b.follow()
	}
	if !strings.Contains(b.last.body, `name="decision"`) {
		b.h.t.Fatalf("no consent page: %s", b.last)
	}
}

// TestAuthorizeWritesNothing: an authorization request, of a signed-in person or not,
// writes nothing to the store before it is decided.
func TestAuthorizeWritesNothing(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	writes := h.meter.writes.Load()
	for i := range 100 {
		b := h.newBrowser()
		b.open(h.issuer + "/authorize?" + replaced(asks(c), "state", strings.Repeat("s", 10*i)).Encode())
		if b.follow(); b.last.status != http.StatusOK {
			t.Fatalf("%s", b.last)
		}
		if i < 5 {
			b.submit("username", personName, "password", "wrong password")
		}
	}
	if n := h.meter.writes.Load() - writes; n != 0 {
		t.Errorf("anonymous requests caused %d writes", n)
	}
	b := h.newBrowser()
	b.tokens(c, asks(c))
	writes = h.meter.writes.Load()
	for range 10 {
		b.consentPage(c)
	}
	if n := h.meter.writes.Load() - writes; n != 0 {
		t.Errorf("a signed-in person caused %d writes without a decision", n)
	}
	if b.submit("decision", "deny"); h.meter.writes.Load()-writes != 1 {
		t.Errorf("a decision is %d writes, want 1", h.meter.writes.Load()-writes)
	}
}

// TestCopyOfTheCookieIsNoSecondLife: with a copy of the cookie of a decided transaction the
// page has expired, for as long as the copy can be opened.
func TestCopyOfTheCookieIsNoSecondLife(t *testing.T) {
	t.Parallel()
	for _, decision := range []string{"allow", "deny"} {
		h, c := newHarness(t, setup{}), testClients()["native"]
		b := h.newBrowser()
		b.consentPage(c)
		copied, page := b.keeps(), b.last
		_, values := page.inputs(t)
		values.Set("decision", decision)
		if answer := h.with(b.jar, postForm(h, "/consent", values)); answer.status != http.StatusSeeOther {
			t.Fatalf("%s: %s", decision, answer)
		}
		if len(copied) != 1 || len(b.keeps()) != 0 {
			t.Fatalf("%s: the browser keeps %d transactions before and %d after the decision", decision, len(copied), len(b.keeps()))
		}
		h.restart() // the decision is in the store, not in the process
		for _, age := range []time.Duration{0, 5 * time.Minute, 4*time.Minute + 50*time.Second, 10 * time.Second, time.Minute} {
			h.clock.advance(age)
			b.putBack(copied)
			for _, path := range []string{"/consent", "/login", "/logo"} {
				mustShow(t, b.open(h.issuer+path+"?transaction="+values.Get("transaction")), http.StatusBadRequest, "invalid_request")
			}
			for _, again := range []string{"allow", "deny"} {
				values.Set("decision", again)
				answer := h.with(b.jar, postForm(h, "/consent", values))
				mustShow(t, answer, http.StatusBadRequest, "invalid_request")
				if !strings.Contains(answer.body, "This page has expired") {
					t.Errorf("%s after %s: %s", again, decision, answer)
				}
			}
		}
	}
}

// TestOneDecisionAcrossProcesses: two processes get an answer to one page, one from the
// browser and one with a copy of its cookies. Exactly one counts.
func TestOneDecisionAcrossProcesses(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	other := newHarness(t, setup{store: h.store})
	b := h.newBrowser()
	b.consentPage(c)
	_, values := b.last.inputs(t)
	// Both have read that there is no decision before either writes one.
	var arrived atomic.Int64
	all := make(chan struct{})
	hold := func(op, key string) {
		if op == "put" && strings.HasPrefix(key, "gatehouse:transaction:") {
			if arrived.Add(1) == 2 {
				close(all)
			}
			<-all
		}
	}
	h.meter.before.Store(&hold)
	answers, allow := make([]reply, 2), replaced(values, "decision", "allow")
	var both sync.WaitGroup
	for i, at := range []*harness{h, other} {
		both.Go(func() { answers[i] = at.with(b.jar, postForm(at, "/consent", allow)) })
	}
	both.Wait()
	codes := 0
	for _, answer := range answers {
		if answer.status == http.StatusSeeOther && answer.location(t).Query().Get("code") != "" {
			codes++
			continue
		}
		mustShow(t, answer, http.StatusBadRequest, "invalid_request")
	}
	if codes != 1 {
		t.Errorf("two answers to one page gave %d codes", codes)
	}
}

// TestRotationOfMasterKeys: transactions sealed under the previous master key remain valid in
// a new process until that key is removed.
func TestRotationOfMasterKeys(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b, late := h.newBrowser(), h.newBrowser()
	b.consentPage(c)
	late.consentPage(c)
	with := func(keys ...[]byte) {
		t.Helper()
		store, err := storage.New(h.meter, storage.Options{Issuer: h.issuer, MasterKeys: keys, Now: h.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		h.cfg.Store = store
		h.restart()
	}
	next := bytes.Repeat([]byte{9}, 32)
	with(next, masterKey)
	if b.submit("decision", "allow").location(t).Query().Get("code") == "" {
		t.Errorf("under a new master key: %s", b.last)
	}
	if _, err := h.cfg.Store.Reseal(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	with(next)
	mustShow(t, late.submit("decision", "allow"), http.StatusBadRequest, "invalid_request")
}

// TestSealedTransactionIsBound: a sealed transaction is not accepted in another browser,
// under another id, for another issuer, changed, cut or sent twice.
func TestSealedTransactionIsBound(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	ask := func(b *browser) (id, name, value string) {
		t.Helper()
		b.open(h.issuer + "/authorize?" + asks(c).Encode())
		id = b.last.location(t).Query().Get("transaction")
		name = "__Host-" + cookieName(h.issuer, "authz_transaction_"+id)
		return id, name, cookiesOf(t, b.last)[name].Value
	}
	b, other := h.newBrowser(), h.newBrowser()
	id, name, value := ask(b)
	id2, name2, value2 := ask(b)
	ask(other)
	home, _ := url.Parse(h.issuer)
	secret := func(b *browser) string {
		for _, cookie := range b.jar.Cookies(home) {
			if cookie.Name == hostBrowser {
				return cookie.Value
			}
		}
		return ""
	}
	open := func(id string, pairs ...string) reply {
		r := h.newRequest(http.MethodGet, h.issuer+"/login?transaction="+id, nil)
		r.Header.Set("Cookie", cookieHeader(pairs...))
		return h.send(r)
	}
	mine := []string{hostBrowser, secret(b)}
	if got := open(id, append(mine, name, value)...); got.status != http.StatusOK {
		t.Fatalf("the browser itself: %s", got)
	}
	began, sealed, _ := strings.Cut(value, ".")
	flipped := []byte(sealed)
	flipped[40] ^= 1
	for what, pairs := range map[string][]string{
		"another browser":       {hostBrowser, secret(other), name, value},
		"no browser":            {name, value},
		"another transaction's": append(mine, name, value2),
		"only the other":        append(mine, name2, value2),
		"changed":               append(mine, name, began+"."+string(flipped)),
		"cut":                   append(mine, name, value[:len(value)-2]),
		"twice":                 append(mine, name, value, name, value),
		"the name of http":      append(mine, strings.TrimPrefix(name, "__Host-"), value),
		"empty":                 append(mine, name, ""),
		"not base64":            append(mine, name, began+".!!!!"),
		"not sealed":            append(mine, name, began+".eyJjbGllbnQiOiJ4In0"),
		"much too long":         append(mine, name, value+strings.Repeat("A", 4000)),
	} {
		mustShow(t, open(id, pairs...), http.StatusBadRequest, "invalid_request")
		_ = what
	}
	if got := open(id2, append(mine, name2, value2)...); got.status != http.StatusOK {
		t.Errorf("the second one: %s", got)
	}
	tenant := newHarness(t, setup{issuer: secureIssuer + "/tenant"}) // with the same master key
	r := tenant.newRequest(http.MethodGet, tenant.issuer+"/login?transaction="+id, nil)
	r.Header.Set("Cookie", cookieHeader(append(mine, name, value)...))
	mustShow(t, tenant.send(r), http.StatusBadRequest, "invalid_request")
}

// headerLength returns the length of the header of an answer on the wire.
func headerLength(t *testing.T, r reply) int {
	t.Helper()
	dump, err := httputil.DumpResponse(&http.Response{StatusCode: r.status, ProtoMajor: 1, ProtoMinor: 1, Header: r.header, Body: http.NoBody}, false)
	if err != nil {
		t.Fatal(err)
	}
	return len(dump)
}

// TestManyPages: however many pages a browser opens, the newest ones work. All its cookies
// together stay well below the 8 KiB of headers that other servers on the host accept, and
// the header of every answer below the 4 KiB that proxies accept by default.
func TestManyPages(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	for _, state := range []int{10, 400, 800, 1200, 1240, 1300} {
		b := h.newBrowser()
		var pages []string
		for i := range 12 {
			h.clock.advance(time.Second)
			b.open(h.issuer + "/authorize?" + replaced(asks(c), "state", strings.Repeat("s", state)).Encode())
			if n := headerLength(t, b.last); n > 4000 {
				t.Errorf("state of %d: the header of an answer has %d bytes", state, n)
			}
			pages = append(pages, b.last.location(t).String())
			total := 0
			for name, value := range b.keeps() {
				total += len(name) + len(value) + len("; =")
			}
			if total > 5<<10+100 {
				t.Errorf("state of %d: after %d pages the browser keeps %d bytes", state, i+1, total)
			}
		}
		works := 0
		for i := len(pages) - 1; i >= 0 && b.open(pages[i]).status == http.StatusOK; i-- {
			works++
		}
		if state == 10 && works < 5 || works < 2 {
			t.Errorf("state of %d: of 12 pages the newest %d work", state, works)
		}
		t.Logf("state of %d: %d pages at a time", state, works)
	}
}

// TestManyIssuers: the limit applies to all issuers on one host together, because a browser
// sends the cookies of all of them.
func TestManyIssuers(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	for i := range 30 {
		at := h
		if i >= 10 {
			at = newHarness(t, setup{issuer: fmt.Sprint(secureIssuer, "/tenant", i%3)})
		}
		at.clock.advance(time.Duration(i) * time.Second)
		other := &browser{h: at, jar: b.jar}
		other.open(at.issuer + "/authorize?" + asks(c).Encode())
		if other.follow().status != http.StatusOK {
			t.Errorf("page %d: %s", i, other.last)
		}
		total := 0
		for name, value := range b.keeps() {
			total += len(name) + len(value)
		}
		if total > 5<<10 {
			t.Errorf("after %d pages at several issuers the browser keeps %d bytes", i+1, total)
		}
	}
}

// TestPagesTogether: pages that are opened at the same moment all work, although no request
// has the cookie that the answer to another one set.
func TestPagesTogether(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	b.code(asks(c))
	answers := make([]reply, 4)
	requests := make([]*http.Request, len(answers))
	home, _ := url.Parse(h.issuer)
	for i := range requests {
		requests[i] = h.newRequest(http.MethodGet, h.issuer+"/authorize", asks(c))
		for _, cookie := range b.jar.Cookies(home) {
			requests[i].AddCookie(cookie)
		}
	}
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() { answers[i] = h.send(r) })
	}
	all.Wait()
	for _, answer := range answers {
		b.jar.SetCookies(home, (&http.Response{Header: answer.header}).Cookies())
	}
	for _, answer := range answers {
		if b.open(answer.location(t).String()); b.submit("decision", "allow").location(t).Query().Get("code") == "" {
			t.Errorf("%s", b.last)
		}
	}
}

// TestLargeRequests: a request that is too large for a cookie is stored and works like
// every other. One network can store a limited number of bytes, and other networks are not
// affected.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}})
	c := testClients()["native"]
	large := replaced(asks(c), "state", strings.Repeat("l", 4096))
	answer := h.newBrowser().walk(large, "allow")
	if q := answer.location(t).Query(); q.Get("code") == "" || q.Get("state") != strings.Repeat("l", 4096) {
		t.Fatalf("a large request: %s", answer)
	}
	ask := func(from string, values url.Values) reply {
		r := h.newRequest(http.MethodGet, h.issuer+"/authorize", values)
		r.Header.Set("X-Forwarded-For", from)
		return h.send(r)
	}
	flood := func(address func(i int) string) (through int) {
		for i := range 200 {
			if got := ask(address(i), large); got.status == http.StatusSeeOther {
				through++
			} else {
				mustShow(t, got, http.StatusTooManyRequests, "temporarily_unavailable")
			}
		}
		return through
	}
	if n := flood(func(int) string { return "192.0.2.1" }); n < 8 || n > 16 {
		t.Errorf("one address stored %d large requests, want about 13", n)
	}
	if n := flood(func(i int) string { return fmt.Sprint("192.0.2.", i%200+10) }); n > 16 {
		t.Errorf("the rest of its network stored %d more", n)
	}
	if n := flood(func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", 256*i) }); n < 30 || n > 64 {
		t.Errorf("one IPv6 /48 stored %d, want about 52", n)
	}
	for _, from := range []string{"192.0.2.1", "2001:db8::1"} {
		if got := ask(from, asks(c)); got.status != http.StatusSeeOther {
			t.Errorf("a usual request of the network that floods: %s", got)
		}
	}
	if got := ask("198.51.100.1", large); got.status != http.StatusSeeOther {
		t.Errorf("another network's large request: %s", got)
	}
	h.clock.advance(time.Minute)
	if got := ask("192.0.2.1", large); got.status != http.StatusSeeOther {
		t.Errorf("a minute later: %s", got)
	}
}

// TestOtherBrowserOfALargeRequest: a stored transaction also belongs to one browser.
func TestOtherBrowserOfALargeRequest(t *testing.T) {
	t.Parallel()
	h, c := newHarness(t, setup{}), testClients()["native"]
	b := h.newBrowser()
	page := b.open(h.issuer + "/authorize?" + replaced(asks(c), "state", strings.Repeat("l", 4096)).Encode()).location(t).String()
	if got := b.open(page); got.status != http.StatusOK {
		t.Fatalf("%s", got)
	}
	stranger := h.newBrowser()
	stranger.jar, _ = cookiejar.New(nil)
	mustShow(t, stranger.open(page), http.StatusBadRequest, "invalid_request")
	other := h.newBrowser()
	other.consentPage(c)
	mustShow(t, other.open(page), http.StatusBadRequest, "invalid_request")
}
