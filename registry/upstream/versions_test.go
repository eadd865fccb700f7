package upstream_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"gatehouse.example/registry"
	"gatehouse.example/registry/registrytest"
	"gatehouse.example/registry/upstream"
)

// onlyPage returns the page of a list with a single page.
func onlyPage(pages iter.Seq2[upstream.Page, error]) (only upstream.Page, err error) {
	n := 0
	for page, failed := range pages {
		only, err = page, failed
		n++
	}
	if n != 1 {
		return only, fmt.Errorf("%d pages: %w", n, err)
	}
	return only, err
}

func TestVersions(t *testing.T) {
	origin := registrytest.New(t)
	for _, version := range []string{"1.0.0", "1.1.0+build", "release/2 100%", "2.0.0"} {
		origin.Add("com.example/notes.v_1-a", version)
	}
	origin.SetStatus("com.example/notes.v_1-a", "2.0.0", registry.StatusDeleted, "malware")
	client := newClient(t, upstream.Config{Base: origin.URL()})
	page, err := onlyPage(client.Versions(t.Context(), "com.example/notes.v_1-a"))
	if err != nil || len(page.Items) != 4 || page.Items[0].Record.Version() != "2.0.0" || page.Items[0].Official.Status != registry.StatusDeleted {
		t.Errorf("%v: %q", err, names(page.Items))
	}
	for asked, want := range map[string]string{"1.0.0": "1.0.0", "1.1.0+build": "1.1.0+build", "release/2 100%": "release/2 100%", "2.0.0": "2.0.0", "latest": "1.1.0+build"} {
		item, err := client.Version(t.Context(), "com.example/notes.v_1-a", asked)
		if err != nil || item.Record.Version() != want {
			t.Errorf("%s: %v %s", asked, err, item.Record)
		}
	}
	requests := origin.Requests()
	for _, want := range []string{
		"/v0.1/servers/com.example%2Fnotes.v_1-a/versions?include_deleted=true",
		"/v0.1/servers/com.example%2Fnotes.v_1-a/versions/latest",
		"/v0.1/servers/com.example%2Fnotes.v_1-a/versions/release%2F2%20100%25?include_deleted=true",
	} {
		if !slices.Contains(requests, want) {
			t.Errorf("%s was not asked for: %q", want, requests)
		}
	}
	origin.Forget()
	for _, name := range []string{"", "notes", "a/b/c", "../..", "a/..", "com.example/a?b"} {
		if _, err := onlyPage(client.Versions(t.Context(), name)); err == nil {
			t.Errorf("%q is a name", name)
		}
		if _, err := client.Version(t.Context(), name, "1.0.0"); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	for _, version := range []string{"", ".", "..", "^1.0.0", "1\x00"} {
		if _, err := client.Version(t.Context(), "a/b", version); err == nil {
			t.Errorf("%q is a version", version)
		}
	}
	if asked := origin.Requests(); len(asked) != 0 {
		t.Errorf("%q", asked)
	}
	if _, err := onlyPage(client.Versions(t.Context(), "a/b")); !errors.Is(err, upstream.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := client.Version(t.Context(), "com.example/notes.v_1-a", "3.0.0"); !errors.Is(err, upstream.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if asked := origin.Requests(); len(asked) != 2 {
		t.Errorf("what is not found is looked for elsewhere: %q", asked)
	}
}

func TestVersionOfSomethingElse(t *testing.T) {
	client := newClient(t, upstream.Config{Base: body(t, `{"server":{`+required+`}}`)})
	if _, err := client.Version(t.Context(), "com.example/a", "1.0.0"); err != nil {
		t.Error(err)
	}
	for _, asked := range [][2]string{{"com.example/b", "1.0.0"}, {"com.example/a", "1.0.1"}, {"com.example/b", "latest"}} {
		if item, err := client.Version(t.Context(), asked[0], asked[1]); !errors.Is(err, upstream.ErrAnswer) || !item.Record.IsZero() {
			t.Errorf("%q: %v", asked, err)
		}
	}
	client = newClient(t, upstream.Config{Base: body(t, `{"server":{}}`)})
	invalid := (*registry.InvalidError)(nil)
	if _, err := client.Version(t.Context(), "com.example/a", "1.0.0"); !errors.Is(err, upstream.ErrAnswer) || !errors.As(err, &invalid) {
		t.Errorf("%v", err)
	}
}
