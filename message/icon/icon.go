// Package icon fetches untrusted pictures and redraws them: icons of the context protocol, and
// logos of clients.
//
// Metadata and bytes are untrusted (the protocol's security rules for consumers of icon
// metadata). A [Fetcher] refuses
//
//   - every address but https and data:, and every address without the origin of the server
//     that names it; package safefetch refuses redirects, credentials and addresses that are
//     not public;
//   - every type but PNG, JPEG and WebP by its first bytes, and a picture of another type than
//     the declared one. SVG is always refused: it is a program with text, styles, references
//     and filters. No maintained library for Go draws it within bounds, and a sanitiser is
//     safe only if it parses SVG exactly as every browser does;
//   - more than 256 KiB, 4096 pixels on a side or a million in all, before any pixel is
//     decoded, pictures that take a decoder much more time than their bytes and pixels
//     suggest, and animations.
//
// The result is drawn anew, with at most 128 pixels on a side, and encoded as PNG: it has the
// pixels of the picture, but neither metadata nor scripts. The process draws one picture at a
// time; the networks of the requesters take turns, and results are cached. An [Album] fetches
// and draws in the background.
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

// ErrRefused reports that a picture may not be shown.
var ErrRefused = errors.New("icon: refused")

// Getter fetches a document, as a [safefetch.Fetcher] does.
type Getter interface {
	Get(context.Context, safefetch.Request) (*safefetch.Response, error)
}

// Fetcher fetches pictures. It is safe for concurrent use.
type Fetcher struct{ fetch Getter }

// New returns a Fetcher that fetches with fetch.
func New(fetch Getter) *Fetcher { return &Fetcher{fetch: fetch} }

// Get returns the picture of an icon as PNG. origin is any URL of the server that names the
// icon; the picture must have the same origin. The error wraps [ErrRefused] or, if another
// attempt may succeed, that of the fetch.
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

// GetURL is [Fetcher.Get] for the address of a picture. declared are the media types that it is
// declared as, if any.
func (f *Fetcher) GetURL(ctx context.Context, url, origin string, declared ...string) ([]byte, error) {
	response, err := f.fetch.Get(ctx, safefetch.Request{URL: url, SameOrigin: origin, MaxBytes: maxBytes, Lane: "pictures"})
	if err != nil {
		return nil, fmt.Errorf("icon: %w", err)
	}
	return process.draw(ctx, response.Body, append(declared, response.Header.Get("Content-Type"))...)
}

// readData parses the part of a data: URL after "data:" (RFC 2397), which must be in base64.
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
