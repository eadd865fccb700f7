package serve_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkWalk reads a catalogue of 100 000 rows page by page, as programs do that copy it: no page
// was answered before.
func BenchmarkWalk(b *testing.B) {
	d := stage(b, 100_000)
	for _, shape := range []string{"", "&shape=wrapped"} {
		cursors := []string{""}
		for range 200 { // more bytes than are kept
			page := d.get("/v0.1/servers?limit=100" + cursors[len(cursors)-1] + shape).Body.Bytes()
			cursors = append(cursors, "&cursor="+*readList(b, page).Metadata.NextCursor)
		}
		b.Run("100"+shape, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w := &nowhere{header: http.Header{}}
				d.handler.ServeHTTP(w, httptest.NewRequest("GET", "/v0.1/servers?limit=100"+cursors[1+i%200]+shape, nil))
				if w.code != http.StatusOK {
					b.Fatal(w.code)
				}
			}
		})
	}
}
