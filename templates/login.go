package templates

import (
	"io"
	"strings"
)

// Login is the sign-in page: a form with the inputs username and password, and the
// hidden inputs transaction and csrf.
type Login struct {
	// Action is where the form is posted to.
	Action string
	// Transaction and CSRF come back unchanged with the form.
	Transaction, CSRF string
	// Client is who asks, RedirectHost where the answer will go, and Resources what
	// the client wants to use.
	Client       Client
	RedirectHost string
	Resources    []Resource
	// UserName is filled into the form.
	UserName string
	// Account is who is signed in already, and has to do so again.
	Account Account
	// Problem is shown above the form.
	Problem string
}

// Account is the person who is signed in with this browser, for a page on which they can
// end that. Its buttons belong to the page's form: "sign-out", and "not-you" for whoever
// wants to go on as somebody else.
type Account struct {
	// UserName is empty if nobody is signed in. Then there are no buttons.
	UserName string
	// SignOut is where the buttons post to, Token the value of the one that is pressed.
	SignOut, Token string
}

func (a Account) view() Account {
	a.UserName = brief(a.UserName, maxName)
	return a
}

// Client is the program that asks for access.
type Client struct {
	// Name is what the program calls itself. It is not to be trusted.
	Name string
	// Verified says that the name was configured by the operator or comes from a
	// document at Host.
	Verified bool
	// Host is where the client's metadata document lives, if it has one.
	Host string
	// Logo is a path of ours that answers with the client's logo, empty for none.
	Logo string
}

// Resource is a protected server that the client wants to use.
type Resource struct{ URI, Name string }

// loginView is Login made safe to look at.
type loginView struct {
	Login
	Client    clientView
	Host      string
	Resources []Resource
	UserName  string
	Account   Account
	Problem   string
}

// Login writes the sign-in page.
func (s *Set) Login(w io.Writer, p Login) error {
	return s.render(w, s.login, "Sign in", loginView{
		Login:     p,
		Client:    p.Client.view(),
		Host:      address(p.RedirectHost),
		Resources: viewResources(p.Resources),
		UserName:  firstRunes(clean(firstBytes(p.UserName, 4*maxUser)), maxUser),
		Account:   p.Account.view(),
		Problem:   brief(p.Problem, maxMessage),
	})
}

type clientView struct {
	Name, Host, Logo   string
	Verified, Nameless bool
}

func (c Client) view() clientView {
	v := clientView{Name: brief(c.Name, maxName), Host: address(c.Host), Verified: c.Verified}
	if strings.HasPrefix(c.Logo, "/") && !strings.HasPrefix(c.Logo, "//") {
		v.Logo = c.Logo // of this origin, whatever happens
	}
	if v.Name == "" {
		v.Name, v.Nameless = "An application without a name", true
	}
	return v
}

// viewResources gives every resource a name to show.
func viewResources(resources []Resource) []Resource {
	views := make([]Resource, 0, len(resources))
	for _, r := range resources {
		v := Resource{URI: address(r.URI), Name: brief(r.Name, maxName)}
		if v.Name == "" {
			v.Name = v.URI
		}
		views = append(views, v)
	}
	return views
}
