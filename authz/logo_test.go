package authz_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz"
	"gatehouse.example/internal/webtest"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage"
)

const clientHost = "client.example.org"

func pictureOf(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 300, 150))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var logoTag = regexp.MustCompile(`<img class="logo" src="([^"]*)"`)

// logoOn returns the address of the logo on the last page.
func (b *browser) logoOn() string {
	if found := logoTag.FindStringSubmatch(b.last.body); found != nil {
		return strings.ReplaceAll(found[1], "&amp;", "&")
	}
	return ""
}

// consentPageOf opens the consent page of a client in a new browser.
func (h *harness) consentPageOf(c testClient) *browser {
	h.t.Helper()
	b := h.newBrowser()
	b.open("/authorize?" + asks(c).Encode())
	b.follow()
	b.submit("username", personName, "password", personPassword)
	b.follow()
	return b
}

// consentPageWithLogo is consentPageOf after the logo was fetched: pages do not wait for it.
func (h *harness) consentPageWithLogo(c testClient) *browser {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if b := h.consentPageOf(c); b.logoOn() != "" {
			return b
		} else if time.Now().After(deadline) {
			h.t.Fatalf("the logo never came:\n%s", b.last.body)
		}
	}
}

// TestLogo: this server serves the logo, redrawn, after fetching it once, and only to the
// browser of the transaction; the page names no host of the client.
func TestLogo(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	at := web.URL(clientHost, "/logo.png")
	web.Serve(at, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(pictureOf(t))
	})
	c := h.illustrated("pictured", web.URL(clientHost, "/about"), at)
	b := h.consentPageWithLogo(c)
	logo := b.logoOn()
	if !strings.HasPrefix(logo, "/logo?transaction=") || strings.Contains(b.last.body, "/logo.png") {
		t.Fatalf("the page shows the logo at %q:\n%s", logo, b.last.body)
	}
	for range 3 {
		got := b.open(logo)
		config, err := png.DecodeConfig(strings.NewReader(got.body))
		if got.status != http.StatusOK || got.header.Get("Content-Type") != "image/png" || err != nil || config.Width != 128 || config.Height != 64 {
			t.Fatalf("the logo is %d by %d, %v: %d %v", config.Width, config.Height, err, got.status, got.header)
		}
		if policy := got.header.Get("Content-Security-Policy"); policy != "default-src 'none'" {
			t.Errorf("the policy of a picture is %q", policy)
		}
	}
	if n := web.Hits(at); n != 1 {
		t.Errorf("it was fetched %d times, want once", n)
	}
	for what, stranger := range map[string]reply{
		"another browser": h.newBrowser().open(logo),
		"no transaction":  h.get("/logo"),
		"another one":     b.open(logo[:len(logo)-1] + "x"),
	} {
		if stranger.status != http.StatusBadRequest {
			t.Errorf("%s: %s", what, stranger)
		}
	}
}

// illustrated stores a client with a home page, a logo, and a redirect URI at the origin of
// its page.
func (h *harness) illustrated(id, page, logo string) testClient {
	h.t.Helper()
	c := testClients()["native"]
	if page != "" {
		c.Metadata.RedirectURIs = append(c.Metadata.RedirectURIs, origin(page)+"/callback")
	}
	c.ID, c.Metadata.ClientURI, c.Metadata.LogoURI, c.Source = id, page, logo, storage.ClientRegistered
	h.addClient(c.Client)
	return c
}

// TestLogoRefused: a logo that may not be shown or is not a picture is left out.
func TestLogoRefused(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	svg := web.URL(clientHost, "/logo.svg")
	web.Serve(svg, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`))
	})
	elsewhere := web.URL("other.example.org", "/logo.png")
	web.Serve(elsewhere, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(pictureOf(t)) })
	page := web.URL(clientHost, "/about")
	web.Serve("*", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/control") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(pictureOf(t))
	})
	for i, test := range []struct {
		name, page, logo string
	}{
		{"SVG", page, svg},
		{"of another origin", page, elsewhere},
		{"that is not there", page, web.URL(clientHost, "/nothing.png")},
		{"on this machine", "https://127.0.0.1/about", "https://127.0.0.1/logo.png"},
		{"without a home page", "", svg},
		{"none", page, ""},
	} {
		for range 2 {
			b := h.consentPageOf(h.illustrated(fmt.Sprint("client-", i), test.page, test.logo))
			if logo := b.logoOn(); logo != "" {
				t.Errorf("%s: the page shows %q", test.name, logo)
			}
			i += 10
			transaction := b.last.url.Query().Get("transaction")
			if got := b.open("/logo?transaction=" + transaction); got.status != http.StatusNotFound || got.body != "" {
				t.Errorf("%s: %s", test.name, got)
			}
			// Pictures are drawn one after another: when the next one is ready, this one would be.
			h.consentPageWithLogo(h.illustrated(fmt.Sprint("control-", i), page, web.URL(clientHost, fmt.Sprint("/control", i))))
		}
	}
	if n := web.Hits(elsewhere); n != 0 {
		t.Errorf("a logo of another origin was fetched %d times", n)
	}
	if n := web.Hits(svg); n != 1 {
		t.Errorf("a logo that cannot be shown was fetched %d times, want once in a while", n)
	}
}

// TestWhoMayShowALogo: logos are shown of clients that the operator vouches for, of
// documents at the origin of the logo, and of clients whose page and web redirect URI have
// the origin of the logo. Logos of other clients are not fetched.
func TestWhoMayShowALogo(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	at, page := web.URL(clientHost, "/logo.png"), web.URL(clientHost, "/about")
	web.Serve(at, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(pictureOf(t))
	})
	with := func(id string, source storage.ClientSource, redirects ...string) testClient {
		c := testClients()["native"]
		c.ID, c.Source, c.Metadata.ClientURI, c.Metadata.LogoURI = id, source, page, at
		c.Metadata.RedirectURIs = append(c.Metadata.RedirectURIs, redirects...)
		h.addClient(c.Client)
		return c
	}
	document := func(host string) testClient {
		id := web.URL(host, "/client.json")
		web.Document(id, fmt.Sprintf(`{"client_id":%q,"client_name":"Notes","client_uri":%q,"logo_uri":%q,"redirect_uris":["http://127.0.0.1/callback",%q]}`,
			id, page, at, web.URL(clientHost, "/callback")))
		return described(id, "http://127.0.0.1:49152/callback")
	}
	for _, tt := range []struct {
		name string
		testClient
		shown bool
	}{
		{"no web redirect", with("one", storage.ClientRegistered), false},
		{"a web redirect at another port", with("two", storage.ClientRegistered, "https://"+clientHost+"/callback"), false},
		{"a web redirect at a host below", with("three", storage.ClientRegistered, web.URL("www."+clientHost, "/callback")), false},
		{"a web redirect elsewhere", with("four", storage.ClientRegistered, web.URL("other.example.org", "/callback")), false},
		{"a private-use redirect of that name", with("five", storage.ClientRegistered, "myapp://"+clientHost+"/callback"), false},
		{"a document elsewhere", document("other.example.org"), false},
		{"one web redirect of several", with("six", storage.ClientRegistered, "https://other.example.org/", web.URL(clientHost, "/callback")), true},
		{"entered by the operator", with("seven", storage.ClientConfigured), true},
		{"its document's own", document(clientHost), true},
	} {
		if tt.shown {
			h.consentPageWithLogo(tt.testClient)
			continue
		}
		for range 2 {
			if logo := h.consentPageOf(tt.testClient).logoOn(); logo != "" {
				t.Errorf("%s: the page shows the logo %q", tt.name, logo)
			}
		}
	}
	if n := web.Hits(at); n != 2 { // once for the page and once for the document that name it rightly
		t.Errorf("the picture was fetched %d times, want 2", n)
	}
}

// TestLogoOfWhoGetsTheAnswer: a client that registers the page, logo and redirect URI of
// another one beside its own redirect URI does not show that logo when the answer goes to its
// own.
func TestLogoOfWhoGetsTheAnswer(t *testing.T) {
	t.Parallel()
	h, web := withDocuments(t, nil)
	at := web.URL(clientHost, "/logo.png")
	web.Serve(at, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(pictureOf(t))
	})
	c, own := testClients()["native"], web.URL(clientHost, "/callback")
	c.ID, c.Source, c.Metadata.ClientURI, c.Metadata.LogoURI = "two-faces", storage.ClientRegistered, web.URL(clientHost, "/about"), at
	others := []string{web.URL("evil.example.org", "/callback"), web.URL("www."+clientHost, "/callback"), "https://" + clientHost + "/callback"}
	c.Metadata.RedirectURIs = append(others, own)
	h.addClient(c.Client)
	to := func(redirect string) testClient {
		asking := c
		asking.redirect = redirect
		return asking
	}
	for _, redirect := range others {
		if logo := h.consentPageOf(to(redirect)).logoOn(); logo != "" || web.Hits(at) != 0 {
			t.Errorf("the answer goes to %s: the page shows %q, and %d fetches", redirect, logo, web.Hits(at))
		}
	}
	h.consentPageWithLogo(to(own)) // now the logo is shown
	for _, redirect := range others {
		b := h.consentPageOf(to(redirect))
		if logo := b.logoOn(); logo != "" {
			t.Errorf("the answer goes to %s: the page shows %q once the logo was fetched", redirect, logo)
		}
		if got := b.open("/logo?transaction=" + b.last.url.Query().Get("transaction")); got.status != http.StatusNotFound {
			t.Errorf("the answer goes to %s: the logo is %s", redirect, got)
		}
	}
}

// TestPagesWaitForNoLogo: while a logo is being fetched, every page of the sign-in, and the
// address of the logo, answer without it; the next page has it.
func TestPagesWaitForNoLogo(t *testing.T) {
	t.Parallel()
	web := webtest.New(t)
	h := newHarness(t, setup{config: func(c *authz.Config) {
		c.Fetcher = web.Fetcher(func(f *safefetch.Config) { f.Timeout, f.Patience = time.Hour, time.Hour })
	}})
	at, asked, release := web.URL(clientHost, "/logo.png"), make(chan struct{}, 1), make(chan struct{})
	web.Serve(at, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(pictureOf(t))
	})
	c := h.illustrated("slow", web.URL(clientHost, "/about"), at)
	b := h.consentPageOf(c)
	<-asked // the fetch has begun, and ends when it is released
	if logo := b.logoOn(); logo != "" {
		t.Errorf("the page shows %q, which is not there yet", logo)
	}
	if got := b.open("/logo?transaction=" + b.last.url.Query().Get("transaction")); got.status != http.StatusNotFound {
		t.Errorf("the logo that is not there yet: %s", got)
	}
	close(release)
	h.consentPageWithLogo(c)
}
