package storage

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
)

// spentLen is the length of what stands in [Grant.Code] for a spent code and its challenge. Both have
// been checked then, and are only to be recognised: 128 bits are enough for that.
const spentLen = 16

// spend has Code stand for the code and the challenge: as much of the SHA-256 of both. Anything else than a
// hash and a challenge of the usual lengths is left as it is.
func (g *Grant) spend() {
	var challenge [sha256.Size]byte
	if len(g.Code) == sha256.Size && len(g.Challenge) == challengeLen && decodes(challenge[:], g.Challenge) {
		g.Code, g.Challenge = spentCode([sha256.Size]byte(g.Code), challenge), ""
	}
}

func spentCode(code [sha256.Size]byte, challenge [sha256.Size]byte) SecretHash {
	const purpose = "gatehouse spent code\x00"
	sum := sha256.Sum256(append(append(append(make([]byte, 0, len(purpose)+2*sha256.Size), purpose...), code[:]...), challenge[:]...))
	return sum[:spentLen]
}

// isSpent reports whether Code stands for the code and the challenge.
func (g *Grant) isSpent() bool { return len(g.Code) == spentLen && g.Challenge == "" }

// ProvedBy reports whether code and verifier are those of the grant: the code that was sent to the client,
// and the verifier of its challenge with S256 (RFC 7636 section 4.6). It is as true of a grant whose code
// is spent. Secrets are compared in constant time. Whether the verifier is well-formed is for the caller.
func (g *Grant) ProvedBy(code, verifier string) bool {
	challenge := hashOf(verifier)
	if g.isSpent() {
		return subtle.ConstantTimeCompare(spentCode(hashOf(code), challenge), g.Code) == 1
	}
	text := base64.RawURLEncoding.AppendEncode(make([]byte, 0, challengeLen), challenge[:])
	return g.Code.Matches(code) && subtle.ConstantTimeCompare(text, []byte(g.Challenge)) == 1
}
