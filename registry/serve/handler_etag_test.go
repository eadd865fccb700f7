package serve_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.example/registry"
	"gatehouse.example/registry/serve"
	"gatehouse.example/storage/catalogue"
)

// TestTags: an answer has a tag, which stays while nothing changes. A request with that tag gets
// 304, and only the state is read for it.
func TestTags(t *testing.T) {
	d := newDesk(t, serve.Config{CacheAge: time.Minute}, small()...)
	tags := map[string]string{}
	const notes = "/v0.1/servers/com.example%2Fnotes/versions"
	for _, path := range []string{
		"/v0.1/servers", "/v0.1/servers?limit=2", "/v0.1/servers?limit=3", "/v0.1/servers?search=files", "/v0.1/servers?search=nowhere", "/v0.1/servers?version=latest", "/v0.1/servers?version=2.0.0",
		"/v0.1/servers?include_deleted=true", "/v0.1/servers?updated_since=2025-10-01T00:00:00Z", "/v0.1/servers?updated_since=2025-10-02T00:00:00Z", "/v0.1/servers?shape=wrapped",
		"/v0.1/servers?limit=2&cursor=" + *d.list("/v0.1/servers?limit=2").Metadata.NextCursor,
		notes, notes + "?include_deleted=true", notes + "?shape=record", notes + "/1.2.0", notes + "/1.2.0?include_deleted=true", notes + "/1.2.0?shape=wrapped", notes + "/1.10.0", notes + "/latest",
		"/v0.1/servers/com.example%2FFiles/versions",
	} {
		first := d.get(path)
		tag := first.Header().Get("ETag")
		if len(tag) != 24 || tag[0] != '"' || first.Header().Get("Cache-Control") != "max-age=60" || first.Code != 200 {
			t.Errorf("%s: %d, ETag %s, Cache-Control %q", path, first.Code, tag, first.Header().Get("Cache-Control"))
		}
		if other, ok := tags[tag]; ok {
			t.Errorf("%s and %s have one tag", path, other)
		}
		tags[tag] = path
		if again := d.get(path, "If-None-Match: \"x\""); again.Header().Get("ETag") != tag || again.Body.String() != first.Body.String() {
			t.Errorf("%s: another answer the second time", path)
		}
		for _, condition := range []string{tag, "W/" + tag, `"x", ` + tag, `"x",W/` + tag + ` , "y"`, "*"} {
			for _, method := range []string{"GET", "HEAD"} {
				before := d.roundTrips.Load()
				w := ask(d.handler, method, path, "If-None-Match: "+condition)
				if w.Code != 304 || w.Body.Len() > 0 || w.Header().Get("ETag") != tag || w.Header().Get("Cache-Control") != "max-age=60" ||
					w.Header().Get("Access-Control-Allow-Origin") != "*" || w.Header().Get("Content-Type") != "" {
					t.Errorf("%s %s with %s: %d %v", method, path, condition, w.Code, w.Header())
				}
				if n := d.roundTrips.Load() - before; n != 1 && condition != "*" {
					t.Errorf("%s with %s: %d round trips to say that nothing changed", path, condition, n)
				}
			}
		}
		for _, condition := range []string{`"x"`, strings.Trim(tag, `"`), tag[:10] + `"`, strings.ToUpper(tag), "W/", ""} {
			if w := d.get(path, "If-None-Match: "+condition); w.Code != 200 {
				t.Errorf("%s with %s: %d", path, condition, w.Code)
			}
		}
	}
	before := d.get("/v0.1/servers").Header().Get("ETag")
	d.commit(small()...) // the same rows, so no change
	if w := d.get("/v0.1/servers", "If-None-Match: "+before); w.Code != 304 {
		t.Errorf("nothing changed: %d", w.Code)
	}
	d.commit(rowOf("com.example/new", "1.0.0"))
	for tag, path := range tags {
		if w := d.get(path, "If-None-Match: "+tag); w.Code != 200 || w.Header().Get("ETag") == tag {
			t.Errorf("%s: %d after a commit", path, w.Code)
		}
	}
}

// TestTagsOfErrors: an error has no tag, and If-None-Match has no effect on it.
func TestTagsOfErrors(t *testing.T) {
	d := newDesk(t, serve.Config{CacheAge: time.Minute}, small()...)
	tag := d.get("/v0.1/servers").Header().Get("ETag")
	for path, want := range map[string]int{
		"/v0.1/servers?limit=0": 422, "/v0.1/servers?cursor=x": 400, "/v0.1/servers/com.example%2Fnobody/versions": 404, "/v0.1/servers/com.example%2Fgone/versions/latest": 404,
	} {
		for _, condition := range []string{"*", tag} {
			w := d.get(path, "If-None-Match: "+condition)
			if w.Code != want || w.Header().Get("ETag") != "" {
				t.Errorf("%s with %s: %d, want %d", path, condition, w.Code, want)
			}
		}
	}
}

// TestTagsFollowWhatWeSay: a tag changes with the revision of Enrich.
func TestTagsFollowWhatWeSay(t *testing.T) {
	var revision atomic.Value
	revision.Store("1")
	says := func() (json.RawMessage, error) { return json.RawMessage(`"` + revision.Load().(string) + `"`), nil }
	d := newDesk(t, serve.Config{
		MetaKey: ourKey, Revision: func() string { return revision.Load().(string) }, Enrich: func(registry.Item) (json.RawMessage, error) { return says() },
	}, small()...)
	silent := d.serve(serve.Config{Revision: func() string { return "1" }})
	other := d.serve(serve.Config{MetaKey: "org.example/other", Revision: func() string { return "1" }})
	for _, path := range []string{"/v0.1/servers", "/v0.1/servers/com.example%2Fnotes/versions", "/v0.1/servers/com.example%2Fnotes/versions/latest"} {
		revision.Store("1")
		first := d.get(path)
		tag := first.Header().Get("ETag")
		if w := d.get(path, "If-None-Match: "+tag); w.Code != 304 || first.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d, Cache-Control %q", path, w.Code, first.Header().Get("Cache-Control"))
		}
		revision.Store("2")
		if w := d.get(path, "If-None-Match: "+tag); w.Code != 200 || w.Body.String() == first.Body.String() {
			t.Errorf("%s: %d with another revision", path, w.Code)
		}
		for _, handler := range []*serve.Handler{silent, other} {
			if w := ask(handler, "GET", path, "If-None-Match: "+tag); w.Code != 200 || w.Header().Get("ETag") == tag {
				t.Errorf("%s: %d from a handler that says nothing", path, w.Code)
			}
		}
	}
	// If the revision changes during each read, the answer is sent without a tag.
	says = func() (json.RawMessage, error) {
		revision.Store(time.Now().String())
		return json.RawMessage(`1`), nil
	}
	revision.Store("3")
	if w := d.get("/v0.1/servers"); w.Code != 200 || w.Header().Get("ETag") != "" || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("%d, ETag %q, Cache-Control %q", w.Code, w.Header().Get("ETag"), w.Header().Get("Cache-Control"))
	}
}

// TestTagsWhileOthersWrite: a tag never names an answer of an earlier commit.
func TestTagsWhileOthersWrite(t *testing.T) {
	d := newDesk(t, serve.Config{}, rowOf("com.example/a", "1.0.0"))
	done, turns := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			row := rowOf("com.example/a", "1.0.0", func(e *catalogue.Entry) { e.StatusMessage = strings.Repeat("x", i) })
			if err := d.writer.Commit(t.Context(), []catalogue.Entry{row}, nil); err != nil {
				t.Error(err)
				return
			}
			<-turns // limits the writer to the speed of the readers
		}
	}()
	bodies := map[string]string{}
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case turns <- struct{}{}:
		default:
		}
		for _, path := range []string{"/v0.1/servers", "/v0.1/servers/com.example%2Fa/versions", "/v0.1/servers/com.example%2Fa/versions/latest"} {
			w := d.get(path)
			tag := w.Header().Get("ETag")
			if body, ok := bodies[tag]; ok && body != w.Body.String() && tag != "" || w.Code != 200 {
				t.Errorf("%s: %d, one tag names\n%s and\n%s", path, w.Code, body, w.Body)
			}
			bodies[tag] = w.Body.String()
		}
	}
}
