package icon_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// Pictures that are crafted to cost as much as possible.

// jpegBits writes entropy-coded data of a JPEG, most significant bit first, with the zero
// that follows each FF.
type jpegBits struct {
	out  []byte
	last uint
	n    int
}

func (j *jpegBits) put(v uint, n int) {
	for n--; n >= 0; n-- {
		j.last = j.last<<1 | v>>n&1
		if j.n++; j.n < 8 {
			continue
		}
		j.out = append(j.out, byte(j.last))
		if byte(j.last) == 0xff {
			j.out = append(j.out, 0)
		}
		j.last, j.n = 0, 0
	}
}

func (j *jpegBits) end() []byte {
	for j.n != 0 {
		j.put(1, 1)
	}
	return j.out
}

// segment writes a marker, fill bytes before it, and what belongs to it.
func segment(b *bytes.Buffer, marker byte, data ...byte) {
	b.Write([]byte{0xff, marker, byte((len(data) + 2) >> 8), byte(len(data) + 2)})
	b.Write(data)
}

// jpegHead begins a JPEG of so many components, none of them subsampled, with codes for a
// step of zero (0) in the first table and for a run of 2^14 blocks (0), one (10) and the end
// of a block (110) in the second.
func jpegHead(frame byte, components, side int) *bytes.Buffer {
	b := bytes.NewBufferString("\xff\xd8")
	segment(b, 0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	if components == 4 {
		segment(b, 0xee, []byte("Adobe\x00\x64\x00\x00\x00\x00\x02")...)
	}
	head := []byte{8, byte(side >> 8), byte(side), byte(side >> 8), byte(side), byte(components)}
	for i := range components {
		head = append(head, byte(i+1), 0x11, 0)
	}
	segment(b, frame, head...)
	segment(b, 0xc4, append([]byte{0x00, 1}, make([]byte, 16)...)...)
	codes := append([]byte{0x10, 1, 1, 1}, make([]byte, 13)...)
	segment(b, 0xc4, append(codes, 0xe0, 0x01, 0x00)...)
	return b
}

// flat begins a scan of all components in which each block has the value of the one before.
func flat(b *bytes.Buffer, components, side int, spectrum ...byte) {
	head := []byte{byte(components)}
	for i := range components {
		head = append(head, byte(i+1), 0)
	}
	segment(b, 0xda, append(head, spectrum...)...)
}

// progressive is a JPEG of many scans: the first says what every block is, the others go
// through all blocks of one component and, in two bytes for 32767 of them, change nothing.
func progressive(components, side, scans int, filled bool) []byte {
	b := jpegHead(0xc2, components, side)
	blocks := (side / 8) * (side / 8)
	flat(b, components, side, 0, 0, 0)
	b.Write(make([]byte, (blocks*components+7)/8))
	for i := 1; i < scans; i++ {
		if filled {
			b.Write(bytes.Repeat([]byte{0xff}, 3))
		}
		precision := byte(0x10) // a refinement
		if i <= components {
			precision = 0
		}
		segment(b, 0xda, 1, byte(1+i%components), 0, 1, 63, precision)
		runs := &jpegBits{}
		for left := blocks; left > 0; left -= 32767 {
			runs.put(0, 1)
			runs.put(1<<14-1, 14)
		}
		b.Write(runs.end())
	}
	b.WriteString("\xff\xd9")
	return b.Bytes()
}

// refined is a progressive JPEG whose scans all go through all components.
func refined(components, side, scans int) []byte {
	b := jpegHead(0xc2, components, side)
	for i := range scans {
		flat(b, components, side, 0, 0, byte(min(i, 1)<<4))
		b.Write(make([]byte, (components*(side/8)*(side/8)+7)/8))
	}
	b.WriteString("\xff\xd9")
	return b.Bytes()
}

// repeated is a baseline JPEG that repeats its frame many times.
func repeated(side, scans int) []byte {
	b := jpegHead(0xc0, 1, side)
	for range scans {
		flat(b, 1, side, 0, 63, 0)
		blocks := &jpegBits{}
		for range (side / 8) * (side / 8) {
			blocks.put(0, 1)     // the same value,
			blocks.put(0b110, 3) // and nothing else
		}
		b.Write(blocks.end())
	}
	b.WriteString("\xff\xd9")
	return b.Bytes()
}

// rawPNG is a PNG with any data in it.
func rawPNG(width, height int, depth, colour, interlace byte, packed []byte) []byte {
	b := bytes.NewBufferString("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		_ = binary.Write(b, binary.BigEndian, uint32(len(data)))
		b.WriteString(kind)
		b.Write(data)
		_ = binary.Write(b, binary.BigEndian, crc32.ChecksumIEEE(append([]byte(kind), data...)))
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(width))
	head = binary.BigEndian.AppendUint32(head, uint32(height))
	chunk("IHDR", append(head, depth, colour, 0, 0, interlace))
	chunk("IDAT", packed)
	chunk("IEND", nil)
	return b.Bytes()
}

// paeth is a square of zeros with the most expensive prediction for each row.
func paeth(side, perPixel int) []byte {
	rows := make([]byte, (side*perPixel+1)*side)
	for i := 0; i < len(rows); i += side*perPixel + 1 {
		rows[i] = 4
	}
	var b bytes.Buffer
	w, _ := zlib.NewWriterLevel(&b, zlib.BestCompression)
	_, _ = w.Write(rows)
	_ = w.Close()
	return b.Bytes()
}

// lowBits writes bits as deflate and WebP do, least significant first.
type lowBits struct {
	out  []byte
	last uint64
	n    int
}

func (l *lowBits) put(v uint64, n int) {
	l.last |= v << l.n
	for l.n += n; l.n >= 8; l.n -= 8 {
		l.out = append(l.out, byte(l.last))
		l.last >>= 8
	}
}

// tables is deflate data of empty blocks, each with tables of codes of its own: 226 codes of
// eight bits and 60 of nine.
func tables(most int) []byte {
	l := &lowBits{out: []byte{0x78, 0x9c}}
	code := func(v uint64, n int) { l.put(uint64(bits.Reverse64(v)>>(64-n)), n) }
	for len(l.out) < most {
		l.put(0b100, 3) // not the last one, with tables
		l.put(29, 5)
		l.put(29, 5)
		l.put(14, 4)
		for _, symbol := range []int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1} {
			l.put(map[int]uint64{16: 2, 8: 2, 9: 2, 18: 2}[symbol], 3)
		}
		for symbol, n := range []int{226, 60} {
			code(uint64(symbol), 2)
			for n--; n > 0; n -= min(n, 6) { // 225 and 59 are no less than three more than sixes
				if n < 3 {
					code(uint64(symbol), 2)
					n -= 1 - min(n, 6)
					continue
				}
				code(2, 2)
				l.put(uint64(min(n, 6)-3), 2)
			}
		}
		code(3, 2)
		l.put(30-11, 7)
		code(482, 9) // the end of the block
	}
	return l.out
}

// riff is a WebP of chunks.
func riff(pairs ...string) []byte {
	b := bytes.NewBufferString("WEBP")
	for i := 0; i+1 < len(pairs); i += 2 {
		b.WriteString(pairs[i])
		_ = binary.Write(b, binary.LittleEndian, uint32(len(pairs[i+1])))
		b.WriteString(pairs[i+1])
		b.Write(make([]byte, len(pairs[i+1])%2))
	}
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(b.Len())), b.Bytes()...)
}

// blank is lossless data of WebP in which no pixel takes any bits.
func blank(side uint64) string {
	l := &lowBits{}
	l.put(0x2f, 8)
	l.put(side-1, 14)
	l.put(side-1, 14)
	l.put(0, 7) // version, no transform, no cache, one group
	for range 5 {
		l.put(0b101, 3)
		l.put(7, 8)
	}
	l.put(0, 8)
	return string(l.out)
}

// groups is lossless data of WebP with so many groups of five tables of codes, as large as
// they may be, and no pixels.
func groups(n, side int) string {
	l := &lowBits{}
	l.put(0x2f, 8)
	l.put(uint64(side-1), 14)
	l.put(uint64(side-1), 14)
	l.put(0, 5)  // version, no transform
	l.put(1, 1)  // a cache
	l.put(11, 4) // of 2048 colours
	l.put(1, 1)  // many groups
	l.put(0, 3)  // for squares of 4 pixels
	l.put(0, 1)
	for _, pair := range [][2]uint64{{0, uint64(n-1) & 255}, {0, uint64(n-1) >> 8}} {
		l.put(0b111, 3)
		l.put(pair[0], 8)
		l.put(pair[1], 8)
	}
	for range 3 {
		l.put(0b0101, 3)
		l.put(0, 8)
	}
	l.put(0, 2)
	for i := range (side/4)*(side/4) - 1 { // one square has the last group
		l.put([]uint64{3, 0}[min(i, 1)], 2)
	}
	for range n {
		table(l, 2328, 11, 1768)
		for range 3 {
			table(l, 256, 8, 256)
		}
		table(l, 40, 5, 24)
	}
	l.put(0, 7)
	return string(l.out)
}

// table writes the lengths of codes: so many of one length, and the others a bit longer.
func table(l *lowBits, symbols, length, first int) {
	lengths := map[int]uint64{16: 1, length: 1}
	if first < symbols {
		lengths = map[int]uint64{16: 1, length: 2, length + 1: 2}
	}
	l.put(0, 1)
	l.put(15, 4)
	for _, symbol := range []int{17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} {
		l.put(lengths[symbol], 3)
	}
	l.put(0, 1)
	for i, n := range []int{first, symbols - first} {
		name, width := uint64(0b01|i<<1), 2 // 10 and 11, written backwards
		again := uint64(0)
		if first == symbols {
			name, width, again = 0, 1, 1 // of two codes of one bit the lower length has 0
		}
		for once := true; n > 0; once = false {
			if once || n < 3 {
				l.put(name, width)
				n--
				continue
			}
			l.put(again, 1)
			l.put(uint64(min(n, 6)-3), 2)
			n -= min(n, 6)
		}
	}
}
