package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"gatehouse.example/authz/admin"
	"gatehouse.example/safefetch"
)

// TestEmbedded signs a person in for a client that identifies itself by a document, and finds the
// client's name and logo on the consent page. It uses only packages that any module can import.
func TestEmbedded(t *testing.T) {
	host, fetching := publish(t)
	front := httptest.NewUnstartedServer(nil)
	store := openStore(t.Context(), "embedded:", "http://"+front.Listener.Addr().String(), bytes.Repeat([]byte{1}, 32))
	t.Cleanup(func() { _ = store.Close() })
	front.Config.Handler = newServer(t.Context(), store, fetching)
	front.Start()
	t.Cleanup(front.Close)
	if _, err := admin.AddUser(t.Context(), store, "ada", "correct horse"); err != nil {
		t.Fatal(err)
	}
	asks := url.Values{
		"client_id": {host + "/client.json"}, "redirect_uri": {host + "/callback"}, "response_type": {"code"}, "state": {"one"},
		"code_challenge": {strings.Repeat("A", 43)}, "code_challenge_method": {"S256"}, "scope": {"notes:read"},
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		page := signIn(t, front.URL+"/authorize?"+asks.Encode())
		if !strings.Contains(page, "Diary") {
			t.Fatalf("the page does not name the client:\n%s", page)
		}
		if strings.Contains(page, `<img class="logo"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the logo never came:\n%s", page)
		}
	}
}

// publish serves the document and logo of a client, and returns how to find them.
func publish(t *testing.T) (origin string, fetching safefetch.Config) {
	mux := http.NewServeMux()
	web := httptest.NewTLSServer(mux)
	t.Cleanup(web.Close)
	address := netip.MustParseAddrPort(web.Listener.Addr().String())
	origin = fmt.Sprintf("https://client.example.com:%d", address.Port())
	mux.HandleFunc("/client.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"client_id":"%[1]s/client.json","client_name":"Diary","client_uri":"%[1]s","logo_uri":"%[1]s/logo.png",
			"redirect_uris":["%[1]s/callback"],"token_endpoint_auth_method":"none"}`, origin)
	})
	mux.HandleFunc("/logo.png", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_ = png.Encode(w, image.NewGray(image.Rect(0, 0, 64, 64)))
	})
	fetching = safefetch.Config{InsecureAllowLoopback: true, RootCAs: x509.NewCertPool()}
	fetching.RootCAs.AddCert(web.Certificate())
	fetching.LookupNetIP = func(context.Context, string, string) ([]netip.Addr, error) { return []netip.Addr{address.Addr()}, nil }
	return origin, fetching
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// signIn opens an address in a new browser, signs in, and returns the next page.
func signIn(t *testing.T, address string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	login, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"username": {"ada"}, "password": {"correct horse"}}
	for _, input := range hidden.FindAllStringSubmatch(text(t, login), -1) {
		form.Set(input[1], input[2])
	}
	consent, err := browser.PostForm(login.Request.URL.ResolveReference(&url.URL{Path: "/login"}).String(), form)
	if err != nil {
		t.Fatal(err)
	}
	return text(t, consent)
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestShort keeps the program within the length that the pages promise: 40 lines, without comments
// and blank lines.
func TestShort(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(program)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	if lines > 40 {
		t.Errorf("the program has %d lines, and no more than 40 are wanted", lines)
	}
}
