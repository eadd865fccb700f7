package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// The page at the issuer links to the catalogue if the server carries one; a catalogue at / takes
// its place.
func TestRootLeadsToTheCatalogue(t *testing.T) {
	for at, want := range map[string]string{"": "", "/registry": "/registry/", "/": "catalogue"} {
		args := []string{"--dev", "--listen", "127.0.0.1:0"}
		if at != "" {
			args = append(args, "--registry-at", at)
		}
		r := start(t, nil, args...)
		issuer := r.shown("issuer")
		page := opened(t, issuer+"/")
		link := `href="` + issuer + want + `"`
		switch {
		case want == "catalogue":
			if strings.Contains(page, "Sign-in for your servers") || !strings.Contains(page, "Notes (demo)") {
				t.Errorf("registry at /: %s", page)
			}
		case !strings.Contains(page, "Sign-in for your servers"), (want != "") != strings.Contains(page, link):
			t.Errorf("registry at %q: %s", at, page)
		}
		if want == "/registry/" && !strings.Contains(opened(t, issuer+want), "Notes (demo)") {
			t.Error("the link leads nowhere")
		}
	}
}

// TestReloadKeepsTheLinkToTheCatalogue: a reload changes nothing about the link, whether there is a
// catalogue or not.
func TestReloadKeepsTheLinkToTheCatalogue(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]bool{"": false, "registry-at: /registry\n": true} {
		r := startReloading(t, "serve", "dev: true\n"+at, nil)
		issuer := r.shown("issuer")
		before := opened(t, issuer+"/")
		r.write(t, "dev: true\npages: {name: Other}\n"+at)
		if got := r.reload(t); !got.Done {
			t.Fatalf("%+v", got)
		}
		after := opened(t, issuer+"/")
		if after == before {
			t.Errorf("with %q the reload has no effect", at)
		}
		for when, page := range map[string]string{"before": before, "after": after} {
			if strings.Contains(page, `href="`+issuer+`/registry/"`) != want || strings.Contains(page, `href="`+issuer+`/"`) {
				t.Errorf("with %q, %s the reload: %s", at, when, page)
			}
		}
	}
}

// opened returns a page as a browser gets it.
func opened(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(body)
}
