package templates

import (
	"io"
	"time"

	"gatehouse.example/templates/language"
)

// PasskeyPrompt is the part of a form that a browser fills in with a passkey, by the script of
// [PasskeyScript]. It stays hidden without the script.
type PasskeyPrompt struct {
	// Action is the URL that its button posts the form to, Script that of the script.
	Action, Script string
	// Options is what the browser needs, as JSON (Web Authentication sections 5.4 and 5.5).
	Options string
	// Enrol means that the browser makes a new passkey.
	Enrol bool
}

// Code is the page that asks for the second factor after the password: a form with the input
// code, and the hidden inputs transaction and csrf.
type Code struct {
	Action            string
	Transaction, CSRF string
	// UserName is the person whose password was right. Other is the URL of the page to sign in as
	// another person.
	UserName, Other string
	Problem         language.Text
}

// Code writes the page that asks for the second factor.
func (s *Set) Code(w io.Writer, p Code) error {
	p.UserName, p.Problem = shorten(p.UserName, maxName), shortText(p.Problem)
	return s.render(w, "code", s.say("code.title"), p)
}

// Passkey is a passkey in a list.
type Passkey struct {
	// ID is sent back with a form about the passkey.
	ID      string
	Name    string
	Created time.Time
	Used    time.Time // zero if it was never used
	// Synced means that it is on several devices of the person.
	Synced bool
}

// Passkeys is the page on which a person makes, names and removes passkeys. Each form has the
// hidden inputs csrf and do, and those about one passkey the input id.
type Passkeys struct {
	Action, CSRF string
	// Back is the URL of the overview.
	Back    string
	Keys    []Passkey
	Prompt  *PasskeyPrompt // nil if no passkey can be added
	Problem language.Text
}

// Passkeys writes the page with a person's passkeys.
func (s *Set) Passkeys(w io.Writer, p Passkeys) error {
	keys := make([]Passkey, len(p.Keys))
	for i, k := range p.Keys {
		k.Name = shorten(k.Name, maxName)
		keys[i] = k
	}
	p.Keys, p.Problem = keys, shortText(p.Problem)
	return s.render(w, "passkeys", s.say("passkeys.title"), p)
}

// SecondFactor is the page on which a person sets up or removes the second factor. Its forms have
// the hidden inputs csrf and do; that to set one up also setup and code.
type SecondFactor struct {
	Action, CSRF, Back string
	// Set means that there is one, since Created, with Left recovery codes.
	Set     bool
	Created time.Time
	Left    int
	// Without one: Setup is sent back with the form. Secret is what a person types into an app,
	// URI the same as a link, and Picture as a QR code of Size squares.
	Setup, Secret, URI, Picture string
	Size                        int
	Problem                     language.Text
}

// SecondFactor writes the page of the second factor.
func (s *Set) SecondFactor(w io.Writer, p SecondFactor) error {
	p.Problem = shortText(p.Problem)
	return s.render(w, "second-factor", s.say("factor.title"), p)
}

// RecoveryCodes is the page that shows new recovery codes, once.
type RecoveryCodes struct {
	Codes []string
	Back  string
}

// RecoveryCodes writes the page with new recovery codes.
func (s *Set) RecoveryCodes(w io.Writer, p RecoveryCodes) error {
	return s.render(w, "recovery", s.say("recovery.title"), p)
}

// ChangePassword is the page on which a person changes the password: the inputs current, unless
// Fresh, and new, and the hidden input csrf.
type ChangePassword struct {
	Action, CSRF, Back string
	// UserName is for password managers.
	UserName string
	// Fresh means that the person signed in without a password just now, or has none.
	Fresh   bool
	Least   int // characters of a new password
	Problem language.Text
}

// ChangePassword writes the page to change the password.
func (s *Set) ChangePassword(w io.Writer, p ChangePassword) error {
	p.UserName, p.Problem = shorten(p.UserName, maxUser), shortText(p.Problem)
	return s.render(w, "password", s.say("password.title"), p)
}

// Invite is the page of a one-time link: the person chooses a password or makes a passkey.
type Invite struct {
	Action, CSRF string
	UserName     string
	// Password means that a password can be chosen, of at least Least characters.
	Password bool
	Least    int
	Prompt   *PasskeyPrompt // nil if no passkey can be made
	Problem  language.Text
}

// Invite writes the page of a one-time link.
func (s *Set) Invite(w io.Writer, p Invite) error {
	p.UserName, p.Problem = shorten(p.UserName, maxUser), shortText(p.Problem)
	return s.render(w, "invite", s.say("invite.title"), p)
}

// PasskeyScript returns the script of pages with a [PasskeyPrompt].
func PasskeyScript() []byte { return passkeyScript }

// PolicyWithScript is [Set.ContentSecurityPolicy] for a page with the script at that URL, and no
// other.
func (s *Set) PolicyWithScript(url string) string { return s.policy + "; script-src " + url }
