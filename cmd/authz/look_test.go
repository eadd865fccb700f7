package main

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesOfTheFile: the pages of the server and of the registry that it carries have the look
// of the section pages, and the logo is a PNG picture from here, drawn anew.
func TestPagesOfTheFile(t *testing.T) {
	dir := t.TempDir()
	picture := image.NewRGBA(image.Rect(0, 0, 400, 200))
	picture.Set(3, 3, color.RGBA{R: 200, A: 255})
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, picture, nil); err != nil {
		t.Fatal(err)
	}
	logo, config := filepath.Join(dir, "logo.jpg"), filepath.Join(dir, "authz.yaml")
	text := "pages:\n  name: Example Company\n  colour: \"#ffcc00\"\n  logo: " + logo + "\n"
	for name, data := range map[string][]byte{logo: photo.Bytes(), config: []byte(text)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, nil, "--dev", "--listen", "127.0.0.1:0", "--registry-at", "/registry", "--config", config)
	issuer := r.shown("issuer")
	for _, path := range []string{"/", "/registry/"} {
		page := opened(t, issuer+path)
		if !strings.Contains(page, "Example Company") || strings.Contains(page, "Gatehouse") || !strings.Contains(page, "--fill:#ffcc00") {
			t.Errorf("%s has another look: %s", path, page)
		}
		src := regexp.MustCompile(`<img class="brand-logo" src="([^"]*)"`).FindStringSubmatch(page)
		if src == nil {
			t.Fatalf("%s has no logo: %s", path, page)
		}
		resp, err := http.Get(issuer + src[1])
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if drawn, err := png.DecodeConfig(resp.Body); err != nil || drawn.Width > 128 || resp.Header.Get("Content-Type") != "image/png" {
			t.Errorf("%s: %v, %v, %v", src[1], drawn, err, resp.Header)
		}
	}
}
