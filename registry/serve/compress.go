package serve

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// minCompressed is how many bytes an answer has at least that is compressed: a shorter one
// fits into one packet anyway.
const minCompressed = 1 << 10

// compressors are kept, because each has about a megabyte. They are of the fastest level:
// anybody may ask for anything.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level exists
	return w
}}

// compressed returns a body as gzip (RFC 1952), or nil if that is not worth it.
func compressed(body []byte) []byte {
	if len(body) < minCompressed {
		return nil
	}
	packed := bytes.NewBuffer(make([]byte, 0, len(body)/4))
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(packed)
	_, _ = w.Write(body) // a buffer takes everything
	if w.Close() != nil || packed.Len() >= len(body) {
		return nil
	}
	return packed.Bytes()
}

// wantsGzip reports whether a reader takes gzip at least as gladly as no coding (RFC 9110
// section 12.5.3).
func wantsGzip(header http.Header) bool {
	weights := map[string]float64{}
	for _, field := range header.Values("Accept-Encoding") {
		for element := range strings.SplitSeq(field, ",") {
			coding, parameters, _ := strings.Cut(element, ";")
			coding = strings.ToLower(strings.Trim(coding, " \t"))
			if coding == "x-gzip" { // RFC 9110 section 8.4.1.3: the same
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

// quality reads a weight (RFC 9110 section 12.4.2): 1 if there is none, 0 if it is not one.
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
