package icon

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
)

const (
	maxBytes  = 256 << 10
	maxSide   = 4096
	maxPixels = 1 << 20
	// maxScans bounds how often a JPEG is gone through. Those of common encoders have ten
	// scans at most, and one for a small picture that is inside of the other.
	maxScans = 16
	// maxProgressive bounds the blocks of all scans of a progressive JPEG together: eleven
	// scans of the largest picture in three colours. Those of others are also drawn each
	// time, which takes three times as long.
	maxProgressive = 11 * 3 * maxPixels / 64
	maxSequential  = 3 * 3 * maxPixels / 64
	// maxUnpacked bounds a PNG in memory: the largest picture with eight bits per channel.
	maxUnpacked = 4 * maxPixels
	// maxLossless bounds what WebP packs without loss. A pixel that takes no bit at all
	// counts one, and a byte as much as sixteen: a hundred of them can have a decoder make
	// five tables of codes.
	maxLossless  = 3 * maxPixels / 4
	losslessByte = 16
)

// scanned bounds the scans of a JPEG. Each goes through all blocks of the picture and costs
// whoever draws it a dozen bytes. A scan begins with the bytes FF DA (ITU T.81 section
// B.2.3), wherever and however often a decoder goes on looking for them; more than begin
// here it cannot find.
func scanned(data []byte, size image.Config) string {
	scans := bytes.Count(data, []byte{0xff, 0xda})
	blocks := ((size.Width + 7) / 8) * ((size.Height + 7) / 8)
	switch size.ColorModel {
	case color.CMYKModel:
		return "four colours, which are for print and take longest"
	case color.GrayModel:
	default:
		blocks *= 3
	}
	most := maxSequential
	if frameOf(data) == progressiveFrame {
		most = maxProgressive
	}
	if scans > maxScans || scans*blocks > most {
		return fmt.Sprintf("%d scans of %d blocks", scans, blocks)
	}
	return ""
}

// progressiveFrame is the marker of a progressive JPEG (ITU T.81 table B.1).
const progressiveFrame = 0xc2

// frameOf returns the first marker of a frame, which says what kind of JPEG it is, or 0. What
// stands between segments is passed over, as decoders do.
func frameOf(data []byte) byte {
	for i := 2; i+3 < len(data); {
		marker := data[i+1]
		switch {
		case data[i] != 0xff || marker == 0xff: // a fill byte, or one that does not belong here
			i++
		case marker == 0, 0xd0 <= marker && marker <= 0xd7: // neither has a length
			i += 2
		case 0xc0 <= marker && marker <= 0xc2:
			return marker
		default:
			i += 2 + int(binary.BigEndian.Uint16(data[i+2:]))
		}
	}
	return 0
}

// deep bounds what a PNG has to be unpacked to.
func deep(_ []byte, size image.Config) string {
	perPixel := 4
	if size.ColorModel == color.NRGBA64Model || size.ColorModel == color.RGBA64Model {
		perPixel = 8
	}
	if unpacked := perPixel * size.Width * size.Height; unpacked > maxUnpacked {
		return fmt.Sprintf("%d bytes unpacked", unpacked)
	}
	return ""
}

// lossless bounds the chunks of a WebP that are packed without loss (RFC 9649 sections
// 2.6 and 2.7.1.2), of which a decoder may read each. Transparency counts twice, because
// there are colours to be decoded beside it.
func lossless(data []byte, size image.Config) string {
	const header = 8 // of a chunk: its name and its length
	work := 0
	for rest := data[12:]; len(rest) >= header; {
		name, length := string(rest[:4]), int(binary.LittleEndian.Uint32(rest[4:]))
		if name == "VP8L" || name == "ALPH" {
			work += size.Width*size.Height + losslessByte*length
		}
		if name == "ALPH" {
			work += size.Width * size.Height
		}
		rest = rest[min(header+length+length%2, len(rest)):]
	}
	if work > maxLossless {
		return fmt.Sprintf("too much that is packed without loss: %d, and %d is the most", work, maxLossless)
	}
	return ""
}
