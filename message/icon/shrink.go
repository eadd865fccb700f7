package icon

import (
	"image"

	"golang.org/x/image/draw"
)

// shownSide is the greatest width and height of a redrawn picture, in pixels.
const shownSide = 128

// shrunk returns a copy of a picture with at most shownSide pixels on a side. The final filter
// reads each pixel many times, so large pictures are first reduced by averaging.
func shrunk(picture image.Image) image.Image {
	from := picture.Bounds()
	own := image.NewRGBA(image.Rect(0, 0, from.Dx(), from.Dy()))
	draw.Draw(own, own.Rect, picture, from.Min, draw.Src)
	width, height := from.Dx(), from.Dy()
	longest := max(width, height)
	if longest > shownSide {
		width, height = max(width*shownSide/longest, 1), max(height*shownSide/longest, 1)
	}
	own = averaged(own, longest/(2*shownSide))
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.CatmullRom.Scale(out, out.Rect, own, own.Rect, draw.Src, nil)
	return out
}

// averaged returns a picture with one pixel for each square of side pixels, or for the part of a
// square at an edge.
func averaged(from *image.RGBA, side int) *image.RGBA {
	if side <= 1 {
		return from
	}
	size := from.Rect.Size()
	out := image.NewRGBA(image.Rect(0, 0, (size.X+side-1)/side, (size.Y+side-1)/side))
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			square := image.Rect(x*side, y*side, (x+1)*side, (y+1)*side).Intersect(from.Rect)
			copy(out.Pix[out.PixOffset(x, y):], average(from, square))
		}
	}
	return out
}

// average returns the averages of the four channels of a square, which are premultiplied by
// alpha.
func average(from *image.RGBA, square image.Rectangle) []byte {
	var sum [4]int
	for y := square.Min.Y; y < square.Max.Y; y++ {
		row := from.Pix[from.PixOffset(square.Min.X, y):from.PixOffset(square.Max.X, y)]
		for ; len(row) >= 4; row = row[4:] {
			sum[0] += int(row[0])
			sum[1] += int(row[1])
			sum[2] += int(row[2])
			sum[3] += int(row[3])
		}
	}
	n := square.Dx() * square.Dy()
	return []byte{byte((sum[0] + n/2) / n), byte((sum[1] + n/2) / n), byte((sum[2] + n/2) / n), byte((sum[3] + n/2) / n)}
}
