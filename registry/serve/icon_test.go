package serve_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/internal/webtest"
	"gatehouse.example/registry/serve"
	"gatehouse.example/safefetch"
	"gatehouse.example/storage/catalogue"
)

// drawn returns a PNG of one colour.
func drawn(c color.Color) []byte {
	picture := image.NewNRGBA(image.Rect(0, 0, 8, 8))
	for i := range 64 {
		picture.Set(i%8, i/8, c)
	}
	var b bytes.Buffer
	_ = png.Encode(&b, picture)
	return b.Bytes()
}

// pictured returns a row with an icon.
func pictured(website, src string, more ...string) catalogue.Entry {
	icons := []any{object{"src": src}}
	for _, other := range more {
		icons = append(icons, object{"src": other})
	}
	return rowOf("com.example/a", "1.0.0+1", recordIs(string(encode(object{
		"name": "com.example/a", "version": "1.0.0+1", "description": "d", "websiteUrl": website, "icons": icons,
	}))))
}

var picturePath = regexp.MustCompile(`<img class="mark" src="(/icons/com\.example/a/[^"]*)" alt=""`)

// pictureOf returns the path of the icon on the page of the server after the fetch, "" if there
// is none.
func pictureOf(d *desk) string {
	d.t.Helper()
	d.get("/servers/com.example/a")
	until(d.t, "the icon is fetched", func() bool { return d.handler.PicturesPending() == 0 })
	if found := picturePath.FindStringSubmatch(d.get("/servers/com.example/a").Body.String()); found != nil {
		return html.UnescapeString(found[1])
	}
	return ""
}

func TestIconIsServedFromHere(t *testing.T) {
	web := webtest.New(t)
	src := web.URL("a.example.com", "/icon.png")
	red := drawn(color.NRGBA{255, 0, 0, 255})
	web.Serve(src, func(w http.ResponseWriter, r *http.Request) {
		for _, secret := range []string{"Authorization", "Cookie", "Referer", "Origin"} {
			if r.Header.Get(secret) != "" {
				t.Errorf("%s: %q", secret, r.Header.Get(secret))
			}
		}
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(append(red, "<script>behind the picture</script>"...))
	})
	d := newDesk(t, serve.Config{Icons: web.Fetcher(nil)}, pictured(web.URL("a.example.com", "/about"), src))
	at := pictureOf(d)
	if at == "" {
		t.Fatal("no picture")
	}
	w := d.get(at)
	picture, err := png.Decode(bytes.NewReader(w.Body.Bytes()))
	if err != nil || w.Code != 200 || color.NRGBAModel.Convert(picture.At(3, 3)) != (color.NRGBA{255, 0, 0, 255}) || bytes.Contains(w.Body.Bytes(), []byte("script")) {
		t.Fatalf("%s: %d, %v", at, w.Code, err)
	}
	for name, want := range map[string]string{
		"Content-Type": "image/png", "Cache-Control": "max-age=31536000, immutable", "Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	sum := sha256.Sum256(w.Body.Bytes())
	if digest := base64.RawURLEncoding.EncodeToString(sum[:16]); !strings.HasSuffix(at, "/1.0.0+1/"+digest) {
		t.Errorf("%s is not named by what it is, %s", at, digest)
	}
	if page := html.UnescapeString(d.get("/").Body.String()); !strings.Contains(page, `src="`+at+`"`) || strings.Contains(page, "a.example.com") {
		t.Errorf("the list has no picture:\n%s", page)
	}
	if n := web.Hits(src); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	// Another process serves the same path once it has fetched the icon.
	elsewhere := d.serve(serve.Config{Icons: web.Fetcher(nil)})
	until(t, "it is shown elsewhere", func() bool { return ask(elsewhere, "GET", at).Code == 200 })
	for _, wrong := range []string{at + "x", at[:len(at)-1], strings.Replace(at, "1.0.0", "1.0.1", 1), strings.Replace(at, "/a/", "/b/", 1), "/icons/com.example/a/1.0.0+1/", "/icons/com.example/a/1.0.0+1"} {
		if w := d.get(wrong); w.Code != 404 && w.Code != 308 {
			t.Errorf("%s: %d", wrong, w.Code)
		}
	}
	if w := ask(d.serve(serve.Config{}), "GET", at); w.Code != 404 {
		t.Errorf("without a fetcher: %d", w.Code)
	}
	gone := pictured(web.URL("a.example.com", "/about"), src)
	gone.Status = "deleted"
	d.commit(gone)
	if w := d.get(at); w.Code != 404 {
		t.Errorf("the icon of a deleted server: %d", w.Code)
	}
}

// TestIconsRefused: the rules of the protocol for programs that show icons, as far as this
// package can observe them. No request is sent to an address that is not allowed.
func TestIconsRefused(t *testing.T) {
	red := drawn(color.NRGBA{255, 0, 0, 255})
	huge := image.NewNRGBA(image.Rect(0, 0, 5000, 10))
	var wide bytes.Buffer
	if err := png.Encode(&wide, huge); err != nil {
		t.Fatal(err)
	}
	svg := `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	for name, test := range map[string]struct {
		website, src string // paths are at a.example.com
		answer       string
		contentType  string
		asked        bool
	}{
		"right":                {"/about", "/icon", string(red), "image/png", true},
		"another host":         {"/about", "https://b.example.com/icon", string(red), "image/png", false},
		"a subdomain":          {"/about", "https://www.a.example.com/icon", string(red), "image/png", false},
		"no website":           {"", "/icon", string(red), "image/png", false},
		"a website over http":  {"http://a.example.com/", "/icon", string(red), "image/png", false},
		"http":                 {"/about", "http://a.example.com/icon", string(red), "image/png", false},
		"data":                 {"/about", "data:image/png;base64," + base64.StdEncoding.EncodeToString(red), "", "", false},
		"javascript":           {"/about", "javascript:alert(1)", "", "", false},
		"a file":               {"/about", "file:///etc/passwd", "", "", false},
		"svg":                  {"/about", "/icon", svg, "image/svg+xml", true},
		"svg as png":           {"/about", "/icon", svg, "image/png", true},
		"png as svg":           {"/about", "/icon", string(red), "image/svg+xml", true},
		"a page":               {"/about", "/icon", "<!doctype html>", "text/html", true},
		"an animation":         {"/about", "/icon", "GIF89a\x01\x00\x01\x00", "image/gif", true},
		"too wide":             {"/about", "/icon", wide.String(), "image/png", true},
		"too many bytes":       {"/about", "/icon", string(red) + strings.Repeat("x", 300<<10), "image/png", true},
		"cut off":              {"/about", "/icon", string(red[:40]), "image/png", true},
		"nothing":              {"/about", "/icon", "", "image/png", true},
		"with a password":      {"/about", "https://user:password@a.example.com/icon", string(red), "image/png", false},
		"a redirect elsewhere": {"/about", "/icon", "redirect https://b.example.com/icon", "", true},
		"a redirect to http":   {"/about", "/icon", "redirect http://a.example.com/icon", "", true},
		"a redirect to itself": {"/about", "/icon", "redirect /other", "", true},
	} {
		web := webtest.New(t)
		at := func(path string) string {
			if strings.HasPrefix(path, "/") {
				return web.URL("a.example.com", path)
			}
			return strings.Replace(path, ".example.com/", ".example.com:"+portOf(web)+"/", 1)
		}
		var asked atomic.Int64
		web.Serve("*", func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if to, ok := strings.CutPrefix(test.answer, "redirect "); ok && r.URL.Path == "/icon" && strings.HasPrefix(r.Host, "a.") {
				http.Redirect(w, r, at(to), http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", test.contentType)
			_, _ = w.Write([]byte(test.answer))
		})
		website := test.website
		if website != "" {
			website = at(website)
		}
		d := newDesk(t, serve.Config{Icons: web.Fetcher(nil)}, pictured(website, at(test.src)))
		if got := pictureOf(d); (got != "") != (name == "right") {
			t.Errorf("%s: the picture is %q", name, got)
		}
		if name != "right" {
			expect(t, name, d.get("/").Body.String(), []string{`<span class="mark letter" aria-hidden="true"><bdi>A</bdi></span>`}, []string{"<img"})
		}
		if n := asked.Load(); (n > 0) != test.asked || n > 1 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// portOf returns the port of a web.
func portOf(web *webtest.Web) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(web.URL("x", ""), "https://"), ":")
	return port
}

// TestIconIsChosen: the icon with the best size is chosen among those that may be fetched.
func TestIconIsChosen(t *testing.T) {
	type icon = object
	for name, test := range map[string]struct {
		icons []any
		want  string // the path of the chosen icon
	}{
		"the only one":          {[]any{icon{"src": "/a"}}, "/a"},
		"large enough":          {[]any{icon{"src": "/16", "sizes": []string{"16x16"}}, icon{"src": "/512", "sizes": []string{"512x512"}}, icon{"src": "/128", "sizes": []string{"128x128"}}}, "/128"},
		"the largest":           {[]any{icon{"src": "/16", "sizes": []string{"16x16"}}, icon{"src": "/48", "sizes": []string{"48x48", "24x24"}}}, "/48"},
		"rather too large":      {[]any{icon{"src": "/90", "sizes": []string{"90x90"}}, icon{"src": "/512", "sizes": []string{"512x512"}}}, "/512"},
		"any size":              {[]any{icon{"src": "/128", "sizes": []string{"128x128"}}, icon{"src": "/any", "sizes": []string{"any"}}}, "/any"},
		"not for dark":          {[]any{icon{"src": "/dark", "theme": "dark"}, icon{"src": "/light", "theme": "light"}}, "/light"},
		"no SVG":                {[]any{icon{"src": "/svg", "mimeType": "image/svg+xml"}, icon{"src": "/png", "mimeType": "image/png"}}, "/png"},
		"not of another origin": {[]any{icon{"src": "https://b.example.com/a"}, icon{"src": "/a"}}, "/a"},
		"not of another port":   {[]any{icon{"src": "https://a.example.com/a"}, icon{"src": "/b"}}, "/b"},
		"dark only":             {[]any{icon{"src": "/dark", "theme": "dark"}}, ""},
		"none":                  {nil, ""},
	} {
		web := webtest.New(t)
		var asked sync.Map
		web.Serve("*", func(_ http.ResponseWriter, r *http.Request) { asked.Store(r.URL.Path, true) })
		for _, i := range test.icons {
			if i := i.(object); strings.HasPrefix(i["src"].(string), "/") {
				i["src"] = web.URL("a.example.com", i["src"].(string))
			}
		}
		remotes := []any{object{"type": "sse", "url": "https://{x}.example.com/"}, object{"type": "sse", "url": web.URL("A.EXAMPLE.com", "/sse")}}
		row := rowOf("com.example/a", "1.0.0", recordIs(string(encode(object{"name": "com.example/a", "version": "1.0.0", "icons": test.icons, "remotes": remotes}))))
		pictureOf(newDesk(t, serve.Config{Icons: web.Fetcher(nil)}, row))
		got := ""
		asked.Range(func(path, _ any) bool { got += path.(string); return true })
		if got != test.want {
			t.Errorf("%s: asked for %q, want %q", name, got, test.want)
		}
	}
}

// slow is a fetcher whose answers the test releases.
type slow struct {
	mu    sync.Mutex
	begun int
	go_   chan struct{}
	fail  bool
}

func (s *slow) Get(ctx context.Context, _ safefetch.Request) (*safefetch.Response, error) {
	s.mu.Lock()
	s.begun++
	fail := s.fail
	s.mu.Unlock()
	select {
	case <-s.go_:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if fail {
		return nil, safefetch.ErrRefused
	}
	return &safefetch.Response{Header: http.Header{}, Body: drawn(color.Black)}, nil
}

func (s *slow) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// TestIconLimit: a page does not wait for slow icons, and one client cannot cause more than a
// limited number of fetches at once.
func TestIconLimit(t *testing.T) {
	var rows []catalogue.Entry
	for i := range 400 {
		name := fmt.Sprintf("com.example/a%03d", i)
		host := fmt.Sprintf("https://a%03d.example.com/", i)
		rows = append(rows, rowOf(name, "1", recordIs(string(encode(object{"name": name, "version": "1", "websiteUrl": host, "icons": []any{object{"src": host + "icon"}}})))))
	}
	fetch := &slow{go_: make(chan struct{})}
	var mu sync.Mutex
	now := day(1)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	d := newDesk(t, serve.Config{Icons: fetch, Now: clock}, rows...)
	page := func(i int) string { return d.get(fmt.Sprintf("/servers/com.example/a%03d", i)).Body.String() }

	if first := d.get("/"); first.Code != 200 || strings.Contains(first.Body.String(), "<img") {
		t.Errorf("%d with pictures that are not there", first.Code)
	}
	until(t, "the fetches for a page of 30 begin", func() bool { return fetch.count() == 30 })
	settle := func() {
		until(t, "all icons are fetched", func() bool { return d.handler.PicturesPending() == 0 })
	}
	close(fetch.go_)
	until(t, "the icons are there", func() bool { return strings.Count(d.get("/").Body.String(), "<img") == 30 })
	for i := range rows {
		page(i)
	}
	settle()
	if n := fetch.count(); n != 300 {
		t.Errorf("%d fetches in a minute", n)
	}
	pass(time.Minute)
	for i := range rows {
		page(i)
	}
	settle()
	if n := fetch.count(); n != 400 {
		t.Errorf("%d fetches of 400 icons", n)
	}
	// Icons are kept for an hour, failures for a minute.
	pass(58 * time.Minute)
	page(0)
	settle()
	if n := fetch.count(); n != 400 {
		t.Errorf("%d fetches before the hour is over", n)
	}
	pass(2 * time.Minute)
	fetch.mu.Lock()
	fetch.fail = true
	fetch.mu.Unlock()
	page(0)
	settle()
	page(0)
	pass(59 * time.Second)
	page(0)
	settle()
	if n := fetch.count(); n != 401 {
		t.Errorf("%d fetches after the hour", n)
	}
	pass(time.Second)
	page(0)
	settle()
	if n := fetch.count(); n != 402 {
		t.Errorf("%d fetches after a minute more", n)
	}
}

// until waits until a condition is true.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestPagesWaitForNoIcon: while an icon is being fetched, pages show a letter in its place,
// and the path of the icon answers 404.
func TestPagesWaitForNoIcon(t *testing.T) {
	fetch := &slow{go_: make(chan struct{})}
	d := newDesk(t, serve.Config{Icons: fetch}, pictured("https://a.example.com/", "https://a.example.com/icon.png"))
	for _, page := range []string{"/", "/servers/com.example/a"} {
		if got := d.get(page); got.Code != 200 || strings.Contains(got.Body.String(), "<img") {
			t.Errorf("%s: %d %s", page, got.Code, got.Body)
		}
	}
	until(t, "the icon is asked for", func() bool { return fetch.count() == 1 })
	if got := d.get("/icons/com.example/a/1.0.0+1/AAAAAAAAAAAAAAAAAAAAAA"); got.Code != 404 {
		t.Errorf("an icon that is not there: %d", got.Code)
	}
	if n := d.handler.PicturesPending(); n != 1 {
		t.Errorf("%d icons are on their way, want the one that was held all the time", n)
	}
	close(fetch.go_)
	until(t, "the icon is there", func() bool { return strings.Contains(d.get("/").Body.String(), "<img") })
}
