package middlewaretest

import (
	"encoding/json"
	"maps"

	"github.com/go-jose/go-jose/v4"
)

// Form is the form of the signed tokens of an issuer. The default is that of RFC 9068.
type Form struct {
	// Type is "typ" in the header of each token. If it is empty, the header has no "typ".
	Type string
	// Claims returns the claims of a token in this form: it gets a copy of them under the names of
	// RFC 9068, and may change it. Values that are not those of a good token must stay as they
	// are, because [Issuer.Broken] makes its tokens with them.
	Claims func(Claims) Claims
}

var rfc9068 = Form{Type: "at+jwt", Claims: func(c Claims) Claims { return c }}

// SetForm changes the form of all tokens that are minted from now on, also of those that
// [Issuer.Broken] returns, so that they look like tokens of another provider. Opaque tokens and
// introspection responses stay as they are.
func (i *Issuer) SetForm(form Form) {
	if form.Claims == nil {
		form.Claims = rfc9068.Claims
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.form = form
}

func (i *Issuer) currentForm() Form {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.form
}

// header returns the header of a token of the current form, with further members. A member "typ"
// replaces that of the form.
func (i *Issuer) header(members map[jose.HeaderKey]any) map[jose.HeaderKey]any {
	out := make(map[jose.HeaderKey]any)
	if typ := i.currentForm().Type; typ != "" {
		out["typ"] = typ
	}
	maps.Copy(out, members)
	return out
}

// payload returns claims in the current form.
func (i *Issuer) payload(claims Claims) []byte {
	i.t.Helper()
	payload, err := json.Marshal(i.currentForm().Claims(maps.Clone(claims)))
	if err != nil {
		i.t.Fatalf("middlewaretest: %v", err)
	}
	return payload
}
