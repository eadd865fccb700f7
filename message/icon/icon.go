// Package icon fetches pictures that strangers point at, and makes of each a picture of
// ours: icons of the context protocol, logos of clients.
//
// Metadata and bytes are untrusted (the protocol's security rules for consumers of icon
// metadata). A [Fetcher] refuses
//
//   - every address but https and data:, and every one that does not share its origin with
//     the server that names it; redirects, credentials and addresses that are not public
//     are none of what package safefetch does;
//   - every type that is not PNG, JPEG or WebP by its first bytes, and one that is not the
//     declared type. SVG, which can hold script, is refused;
//   - more than 256 KiB, 4096 pixels on a side or a million in all, before any pixel is
//     decoded, and pictures that move.
//
// What it returns is drawn anew, at most 128 pixels on a side, and encoded as PNG: nothing
// but pixels gets through, no metadata, no script behind the picture.
//
//	fetcher := icon.New(icon.Config{Fetch: fetch})
//	picture, err := fetcher.Get(ctx, message.Icon{Src: "https://client.example.com/logo.png"}, "https://client.example.com")
package icon

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"mime"
	"strings"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"

	"gatehouse.example/internal/safefetch"
	"gatehouse.example/message"
)

// ErrRefused says that there is no picture that may be shown.
var ErrRefused = errors.New("icon: refused")

const (
	maxBytes  = 256 << 10
	maxSide   = 4096
	maxPixels = 1 << 20
	// shownSide is the greatest width and height of what comes out.
	shownSide = 128
)

// Getter is what fetches: a [safefetch.Fetcher].
type Getter interface {
	Get(context.Context, safefetch.Request) (*safefetch.Response, error)
}

// Fetcher fetches pictures. It is safe for concurrent use.
type Fetcher struct{ fetch Getter }

// New returns a Fetcher that fetches with fetch.
func New(fetch Getter) *Fetcher { return &Fetcher{fetch: fetch} }

// Get returns the picture of an icon as PNG. The icon is named by a server at origin,
// which is any of its URLs; the picture must be there too. Errors are [ErrRefused] or, when
// another try may help, those of the fetch.
func (f *Fetcher) Get(ctx context.Context, i message.Icon, origin string) ([]byte, error) {
	body, ok := strings.CutPrefix(i.Src, "data:")
	if !ok {
		return f.GetURL(ctx, i.Src, origin, i.MIMEType)
	}
	declared, data, err := readData(body)
	if err != nil {
		return nil, err
	}
	return Redraw(data, declared, i.MIMEType)
}

// GetURL is [Fetcher.Get] for a picture of which nothing but its address is known, and
// perhaps how it is declared.
func (f *Fetcher) GetURL(ctx context.Context, url, origin string, declared ...string) ([]byte, error) {
	response, err := f.fetch.Get(ctx, safefetch.Request{URL: url, SameOrigin: origin, MaxBytes: maxBytes})
	if err != nil {
		return nil, fmt.Errorf("icon: %w", err)
	}
	return Redraw(response.Body, append(declared, response.Header.Get("Content-Type"))...)
}

// readData reads what follows "data:" (RFC 2397), which must be base64.
func readData(body string) (declared string, data []byte, err error) {
	head, text, ok := strings.Cut(body, ",")
	declared, coded := strings.CutSuffix(head, ";base64")
	if !ok || !coded || len(text) > base64.StdEncoding.EncodedLen(maxBytes) {
		return "", nil, fmt.Errorf("%w: not base64, or too long", ErrRefused)
	}
	data, err = base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", nil, fmt.Errorf("%w: not base64", ErrRefused)
	}
	return declared, data, nil
}

// format is a type of picture that is shown.
type format struct {
	types  []string // how it may be declared, the right one first
	magic  func([]byte) bool
	size   func([]byte) (image.Config, error)
	decode func([]byte) (image.Image, error)
}

func begins(with string) func([]byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(with)) }
}

// formats are those that must be supported, and WebP.
func formats() []format {
	return []format{
		{
			types: []string{"image/png"}, magic: begins("\x89PNG\r\n\x1a\n"),
			size:   func(b []byte) (image.Config, error) { return png.DecodeConfig(bytes.NewReader(b)) },
			decode: func(b []byte) (image.Image, error) { return png.Decode(bytes.NewReader(b)) },
		},
		{
			types: []string{"image/jpeg", "image/jpg"}, magic: begins("\xff\xd8\xff"),
			size:   func(b []byte) (image.Config, error) { return jpeg.DecodeConfig(bytes.NewReader(b)) },
			decode: func(b []byte) (image.Image, error) { return jpeg.Decode(bytes.NewReader(b)) },
		},
		{
			types:  []string{"image/webp"},
			magic:  func(b []byte) bool { return len(b) >= 16 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP" },
			size:   func(b []byte) (image.Config, error) { return webp.DecodeConfig(bytes.NewReader(b)) },
			decode: func(b []byte) (image.Image, error) { return webp.Decode(bytes.NewReader(b)) },
		},
	}
}

// Redraw returns a picture as PNG of at most 128 pixels on a side. It must be of every
// type that is declared; an empty and a generic declaration say nothing.
func Redraw(data []byte, declared ...string) ([]byte, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrRefused, maxBytes)
	}
	for _, f := range formats() {
		if f.magic(data) {
			return f.redraw(data, declared)
		}
	}
	return nil, fmt.Errorf("%w: neither PNG nor JPEG nor WebP", ErrRefused)
}

// redraw also survives a decoder that does not survive what it is given.
func (f format) redraw(data []byte, declared []string) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("%w: the decoder gave up: %v", ErrRefused, p)
		}
	}()
	for _, d := range declared {
		if !f.is(d) {
			return nil, fmt.Errorf("%w: declared as %.64q, and it is %s", ErrRefused, d, f.types[0])
		}
	}
	size, err := f.size(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	case size.Width < 1 || size.Height < 1 || size.Width > maxSide || size.Height > maxSide || size.Width*size.Height > maxPixels:
		return nil, fmt.Errorf("%w: %d by %d pixels", ErrRefused, size.Width, size.Height)
	}
	picture, err := f.decode(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, shrunk(picture)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return drawn.Bytes(), nil
}

// is reports whether a declaration allows the format.
func (f format) is(declared string) bool {
	if strings.TrimSpace(declared) == "" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(declared)
	if err != nil {
		return false
	}
	for _, t := range append(f.types, "application/octet-stream") {
		if mediaType == t {
			return true
		}
	}
	return false
}

// shrunk draws a picture into one of ours that is no larger than is shown.
func shrunk(picture image.Image) image.Image {
	from := picture.Bounds()
	width, height := from.Dx(), from.Dy()
	if longest := max(width, height); longest > shownSide {
		width, height = max(width*shownSide/longest, 1), max(height*shownSide/longest, 1)
	}
	out := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.CatmullRom.Scale(out, out.Bounds(), picture, from, draw.Src, nil)
	return out
}
