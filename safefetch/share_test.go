package safefetch_test

import (
	"testing"

	"gatehouse.example/safefetch"
)

// TestRequestsThatShare: only those for the very same answer share a fetch, so that nobody gets one that
// is longer than it may be, of another kind, or 304 for a validator of somebody else.
func TestRequestsThatShare(t *testing.T) {
	f := fetcher(t, safefetch.Config{MaxBytes: 1000}) // less than a request has by default
	same := safefetch.Request{URL: "https://client.example.com/a", Accept: []string{"image/png"}, IfNoneMatch: `"1"`, IfModifiedSince: "then"}
	for what, change := range map[string]func(*safefetch.Request){
		"":           func(*safefetch.Request) {},
		"lane":       func(r *safefetch.Request) { r.Lane, r.SameOrigin = "known", "https://client.example.com/b" },
		"the bound":  func(r *safefetch.Request) { r.MaxBytes = 1000 },
		"address":    func(r *safefetch.Request) { r.URL += "b" },
		"media type": func(r *safefetch.Request) { r.Accept = []string{"image/webp"} },
		"tag":        func(r *safefetch.Request) { r.IfNoneMatch = `"2"` },
		"time":       func(r *safefetch.Request) { r.IfModifiedSince = "" },
		"bytes":      func(r *safefetch.Request) { r.MaxBytes = 999 },
	} {
		other := same
		change(&other)
		want := what == "" || what == "lane" || what == "the bound"
		if got, err := f.Share(same, other); got != want || err != nil {
			t.Errorf("another %s: %t, %v", what, got, err)
		}
	}
}
