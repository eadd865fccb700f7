package templates

import "io"

// Closed is the page for a person who may use nothing of what a client asks for: a form with the
// submit button decision=deny, which leads back to the client, and the hidden inputs transaction
// and csrf.
type Closed struct {
	// Action is the URL that the form is posted to.
	Action string
	// Transaction and CSRF are sent back unchanged with the form.
	Transaction, CSRF string
	// Client is the client that asks, RedirectHost the host of its redirect URI, and Resources
	// are those that it wants to use.
	Client       Client
	RedirectHost string
	Resources    []Resource
	// UserName is the name of the signed-in person. Account adds the buttons to sign out.
	UserName string
	Account  Account
	// Code is what the log calls this, for the people who run the service.
	Code string
}

// closedView is a Closed with safe text.
type closedView struct {
	Closed
	Client    clientView
	Host      string
	Resources []Resource
	UserName  string
	Account   Account
	Code      string
}

// Closed writes the page for a person who may use nothing of what a client asks for.
func (s *Set) Closed(w io.Writer, p Closed) error {
	return s.render(w, "closed", s.say("closed.title"), closedView{
		Closed:    p,
		Client:    p.Client.view(s),
		Host:      address(p.RedirectHost),
		Resources: viewResources(p.Resources),
		UserName:  shorten(p.UserName, maxName),
		Account:   p.Account.view(),
		Code:      shorten(p.Code, maxName),
	})
}
