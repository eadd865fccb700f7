package fingerprint

// Maker is a maker with keys that a test knows.
type Maker struct{ *maker }

// NewMaker returns a maker with two keys.
func NewMaker(k1, k2 [16]byte) Maker { return Maker{newMaker(k1, k2)} }

// Of returns the fingerprint of a text.
func (m Maker) Of(text string) Print { return m.of(text) }

// Left returns what the last fingerprint left in the maker's memory.
func (m Maker) Left() []byte {
	s := m.scratch.Get().(*scratch)
	return append(append(s.text[:], s.tag[:]...), s.encrypted[:]...)
}

// Plain is the fingerprint on machines without instructions for AES.
func Plain(text string) Print { return plain(text) }

// AESFirst reports whether an offer of crypto/tls is that of a machine with these instructions.
func AESFirst(offered []uint16) bool { return aesFirst(offered) }
