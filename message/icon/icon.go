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
//     declared type. So SVG is refused, however it is declared: it is a program with text,
//     styles, references and filters. No kept library for Go draws it within bounds, and a
//     sanitiser is safe only if it reads SVG exactly as every browser does;
//   - more than 256 KiB, 4096 pixels on a side or a million in all, before any pixel is
//     decoded, what takes a decoder much more time than its bytes and pixels suggest, and
//     pictures that move.
//
// What it returns is drawn anew, at most 128 pixels on a side, and encoded as PNG: nothing
// but pixels gets through, no metadata, no script behind the picture. One picture is drawn
// at a time in the whole process, in turns by the networks that cause it, and what became of
// its bytes is kept. An [Album] does all that while nobody waits for it.
//
//	fetch, err := safefetch.New(safefetch.Config{})
//	if err != nil {
//		return err
//	}
//	picture, err := icon.New(fetch).Get(ctx, message.Icon{Src: "https://client.example.com/logo.png"}, "https://client.example.com")
package icon

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"gatehouse.example/message"
	"gatehouse.example/safefetch"
)

// ErrRefused says that there is no picture that may be shown.
var ErrRefused = errors.New("icon: refused")

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
	if err := (message.Icon{Src: i.Src}).Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	scheme, body, _ := strings.Cut(i.Src, ":")
	if !strings.EqualFold(scheme, "data") {
		return f.GetURL(ctx, i.Src, origin, i.MIMEType)
	}
	declared, data, err := readData(body)
	if err != nil {
		return nil, err
	}
	return process.draw(ctx, data, declared, i.MIMEType)
}

// GetURL is [Fetcher.Get] for a picture of which nothing but its address is known, and
// perhaps how it is declared.
func (f *Fetcher) GetURL(ctx context.Context, url, origin string, declared ...string) ([]byte, error) {
	response, err := f.fetch.Get(ctx, safefetch.Request{URL: url, SameOrigin: origin, MaxBytes: maxBytes, Lane: "pictures"})
	if err != nil {
		return nil, fmt.Errorf("icon: %w", err)
	}
	return process.draw(ctx, response.Body, append(declared, response.Header.Get("Content-Type"))...)
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
