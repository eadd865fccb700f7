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
	// maxScans bounds the scans of a JPEG. Those of common encoders have at most ten, and one
	// for an embedded thumbnail.
	maxScans = 16
	// maxProgressive bounds the blocks of all scans of a progressive JPEG: eleven scans of the
	// largest picture in three colours. In a sequential JPEG each scan is also drawn, which
	// takes three times as long.
	maxProgressive = 11 * 3 * maxPixels / 64
	maxSequential  = 3 * 3 * maxPixels / 64
	// maxUnpacked bounds a PNG in memory: the largest picture with eight bits per channel.
	maxUnpacked = 4 * maxPixels
	// maxLossless bounds the lossless data of a WebP. A pixel counts 1, even if it takes no
	// bits, and a byte counts losslessByte: a hundred bytes can make a decoder build five
	// tables of codes.
	maxLossless  = 3 * maxPixels / 4
	losslessByte = 16
)

// jpegCost returns why the scans of a JPEG cost too much, or "". Each scan of a dozen bytes can
// make a decoder process all blocks of the picture. A scan begins with the bytes FF DA (ITU T.81
// section B.2.3), so a decoder cannot find more scans than there are such bytes in the data.
func jpegCost(data []byte, size image.Config) string {
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

// frameOf returns the first marker of a frame, which determines the kind of the JPEG, or 0. It
// skips bytes between segments, as decoders do.
func frameOf(data []byte) byte {
	for i := 2; i+3 < len(data); {
		marker := data[i+1]
		switch {
		case data[i] != 0xff || marker == 0xff: // a fill byte, or one outside of every segment
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

// pngCost returns why a PNG takes too much memory when it is decompressed, or "".
func pngCost(_ []byte, size image.Config) string {
	perPixel := 4
	if size.ColorModel == color.NRGBA64Model || size.ColorModel == color.RGBA64Model {
		perPixel = 8
	}
	if unpacked := perPixel * size.Width * size.Height; unpacked > maxUnpacked {
		return fmt.Sprintf("%d bytes unpacked", unpacked)
	}
	return ""
}

// webpCost returns why the lossless chunks of a WebP (RFC 9649 sections 2.6 and 2.7.1.2) cost
// too much, or "". It counts all of them, because a decoder may read each. Transparency counts
// twice, because colours must be decoded besides.
func webpCost(data []byte, size image.Config) string {
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
		return fmt.Sprintf("lossless data that costs %d, and at most %d is allowed", work, maxLossless)
	}
	return ""
}
