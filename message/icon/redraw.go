package icon

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"mime"
	"slices"
	"strings"

	"golang.org/x/image/webp"
)

// format is a supported type of pictures.
type format struct {
	types  []string // the media types for it, the registered one first
	magic  func([]byte) bool
	size   func([]byte) (image.Config, error)
	decode func([]byte) (image.Image, error)
	// costly returns why decoding would take long or much memory although bytes and pixels are
	// within bounds, or "".
	costly func([]byte, image.Config) string
}

func begins(with string) func([]byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(with)) }
}

// formats returns the formats that the protocol requires, and WebP.
func formats() []format {
	return []format{
		{
			types: []string{"image/png"}, magic: begins("\x89PNG\r\n\x1a\n"), costly: pngCost,
			size:   func(b []byte) (image.Config, error) { return png.DecodeConfig(bytes.NewReader(b)) },
			decode: func(b []byte) (image.Image, error) { return png.Decode(bytes.NewReader(b)) },
		},
		{
			types: []string{"image/jpeg", "image/jpg"}, magic: begins("\xff\xd8\xff"), costly: jpegCost,
			size:   func(b []byte) (image.Config, error) { return jpeg.DecodeConfig(bytes.NewReader(b)) },
			decode: func(b []byte) (image.Image, error) { return jpeg.Decode(bytes.NewReader(b)) },
		},
		{
			types: []string{"image/webp"}, costly: webpCost,
			magic:  func(b []byte) bool { return len(b) >= 16 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP" },
			size:   func(b []byte) (image.Config, error) { return webp.DecodeConfig(bytes.NewReader(b)) },
			decode: func(b []byte) (image.Image, error) { return webp.Decode(bytes.NewReader(b)) },
		},
	}
}

// Redraw returns a picture as a PNG of at most 128 pixels on a side. The picture must have every
// declared media type; an empty and a generic type are ignored. Redraw takes at most a few
// hundredths of a second of processor time for any picture. Its error wraps [ErrRefused].
func Redraw(data []byte, declared ...string) ([]byte, error) {
	f, err := recognise(data, declared)
	if err != nil {
		return nil, err
	}
	return f.redraw(data)
}

// recognise returns the format of a picture, or an error if it is not supported or not as
// declared.
func recognise(data []byte, declared []string) (format, error) {
	if len(data) > maxBytes {
		return format{}, fmt.Errorf("%w: more than %d bytes", ErrRefused, maxBytes)
	}
	all := formats()
	i := slices.IndexFunc(all, func(f format) bool { return f.magic(data) })
	if i < 0 {
		return format{}, fmt.Errorf("%w: neither PNG nor JPEG nor WebP", ErrRefused)
	}
	for _, d := range declared {
		if !all[i].is(d) {
			return format{}, fmt.Errorf("%w: declared as %.64q, and it is %s", ErrRefused, d, all[i].types[0])
		}
	}
	return all[i], nil
}

// redraw redraws a picture of the format. It returns an error if the decoder panics.
func (f format) redraw(data []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("%w: the decoder panicked: %v", ErrRefused, p)
		}
	}()
	size, err := f.size(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if size.Width < 1 || size.Height < 1 || size.Width > maxSide || size.Height > maxSide || size.Width*size.Height > maxPixels {
		return nil, fmt.Errorf("%w: %d by %d pixels", ErrRefused, size.Width, size.Height)
	}
	if why := f.costly(data, size); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrRefused, why)
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

// is reports whether a declared media type allows the format.
func (f format) is(declared string) bool {
	if strings.TrimSpace(declared) == "" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(declared)
	return err == nil && (mediaType == "application/octet-stream" || slices.Contains(f.types, mediaType))
}
