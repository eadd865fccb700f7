package icon_test

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse.example/message/icon"
)

// extreme are the most expensive pictures within the bounds, by their kind.
func extreme() map[string][]byte {
	return map[string][]byte{
		"JPEG, three components in ten scans": progressive(3, 1024, 10, false),
		"JPEG, eleven scans of all blocks":    refined(3, 1024, 11),
		"JPEG, sixteen scans in grey":         progressive(1, 1024, 16, false),
		"JPEG, baseline and said nine times":  repeated(1024, 9),
		"PNG, all channels, predicted":        rawPNG(1024, 1024, 8, 6, 0, paeth(1024, 4)),
		"PNG, deep, predicted":                rawPNG(724, 724, 16, 6, 0, paeth(724, 8)),
		"PNG, thousands of tables":            rawPNG(1024, 1024, 8, 6, 0, tables(255<<10)),
		"WebP, hundreds of tables":            riff("VP8L", groups(204, 64)),
		"WebP, pixels of no bits":             riff("VP8L", blank(886)),
	}
}

// TestWorkIsBounded: a picture of few bytes and pixels that makes a decoder process it many times
// or decompress much more than its pixels is refused before it is decoded.
func TestWorkIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"18000 scans":                            {progressive(1, 1024, 18000, false), "18000 scans"},
		"17 scans":                               {progressive(1, 64, 17, false), "17 scans"},
		"scans behind fill bytes":                {progressive(1, 64, 17, true), "17 scans"},
		"12 scans of the largest in colours":     {refined(3, 1024, 12), "12 scans of 49152 blocks"},
		"CMYK":                                   {refined(4, 512, 1), "four colours"},
		"a baseline picture said 10 times":       {repeated(1024, 10), "10 scans of 16384 blocks"},
		"one that says elsewhere what it is not": {bytes.Replace(repeated(1024, 10), []byte("\xff\xd8"), []byte("\xff\xd8\xff\xfe\x00\x06\xff\xc2\x00\x00\x00\xff\x00\xff\xff"), 1), "10 scans of 16384 blocks"},
		"a baseline picture said 17 times":       {repeated(64, 17), "17 scans"},
		"a deep PNG":                             {rawPNG(1024, 1024, 16, 6, 0, paeth(1024, 8)), "8388608 bytes unpacked"},
		"a deep PNG in seven passes":             {rawPNG(1024, 1024, 16, 2, 1, paeth(1024, 8)), "8388608 bytes unpacked"},
		"a lossless WebP of tables":              {riff("VP8L", groups(1000, 1024)), "lossless data"},
		"tables behind a canvas":                 {riff("VP8X", "\x00\x00\x00\x00\xff\x03\x00\xff\x03\x00", "VP8L", groups(1000, 1024)), "lossless data"},
		"tables in the transparency of a WebP":   {riff("VP8X", "\x10\x00\x00\x00\xff\x03\x00\xff\x03\x00", "ALPH", "\x01"+groups(1000, 1024), "VP8 ", "x"), "lossless data"},
		"tables behind a chunk of odd length":    {riff("ICCP", "odd", "VP8L", groups(1000, 1024)), "lossless data"},
		"pixels of no bits":                      {riff("VP8L", blank(1024)), "lossless data"},
		"a canvas that is smaller than a frame":  {riff("VP8X", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "VP8L", groups(100, 1024)), "icon: refused"},
	} {
		out, err := icon.Redraw(test.data)
		if !errors.Is(err, icon.ErrRefused) || out != nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s, %d bytes: %v, want it refused for %q", name, len(test.data), err, test.want)
		}
	}
}

// TestHonestPicturesAreShown: pictures of common encoders are within the bounds.
func TestHonestPicturesAreShown(t *testing.T) {
	for name, data := range map[string][]byte{
		"a progressive JPEG as cameras and sites have it": progressive(3, 1024, 10, false),
		"a progressive one in grey":                       progressive(1, 512, 6, false),
		"with fill bytes":                                 progressive(3, 64, 10, true),
		"a lossless WebP of a usual size":                 riff("VP8L", blank(512)),
		"a baseline JPEG":                                 jpegOf(t, 1024, 1024),
		"a deep PNG":                                      rawPNG(512, 512, 16, 6, 0, paeth(512, 8)),
		"the largest PNG":                                 pngOf(t, 1024, 1024),
	} {
		if _, err := icon.Redraw(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// used returns the processor time of the process.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkExtreme measures the greatest cost of each format, in processor time.
func BenchmarkExtreme(b *testing.B) {
	for name, data := range extreme() {
		b.Run(name, func(b *testing.B) {
			_, err := icon.Redraw(data)
			begin := used()
			for b.Loop() {
				_, _ = icon.Redraw(data)
			}
			b.ReportMetric(float64((used()-begin).Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(len(data)), "bytes")
			b.Log(err) // some are laborious and lead nowhere
		})
	}
}
