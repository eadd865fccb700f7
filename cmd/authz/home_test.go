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
