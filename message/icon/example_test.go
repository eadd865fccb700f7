package icon_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/png"

	"gatehouse.example/message"
	"gatehouse.example/message/icon"
	"gatehouse.example/safefetch"
)

// The icon of a server is returned as a small redrawn PNG, or refused.
func ExampleFetcher_Get() {
	fetcher, err := safefetch.New(safefetch.Config{})
	if err != nil {
		panic(err)
	}
	var large bytes.Buffer
	if err := png.Encode(&large, image.NewGray(image.Rect(0, 0, 300, 150))); err != nil {
		panic(err)
	}
	icons, ctx := icon.New(fetcher), context.Background()
	picture, err := icons.Get(ctx, message.Icon{Src: "data:image/png;base64," + base64.StdEncoding.EncodeToString(large.Bytes())}, "https://notes.example.com")
	if err != nil {
		panic(err)
	}
	size, format, err := image.DecodeConfig(bytes.NewReader(picture))
	fmt.Println(format, size.Width, size.Height, err)

	_, err = icons.Get(ctx, message.Icon{Src: "data:image/svg+xml;base64,PHN2Zy8+"}, "https://notes.example.com")
	fmt.Println(errors.Is(err, icon.ErrRefused))
	// Output:
	// png 128 64 <nil>
	// true
}
