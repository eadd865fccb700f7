package secondfactor

import (
	"fmt"
	"image/color"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// Picture is a QR code as the outline of an SVG drawing: black squares of length 1.
type Picture struct {
	// Size is the width and height, with the margin of four squares that readers need.
	Size int
	// Path is the value of the attribute d of one path element. It has digits, letters, spaces
	// and signs only.
	Path string
}

const margin = 4 // ISO/IEC 18004 section 5.3.8: the quiet zone

// Draw returns the QR code of a text. The error says that the text is too long.
func Draw(text string) (Picture, error) {
	code, err := qr.Encode(text, qr.M, qr.Unicode)
	if err != nil {
		return Picture{}, fmt.Errorf("secondfactor: picture: %w", err)
	}
	var path strings.Builder
	bounds := code.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			if code.At(x, y) == color.Black {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x-bounds.Min.X+margin, y-bounds.Min.Y+margin)
			}
		}
	}
	return Picture{Size: bounds.Dx() + 2*margin, Path: path.String()}, nil
}
