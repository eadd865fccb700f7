package icon_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/message"
	"gatehouse.example/message/icon"
	"gatehouse.example/safefetch"
)

// drawn is a picture with a red left half and a half-transparent right one.
func drawn(width, height int) image.Image {
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for x := range width {
		for y := range height {
			c := color.NRGBA{R: 255, A: 255}
			if x >= width/2 {
				c = color.NRGBA{B: 255, A: 128}
			}
			picture.SetNRGBA(x, y, c)
		}
	}
	return picture
}

func pngOf(t testing.TB, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, drawn(width, height)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t testing.TB, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, drawn(width, height), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// webpOf is a lossless WebP of one grey pixel.
func webpOf(t testing.TB) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// claiming is a PNG whose header has another size than its data.
func claiming(t testing.TB, width, height uint32) []byte {
	b := bytes.Clone(pngOf(t, 1, 1))
	binary.BigEndian.PutUint32(b[16:], width)
	binary.BigEndian.PutUint32(b[20:], height)
	binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
	return b
}

func TestRedraw(t *testing.T) {
	for _, test := range []struct {
		name          string
		data          []byte
		declared      string
		width, height int
	}{
		{"a PNG", pngOf(t, 48, 48), "image/png", 48, 48},
		{"with a parameter", pngOf(t, 48, 48), "image/png; q=1", 48, 48},
		{"in capitals", pngOf(t, 48, 48), "Image/PNG", 48, 48},
		{"without a declaration", pngOf(t, 48, 48), "", 48, 48},
		{"with a generic one", pngOf(t, 48, 48), "application/octet-stream", 48, 48},
		{"a JPEG", jpegOf(t, 48, 32), "image/jpeg", 48, 32},
		{"by its other name", jpegOf(t, 48, 32), "image/jpg", 48, 32},
		{"a WebP", webpOf(t), "image/webp", 1, 1},
		{"a large one", pngOf(t, 1024, 512), "image/png", 128, 64},
		{"a long one", pngOf(t, 4096, 2), "image/png", 128, 1},
		{"with something behind it", append(pngOf(t, 8, 8), "<script>alert(1)</script>"...), "image/png", 8, 8},
	} {
		out, err := icon.Redraw(test.data, test.declared)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		config, err := png.DecodeConfig(bytes.NewReader(out))
		if err != nil || config.Width != test.width || config.Height != test.height {
			t.Errorf("%s: %d by %d, %v; want %d by %d", test.name, config.Width, config.Height, err, test.width, test.height)
		}
		if bytes.Contains(out, []byte("script")) {
			t.Errorf("%s: more than pixels gets through", test.name)
		}
	}
}

func TestRedrawKeepsColours(t *testing.T) {
	out, err := icon.Redraw(pngOf(t, 512, 512))
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	for x, want := range map[int]color.NRGBA{10: {R: 255, A: 255}, 118: {B: 255, A: 128}} {
		if got := color.NRGBAModel.Convert(picture.At(x, 64)); got != want {
			t.Errorf("at %d: %v, want %v", x, got, want)
		}
	}
}

const svg = `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`

func TestRedrawRefused(t *testing.T) {
	for name, test := range map[string]struct {
		data     []byte
		declared []string
	}{
		"nothing":                        {nil, nil},
		"text":                           {[]byte("hello"), nil},
		"HTML":                           {[]byte("<!doctype html>"), []string{"text/html"}},
		"SVG":                            {[]byte(svg), []string{"image/svg+xml"}},
		"SVG that says it is PNG":        {[]byte(svg), []string{"image/png"}},
		"GIF":                            {[]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00"), []string{"image/gif"}},
		"ICO":                            {[]byte("\x00\x00\x01\x00\x01\x00"), nil},
		"a PNG that says it is JPEG":     {pngOf(t, 8, 8), []string{"image/jpeg"}},
		"a PNG that says it is HTML":     {pngOf(t, 8, 8), []string{"text/html"}},
		"a PNG, and its icon says JPEG":  {pngOf(t, 8, 8), []string{"image/png", "image/jpeg"}},
		"a declaration that is none":     {pngOf(t, 8, 8), []string{"image"}},
		"a PNG cut short":                {pngOf(t, 64, 64)[:60], nil},
		"only the magic bytes":           {[]byte("\x89PNG\r\n\x1a\n"), nil},
		"a JPEG cut short":               {jpegOf(t, 64, 64)[:300], nil},
		"a WebP cut short":               {webpOf(t)[:20], nil},
		"too wide":                       {pngOf(t, 4097, 1), nil},
		"too high":                       {pngOf(t, 1, 4097), nil},
		"too many pixels":                {pngOf(t, 1025, 1024), nil},
		"no pixels":                      {claiming(t, 0, 0), nil},
		"a bomb":                         {claiming(t, 1<<31-1, 1<<31-1), nil},
		"a claim of pixels that are not": {claiming(t, 1024, 1024), nil},
		"too many bytes":                 {append(pngOf(t, 8, 8), make([]byte, 256<<10)...), nil},
		"no JPEG behind the magic bytes": {[]byte("\xff\xd8\xff\xe0 hello"), nil},
		"an animated WebP":               {[]byte("RIFF\x1e\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00ANIM"), nil},
	} {
		if out, err := icon.Redraw(test.data, test.declared...); !errors.Is(err, icon.ErrRefused) || out != nil {
			t.Errorf("%s: %d bytes, %v; want it refused", name, len(out), err)
		}
	}
}

// TestSVGIsRefused: SVG is refused in every form that parsers recognise.
func TestSVGIsRefused(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(svg))
	_ = z.Close()
	wide := []byte{0xff, 0xfe}
	for _, c := range []byte(svg) {
		wide = append(wide, c, 0)
	}
	for name, data := range map[string][]byte{
		"plain": []byte(svg), "with a byte order mark": []byte("\ufeff" + svg), "behind a comment": []byte("<!-- \x89PNG -->" + svg), "behind an entity": []byte("<!DOCTYPE svg [<!ENTITY a 'b'>]>" + svg),
		"packed": zipped.Bytes(), "in UTF-16": wide, "behind blanks": []byte("\n\n \t" + svg), "behind the magic of PNG": append([]byte("\x89PNG\r\n\x1a\n"), svg...),
	} {
		for _, declared := range []string{"", "image/svg+xml", "image/png", "IMAGE/SVG+XML; charset=utf-8", "application/octet-stream", "text/xml"} {
			if out, err := icon.Redraw(data, declared); !errors.Is(err, icon.ErrRefused) || out != nil {
				t.Errorf("%s as %q: %d bytes, %v", name, declared, len(out), err)
			}
		}
	}
}

// origin is a server with pictures.
func origin(t *testing.T) (url string, fetcher *icon.Fetcher, asked *[]*http.Request) {
	t.Helper()
	asked = &[]*http.Request{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r)
		switch r.URL.Path {
		case "/logo.png":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(pngOf(t, 200, 100))
		case "/untyped":
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(jpegOf(t, 20, 10))
		case "/wrong":
			w.Header().Set("Content-Type", "image/jpeg")
			_, _ = w.Write(pngOf(t, 20, 10))
		case "/moved":
			http.Redirect(w, r, "/logo.png", http.StatusFound)
		case "/endless":
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	fetch, err := safefetch.New(safefetch.Config{InsecureAllowLoopback: true, RootCAs: roots, Floor: 1})
	if err != nil {
		t.Fatal(err)
	}
	return server.URL, icon.New(fetch), asked
}

func TestGet(t *testing.T) {
	url, fetcher, asked := origin(t)
	data := "data:image/png;base64," + base64.StdEncoding.EncodeToString(pngOf(t, 16, 16))
	for name, test := range map[string]struct {
		icon message.Icon
		want bool
	}{
		"a picture":               {message.Icon{Src: url + "/logo.png"}, true},
		"with its type":           {message.Icon{Src: url + "/logo.png", MIMEType: "image/png"}, true},
		"typed by its icon":       {message.Icon{Src: url + "/untyped", MIMEType: "image/jpeg"}, true},
		"data":                    {message.Icon{Src: data}, true},
		"another type than given": {message.Icon{Src: url + "/logo.png", MIMEType: "image/jpeg"}, false},
		"another type than sent":  {message.Icon{Src: url + "/wrong"}, false},
		"a redirect":              {message.Icon{Src: url + "/moved"}, false},
		"too much":                {message.Icon{Src: url + "/endless"}, false},
		"not there":               {message.Icon{Src: url + "/nothing"}, false},
		"http":                    {message.Icon{Src: strings.Replace(url, "https", "http", 1) + "/logo.png"}, false},
		"another origin":          {message.Icon{Src: "https://other.example.com/logo.png"}, false},
		"another port":            {message.Icon{Src: "https://127.0.0.1:4433/logo.png"}, false},
		"javascript":              {message.Icon{Src: "javascript:alert(1)"}, false},
		"a file":                  {message.Icon{Src: "file:///etc/passwd"}, false},
		"data that is SVG":        {message.Icon{Src: "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg))}, false},
		"data that lies":          {message.Icon{Src: strings.Replace(data, "png", "jpeg", 1)}, false},
		"data without base64":     {message.Icon{Src: "data:image/png,hello"}, false},
		"data that is no base64":  {message.Icon{Src: "data:image/png;base64,*"}, false},
		"data without a comma":    {message.Icon{Src: "data:image/png;base64"}, false},
		"endless data":            {message.Icon{Src: "data:image/png;base64," + strings.Repeat("A", 400<<10)}, false},
		"nothing at all":          {message.Icon{}, false},
	} {
		out, err := fetcher.Get(t.Context(), test.icon, url+"/somewhere")
		if (err == nil) != test.want || (out != nil) != test.want {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
	}
	for _, r := range *asked {
		if r.Header.Get("Cookie") != "" || r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" {
			t.Errorf("%s was asked for with %v", r.URL, r.Header)
		}
	}
}

func TestGetEnds(t *testing.T) {
	url, fetcher, _ := origin(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fetcher.Get(ctx, message.Icon{Src: url + "/logo.png"}, url); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
}

// FuzzRedraw: the result for any data is an error or a small PNG.
func FuzzRedraw(f *testing.F) {
	for _, seed := range [][]byte{pngOf(f, 9, 7), jpegOf(f, 9, 7), webpOf(f), []byte(svg), claiming(f, 1<<20, 1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := icon.Redraw(data)
		if err != nil {
			if !errors.Is(err, icon.ErrRefused) || out != nil {
				t.Errorf("%d bytes, %v", len(out), err)
			}
			return
		}
		config, err := png.DecodeConfig(bytes.NewReader(out))
		if err != nil || config.Width > 128 || config.Height > 128 {
			t.Errorf("%d by %d, %v", config.Width, config.Height, err)
		}
	})
}

func BenchmarkRedraw(b *testing.B) {
	data := pngOf(b, 512, 512)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := icon.Redraw(data); err != nil {
			b.Fatal(err)
		}
	}
}
