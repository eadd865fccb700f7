package serve_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse.example/registry/serve"
	"gatehouse.example/storage/catalogue"
)

// stage returns a catalogue of many rows with records of typical size.
func stage(b *testing.B, rows int) *desk {
	b.Helper()
	text, d := readFile(b, "../testdata/records/remote.json"), newDesk(b, serve.Config{})
	var page []catalogue.Entry
	for i := range rows {
		name := fmt.Sprintf("com.example/notes-%06d", i)
		page = append(page, rowOf(name, "1.4.0-rc.1+build.7", recordIs(strings.Replace(text, "com.example/notes", name, 1))))
		if len(page) == catalogue.MaxCommit || i == rows-1 {
			d.commit(page...)
			page = page[:0]
		}
	}
	return d
}

// nowhere is a ResponseWriter that discards the answer.
type nowhere struct {
	header http.Header
	code   int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(code int)        { n.code = code }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkPage serves one page in the middle of catalogues of different sizes.
func BenchmarkPage(b *testing.B) {
	for _, rows := range []int{1_000, 10_000, 100_000} {
		d := stage(b, rows)
		middle := d.get("/v0.1/servers?limit=100").Body.Bytes()
		cursor := *readList(b, middle).Metadata.NextCursor
		tag := d.get("/v0.1/servers?limit=100").Header().Get("ETag")
		for name, request := range map[string]*http.Request{
			"100":         httptest.NewRequest("GET", "/v0.1/servers?limit=100&cursor="+cursor, nil),
			"100 wrapped": httptest.NewRequest("GET", "/v0.1/servers?limit=100&shape=wrapped", nil),
			"100 latest":  httptest.NewRequest("GET", "/v0.1/servers?limit=100&version=latest", nil),
			"100 since":   httptest.NewRequest("GET", "/v0.1/servers?limit=100&updated_since=2025-01-01T00:00:00Z", nil),
			"detail":      httptest.NewRequest("GET", "/v0.1/servers/com.example%2Fnotes-000500/versions/latest", nil),
			"search":      httptest.NewRequest("GET", "/v0.1/servers?limit=100&search=nowhere", nil),
			"unchanged":   httptest.NewRequest("GET", "/v0.1/servers?limit=100", nil),
		} {
			if name == "unchanged" {
				request.Header.Set("If-None-Match", tag)
			}
			b.Run(fmt.Sprintf("%s of %d", name, rows), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w := &nowhere{header: http.Header{}}
					if d.handler.ServeHTTP(w, request); w.code != 200 && w.code != 304 {
						b.Fatal(w.code)
					}
				}
			})
		}
	}
}
