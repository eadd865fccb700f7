package serve

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// minCompressed is the minimum size of an answer to compress, in bytes. A shorter one fits into
// one packet uncompressed.
const minCompressed = 1 << 10

// compressors is a pool, because each compressor takes about a megabyte. They use the fastest
// level, because clients are not authenticated.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // cannot fail: the level exists
	return w
}}

// compressed returns a body as gzip (RFC 1952), or nil if the body is short or would not become
// smaller.
func compressed(body []byte) []byte {
	if len(body) < minCompressed {
		return nil
	}
	packed := bytes.NewBuffer(make([]byte, 0, len(body)/4))
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(packed)
	_, _ = w.Write(body) // cannot fail for a bytes.Buffer
	if w.Close() != nil || packed.Len() >= len(body) {
		return nil
	}
	return packed.Bytes()
}

// wantsGzip reports whether Accept-Encoding prefers gzip to no coding, or accepts both equally
// (RFC 9110 section 12.5.3).
func wantsGzip(header http.Header) bool {
	weights := map[string]float64{}
	for _, field := range header.Values("Accept-Encoding") {
		for element := range strings.SplitSeq(field, ",") {
			coding, parameters, _ := strings.Cut(element, ";")
			coding = strings.ToLower(strings.Trim(coding, " \t"))
			if coding == "x-gzip" { // RFC 9110 section 8.4.1.3: equivalent to gzip
				coding = "gzip"
			}
			weights[coding] = quality(parameters)
		}
	}
	gzip, named := weights["gzip"]
	if !named {
		gzip = weights["*"]
	}
	return gzip > 0 && gzip >= weights["identity"]
}

// quality parses a weight (RFC 9110 section 12.4.2). It returns 1 if there is none, and 0 if it
// is invalid.
func quality(parameters string) float64 {
	parameters = strings.Trim(parameters, " \t")
	if parameters == "" {
		return 1
	}
	name, value, _ := strings.Cut(parameters, "=")
	q, err := strconv.ParseFloat(value, 64)
	if err != nil || !strings.EqualFold(strings.Trim(name, " \t"), "q") || q < 0 || q > 1 || len(value) > len("0.000") {
		return 0
	}
	return q
}
