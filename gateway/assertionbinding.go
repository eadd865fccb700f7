package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// AssertionBinding selects what an assertion is good for.
type AssertionBinding string

const (
	// BoundToCaller is for assertions about the caller alone. It is the default. Who sees an
	// assertion can use it with another request, until it expires.
	BoundToCaller AssertionBinding = "caller"
	// BoundToRequest is for assertions that also name the method, the path with the query, and
	// the digest of the body. Set it when others can read or change requests on the way to the
	// upstream. The gateway then reads each body as a whole, up to the MaxBody of the guard, and
	// /verify is not served: it sees no request to bind to.
	BoundToRequest AssertionBinding = "request"
)

// boundRequest is what an assertion of [BoundToRequest] says about a request.
type boundRequest struct{ method, target, body string }

// defaultMaxBody is the default of the MaxBody of a guard.
const defaultMaxBody = 4 << 20

// validate returns an error for a binding that is not known or not possible.
func (b AssertionBinding) validate(c *Config) error {
	switch {
	case b != "" && !slices.Contains([]AssertionBinding{BoundToCaller, BoundToRequest}, b):
		return fmt.Errorf("assertion binding %q is not known: it is caller or request", string(b))
	case b == BoundToRequest && c.Identity != IdentityAssertion:
		return fmt.Errorf("assertion binding request: the identity must be an assertion")
	case b == BoundToRequest && c.VerifyOnly:
		return fmt.Errorf("assertion binding request: a gateway that forwards nothing sees no requests that it could bind assertions to")
	}
	return nil
}

// bind reads the body of a request as a whole, so that its digest can be signed, and replaces it
// by what it read. It answers a body that is too large or does not arrive, and returns false.
func (g *Gateway) bind(w http.ResponseWriter, r *http.Request, v *visit) (*boundRequest, bool) {
	var body []byte
	if r.Body != nil {
		most := max(g.maxBody+1, g.maxBody) // one more shows that it is too large, unless there is no greater number
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, most)); err != nil {
			g.failed(w, r, err)
			return nil, false
		}
	}
	if int64(len(body)) > g.maxBody {
		g.refuse(w, r, refusal{status: http.StatusRequestEntityTooLarge,
			description: fmt.Sprintf("The body has more than %d bytes. It cannot be streamed here, because the gateway signs its digest.", g.maxBody)})
		return nil, false
	}
	r.ContentLength, r.TransferEncoding, r.Body = int64(len(body)), nil, http.NoBody
	if len(body) > 0 {
		r.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	digest := sha256.Sum256(body)
	return &boundRequest{r.Method, g.target(r, v), base64.RawURLEncoding.EncodeToString(digest[:])}, true
}

// target returns the path and the query of a request as the upstream gets them.
func (g *Gateway) target(r *http.Request, v *visit) string {
	out := url.URL{RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	out.Path, out.RawPath = under(g.places.upstream, v.rest)
	return out.RequestURI()
}

// unbound answers a request to PathVerify, for which there would be an assertion without a request.
func (g *Gateway) unbound(w http.ResponseWriter, r *http.Request) {
	g.refuse(w, r, refusal{status: http.StatusNotFound, description: "There is nothing here: assertions are bound to requests that the gateway forwards."})
}
