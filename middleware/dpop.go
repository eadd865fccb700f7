package middleware

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// DPoPUse says which tokens a guard accepts as far as keys of clients are concerned.
type DPoPUse int

const (
	// DPoPOff refuses tokens that are bound to a key. It is the default.
	DPoPOff DPoPUse = iota
	// DPoPAccepted accepts tokens that are bound to a key, with a proof, and bearer tokens.
	DPoPAccepted
	// DPoPRequired accepts only tokens that are bound to a key, with a proof.
	DPoPRequired
)

// DPoP configures tokens that are bound to a key of their client (RFC 9449). Each request with
// such a token has a header DPoP with a proof: a JWT about this one request, signed with the key.
// A stolen token is worthless without the key.
//
// The guard remembers proofs, so that each is accepted once. It does so in this process: where
// several processes serve the resource, a proof that somebody recorded is accepted once by each
// of them while it is recent, unless it covers the message (RequireContentDigest).
type DPoP struct {
	// Use turns it on. Nothing else has an effect without it.
	Use DPoPUse
	// Algorithms are accepted for proofs. Each is one of ES256, ES384, ES512, EdDSA, RS256, RS384,
	// RS512, PS256, PS384 and PS512; EdDSA includes its newer name Ed25519 (RFC 9864 section 2.2).
	// The default is ES256, EdDSA, RS256 and PS256.
	Algorithms []string
	// Window is how far the time of a proof ("iat") may be from the time of the server, before and
	// after. The default is five minutes, which clients of the protocol's DPoP extension can
	// expect. Set it shorter where the clocks of clients are right.
	Window time.Duration
	// RequireNonce demands proofs with a nonce of the server, which it sends in the header
	// DPoP-Nonce (RFC 9449 section 9). Then the nonce counts and not the clock of the client, so
	// that nobody can make proofs for later. Clients need one more request at the start.
	RequireNonce bool
	// Nonces makes the nonces. Set it when several processes serve the resource without
	// Config.Sessions, so that they share a key. The default is Config.Sessions, or a random key.
	Nonces *Handles
	// RequireContentDigest demands proofs with "content_digest", the digest of the message, as the
	// protocol's DPoP extension has it. A digest that is there is always checked; the guard then
	// reads the body, up to Config.MaxBody.
	RequireContentDigest bool
	// Proofs is the memory of proofs that were used. Set it to share one between guards of one
	// resource, or for another size. The default is one of this guard, for [DefaultProofs].
	Proofs *Proofs
	// Request returns the method and the URL that the client used. Set it behind a proxy that
	// changes paths. The default is the method of the request, and the path of the request at the
	// origin of the resource. It must not rely on anything that a client can set.
	Request func(*http.Request) (method, url string)
}

// DefaultProofs is the size of a memory of proofs where none is configured.
const DefaultProofs = 1 << 18

const (
	defaultProofWindow = 5 * time.Minute
	// maxProof is the maximum size of a proof, in bytes. One with an RSA key of 4096 bits has 2 KiB.
	maxProof = 4 << 10
	// maxKnownKeys is the number of keys of clients that are kept ready.
	maxKnownKeys = 4096
)

const (
	proofHeader = "Dpop"
	nonceHeader = "Dpop-Nonce"
	dpopScheme  = "DPoP"
	codeProof   = "invalid_dpop_proof"
	codeNonce   = "use_dpop_nonce"
)

// validate finds mistakes.
func (d *DPoP) validate() error {
	var errs []error
	mistake := func(is bool, sentence string, values ...any) {
		if is {
			errs = append(errs, fmt.Errorf("dpop: "+sentence, values...))
		}
	}
	mistake(d.Use < DPoPOff || d.Use > DPoPRequired, "there is no use %d", d.Use)
	mistake(d.Window < 0, "the window is below zero")
	mistake(d.Nonces != nil && !d.Nonces.usable(), "the handles for nonces have no key: make them with NewHandles")
	mistake(d.Nonces != nil && !d.RequireNonce, "Nonces have no effect without RequireNonce")
	for _, name := range d.Algorithms {
		mistake(!slices.Contains(allAlgorithms, jose.SignatureAlgorithm(name)), "%q is not an accepted algorithm: write one of %v", name, allAlgorithms)
	}
	return errors.Join(errs...)
}

// algorithms returns the accepted algorithms.
func (d *DPoP) algorithms() []jose.SignatureAlgorithm {
	if len(d.Algorithms) == 0 {
		return defaultAlgorithms
	}
	var out []jose.SignatureAlgorithm
	for _, name := range d.Algorithms {
		out = append(out, jose.SignatureAlgorithm(name))
	}
	return out
}

// announced returns the names of the algorithms as clients know them, nil if proofs are not
// accepted.
func (d *DPoP) announced() []string {
	if d.Use == DPoPOff {
		return nil
	}
	var out []string
	for _, algorithm := range d.algorithms() {
		if out = append(out, string(algorithm)); algorithm == jose.EdDSA {
			out = append(out, "Ed25519")
		}
	}
	return out
}

// dpop checks proofs for one guard.
type dpop struct {
	required   bool
	digests    bool // whether a proof must cover the message
	algorithms []jose.SignatureAlgorithm
	names      string // of the algorithms, in challenges
	window     time.Duration
	request    func(*http.Request) (method, url string)
	keys       *memory[*proofKey] // by the header of proofs; only of proofs that were valid
	used       *Proofs
	nonces     *nonces // nil without
	maxBody    int
	now        func() time.Time
}

// newDPoP returns the part of a guard that checks proofs, nil if they are not accepted.
func (g *Guard) newDPoP(c DPoP) *dpop {
	if c.Use == DPoPOff {
		return nil
	}
	d := &dpop{
		required: c.Use == DPoPRequired, digests: c.RequireContentDigest, algorithms: c.algorithms(), names: strings.Join(c.announced(), " "),
		window: cmp.Or(c.Window, defaultProofWindow), request: c.Request, keys: newMemory[*proofKey](maxKnownKeys), used: g.proofs, maxBody: g.maxBody, now: g.now,
	}
	d.used.lasts(d.window, d.now())
	if c.RequireNonce {
		d.nonces = newNonces(cmp.Or(c.Nonces, g.handles), g.resource, d.window)
	}
	if d.request == nil {
		d.request = g.requested
	}
	return d
}

// requested returns the method of a request, and its URL at the origin of the resource. The Host
// header does not count: a client can set it.
func (g *Guard) requested(r *http.Request) (method, url string) {
	path, _, _ := strings.Cut(r.RequestURI, "?") // as the client sent it, also behind http.StripPrefix
	if _, rest, whole := strings.Cut(path, "://"); whole {
		_, path = cutAt(rest, "/") // RFC 9112 section 3.2.2
	}
	if r.RequestURI == "" {
		path = r.URL.EscapedPath() // of a request that did not come over a connection
	}
	return r.Method, g.origin + path
}

// proves returns a refusal unless a request with a valid token has what RFC 9449 section 7.1
// demands: for a bound token the scheme DPoP and a valid proof, and neither for other tokens.
func (d *dpop) proves(w http.ResponseWriter, r *http.Request, raw string, token *Token) error {
	proofs := r.Header[proofHeader]
	switch scheme := isDPoP(r); {
	case token.bound.key == "" && d.required:
		return invalid("The access token is not bound to a key.")
	case token.bound.key == "" && (scheme || len(proofs) > 0):
		return invalid("The access token is not bound to the key of the proof.")
	case token.bound.key == "":
		return nil
	case !scheme:
		// RFC 9449 section 7.2: a bound token as a bearer token MUST be refused.
		return invalid("The access token is bound to a key: send it with the scheme DPoP and a proof.")
	case len(proofs) != 1:
		// RFC 9449 section 4.3: not more than one header.
		return badProof("Send one DPoP header with a proof.")
	case len(proofs[0]) > maxProof:
		return badProof("The proof is too long.")
	}
	claims, made, err := d.check(r, proofs[0], raw, token)
	if err != nil {
		return err
	}
	if err := d.covers(w, r, claims.Digest); err != nil {
		return err
	}
	return d.used.use(token, &claims, d.now(), made)
}

// isDPoP reports whether the credentials of a request have the scheme DPoP.
func isDPoP(r *http.Request) bool {
	values := r.Header["Authorization"]
	return len(values) == 1 && len(values[0]) > len(dpopScheme) && values[0][len(dpopScheme)] == ' ' &&
		strings.EqualFold(values[0][:len(dpopScheme)], dpopScheme)
}

func badProof(why string) challenge {
	return challenge{status: http.StatusUnauthorized, code: codeProof, description: why}
}

// same compares without telling by its time where two texts differ.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
