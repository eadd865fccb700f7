package authz

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gatehouse.example/storage"
)

// The values of prompt (OpenID Connect Core section 3.1.2.1). Others are ignored.
const (
	promptNone    = "none"
	promptLogin   = "login"
	promptSelect  = "select_account"
	promptConsent = "consent"
)

// checkPrompt reads prompt (OpenID Connect Core section 3.1.2.1) and ignores unknown values.
func checkPrompt(_ *Server, f form, a *authorization) error {
	a.prompt = strings.Fields(f.get("prompt"))
	if slices.Contains(a.prompt, promptNone) && len(a.prompt) > 1 {
		return a.to.refuse(codeInvalidRequest, "prompt=none cannot be combined with other values")
	}
	return nil
}

// maxAgeDigits bounds max_age: 9 digits are thirty years.
const maxAgeDigits = 9

// checkMaxAge reads max_age, the greatest time in seconds since the person signed in (OpenID
// Connect Core section 3.1.2.1).
func checkMaxAge(_ *Server, f form, a *authorization) error {
	raw := f.get("max_age")
	if raw == "" {
		return nil
	}
	age, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || len(raw) > maxAgeDigits || strings.Trim(raw, "0123456789") != "" {
		return a.to.refuse(codeInvalidRequest, "max_age must be a number of seconds, of at most %d digits", maxAgeDigits)
	}
	a.maxAge = &age
	return nil
}

// checkLoginHint reads login_hint, the person whom the client expects (OpenID Connect Core section
// 3.1.2.1). A value that cannot be a name is ignored.
func checkLoginHint(_ *Server, f form, a *authorization) error {
	if hint := f.get("login_hint"); plausibleName(hint) {
		a.hint = hint
	}
	return nil
}

// maxHint is the greatest length of a login_hint that is shown, in bytes.
const maxHint = 128

// plausibleName reports whether a text from a client may be the name of a person, here or at a
// provider: one visible word.
func plausibleName(hint string) bool {
	return hint != "" && len(hint) <= maxHint && utf8.ValidString(hint) && !strings.ContainsFunc(hint, func(c rune) bool {
		return !unicode.IsGraphic(c) || unicode.IsSpace(c)
	})
}

// isAnother reports whether a login_hint names another person than that of the session: then the
// person is asked who they are. It looks at the person's own record only, so it reveals nothing
// about others. An address says nothing about a person of whom none is known.
func (l liveSession) isAnother(hint string) bool {
	if hint == "" {
		return false
	}
	names := []string{l.UserName, l.person.Email}
	for _, i := range l.person.Identities {
		names = append(names, i.Handle, i.Provider+"/"+i.Handle)
	}
	if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, hint) }) {
		return false
	}
	address := func(name string) bool { return strings.Contains(name, "@") }
	return !address(hint) || slices.ContainsFunc(names, address)
}

// withPrompt returns the transaction with what the client asks about the sign-in and the consent.
// A max_age of 0 is prompt=login (OpenID Connect Core section 3.1.2.1).
func (a authorization) withPrompt(t storage.Transaction) storage.Transaction {
	t.ForceLogin = slices.Contains(a.prompt, promptLogin) || slices.Contains(a.prompt, promptSelect) || a.maxAge != nil && *a.maxAge == 0
	t.ForceConsent = slices.Contains(a.prompt, promptConsent)
	t.MaxAge, t.LoginHint = a.maxAge, a.hint
	return t
}

// withoutPage returns the error for prompt=none where a page would have to be shown (OpenID
// Connect Core section 3.1.2.6).
func (s *Server) withoutPage(r *http.Request, a authorization, t storage.Transaction, session liveSession) error {
	if !session.satisfies(t) {
		return a.to.refuse(codeLoginRequired, "a person has to sign in, and prompt=none forbids a sign-in page")
	}
	offered, err := s.offered(r.Context(), a.set, t, session.person)
	if err != nil {
		return err
	}
	if len(offered) == 0 {
		return a.to.refuse(codeInteractionRequired, "the person has to see a page, and prompt=none forbids it")
	}
	return a.to.refuse(codeConsentRequired, "consent is required, and prompt=none forbids a consent page")
}
