package main

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// saveLogo saves a picture and returns its name.
func saveLogo(t *testing.T) string {
	t.Helper()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 300, 300))); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "logo.png")
	if err := os.WriteFile(name, picture.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestRegistryPages: the pages of a separate registry have the look of the section pages: of its
// own file, or of the file of an authorization server, in which its own section counts first.
func TestRegistryPages(t *testing.T) {
	logo := saveLogo(t)
	look := "pages:\n  name: Example Company\n  colour: \"#ffcc00\"\n  logo: " + logo + "\n  footer: Run by the platform team.\n  links:\n    - {name: Imprint, url: https://example.com/imprint}\n"
	server := "issuer: https://auth.example.com\nregistration: closed\n"
	for name, test := range map[string]struct{ file, want string }{
		"its own file":            {look + "servers: []\n", "Example Company"},
		"the file of a server":    {server + look, "Example Company"},
		"its section of it":       {server + "pages:\n  name: Somebody Else\nregistry:\n  " + strings.ReplaceAll(strings.TrimSpace(look), "\n", "\n  ") + "\n", "Example Company"},
		"a file without a look":   {"servers: []\n", "Gatehouse"},
		"a server without a look": {server, "Gatehouse"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRegistry(t, nil, "--config", save(t, "file.yaml", test.file))
			base := strings.TrimSuffix(r.shown("pages"), "/")
			page := opened(t, base+"/")
			own := test.want != "Gatehouse"
			for _, shown := range []string{"--fill:#ffcc00", "Run by the platform team.", `href="https://example.com/imprint"`} {
				if !strings.Contains(page, test.want) || strings.Contains(page, shown) != own || strings.Contains(page, "Somebody Else") {
					t.Fatalf("the look is another one (%q): %s", shown, page)
				}
			}
			src := regexp.MustCompile(`<img class="brand-logo" src="([^"]*)"`).FindStringSubmatch(page)
			if !own {
				if status, _ := get(t, http.DefaultClient, base+"/pages/logo"); src != nil || status != http.StatusNotFound {
					t.Errorf("there is a logo: %v, %d", src, status)
				}
				return
			}
			if src == nil {
				t.Fatalf("there is no logo: %s", page)
			}
			resp, err := http.Get(base + src[1])
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if drawn, err := png.DecodeConfig(resp.Body); err != nil || drawn.Width > 128 || resp.Header.Get("Content-Type") != "image/png" {
				t.Errorf("%s: %v, %v, %v", src[1], drawn, err, resp.Header)
			}
			answer, err := http.Post(base+src[1], "text/plain", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("POST: %d, %v", answer.StatusCode, answer.Header)
			}
		})
	}
}

// TestRegistryPagesMistakes: mistakes of the look are named with their line, before anything
// listens.
func TestRegistryPagesMistakes(t *testing.T) {
	for says, file := range map[string]string{
		":2: unknown key \"nam\": the nearest valid key is \"name\"": "pages:\n  nam: Example Company\n",
		":3: logo": "pages:\n  name: Example Company\n  logo: /nowhere.png\n",
	} {
		var out, errs lockedBuffer
		status := run(t.Context(), []string{"registry", "serve", "--listen", takenAddress(t), "--config", save(t, "file.yaml", file)}, nil, strings.NewReader(""), &out, &errs)
		if status == exitDone || !strings.Contains(errs.String(), says) || strings.Contains(errs.String(), "in use") {
			t.Errorf("status %d: %s; want %q", status, errs.String(), says)
		}
	}
}
