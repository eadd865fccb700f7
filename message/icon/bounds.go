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
	// scans at most.
	maxScans = 16
	// maxBlocks bounds the blocks of all scans of a JPEG together: twelve scans of the
	// largest picture in three colours.
	maxBlocks = 12 * 3 * maxPixels / 64
	// maxUnpacked bounds a PNG in memory: the largest picture with eight bits per channel.
	maxUnpacked = 4 * maxPixels
	// maxLossless bounds what WebP packs without loss, in bytes. Each hundred of them can
	// have a decoder make five tables of codes.
	maxLossless = 64 << 10
)

// scanned bounds the scans of a JPEG. Each goes through all blocks of the picture and costs
// whoever draws it a dozen bytes. A scan begins with the bytes FF DA (ITU T.81 section
// B.2.3), wherever and however often a decoder goes on looking for them; more than begin
// here it cannot find.
func scanned(data []byte, size image.Config) string {
	scans := bytes.Count(data, []byte{0xff, 0xda})
	blocks := channels(size.ColorModel) * ((size.Width + 7) / 8) * ((size.Height + 7) / 8)
	if scans > maxScans || scans*blocks > maxBlocks {
		return fmt.Sprintf("%d scans of %d blocks", scans, blocks)
	}
	return ""
}

func channels(model color.Model) int {
	switch model {
	case color.GrayModel:
		return 1
	case color.CMYKModel:
		return 4
	}
	return 3
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
// 2.6 and 2.7.1.2), of which a decoder may read each.
func lossless(data []byte, _ image.Config) string {
	const header = 8 // of a chunk: its name and its length
	for rest := data[12:]; len(rest) >= header; {
		name, length := string(rest[:4]), int(binary.LittleEndian.Uint32(rest[4:]))
		if (name == "VP8L" || name == "ALPH") && length > maxLossless {
			return fmt.Sprintf("%d bytes packed without loss", length)
		}
		rest = rest[min(header+length+length%2, len(rest)):]
	}
	return ""
}
