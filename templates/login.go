package templates

import (
	"io"
	"strings"

	"gatehouse.example/templates/language"
)

// Login is the sign-in page: a form with the inputs username and password, and the hidden
// inputs transaction and csrf.
type Login struct {
	// Action is the URL that the form is posted to.
	Action string
	// Transaction and CSRF are sent back unchanged with the form.
	Transaction, CSRF string
	// Client is the client that asks for access, RedirectHost the host of its redirect URI,
	// and Resources are the resources that it wants to use.
	Client       Client
	RedirectHost string
	Resources    []Resource
	// WithoutClient means that the person signs in for a page of this server.
	WithoutClient bool
	// Passkey offers to sign in with a passkey; nil for not. WithoutPassword means that there is
	// no other way, and no form for name and password.
	Passkey         *PasskeyPrompt
	WithoutPassword bool
	// Providers are the identity providers with which a person can sign in instead, in their
	// order: submit buttons of the form, provider=ID.
	Providers []Provider
	// UserName is filled into the form.
	UserName string
	// Account is a person who is already signed in and must sign in again.
	Account Account
	// Problem is an error message above the form.
	Problem language.Text
}

// Account is the person who is signed in with this browser, for pages with buttons to sign
// out. The buttons belong to the page's form: "sign-out", and "not-you" to continue as
// another person.
type Account struct {
	// UserName is empty if no person is signed in. Then there are no buttons.
	UserName string
	// SignOut is the URL that the buttons post to, Token their value.
	SignOut, Token string
}

func (a Account) view() Account {
	a.UserName = shorten(a.UserName, maxName)
	return a
}

// Client is the client that asks for access.
type Client struct {
	// Name is the name that the client chose. It is not trusted.
	Name string
	// Verified means that the operator configured the name, or that it comes from a document
	// at Host.
	Verified bool
	// Host is the host of the client's metadata document, empty if it has none.
	Host string
	// Logo is the path of the client's logo at this server, empty for none.
	Logo string
}

// Resource is a protected server that the client wants to use.
type Resource struct{ URI, Name string }

// loginView is a Login with safe text.
type loginView struct {
	Login
	Client    clientView
	Host      string
	Resources []Resource
	Providers []Provider
	UserName  string
	Account   Account
	Problem   language.Text
}

// Login writes the sign-in page.
func (s *Set) Login(w io.Writer, p Login) error {
	return s.render(w, "login", s.say("login.title"), loginView{
		Login:     p,
		Client:    p.Client.view(s),
		Host:      address(p.RedirectHost),
		Resources: viewResources(p.Resources),
		Providers: viewProviders(p.Providers),
		UserName:  firstRunes(clean(firstBytes(p.UserName, 4*maxUser)), maxUser),
		Account:   p.Account.view(),
		Problem:   shortText(p.Problem),
	})
}

type clientView struct {
	Name, Host, Logo   string
	Verified, Nameless bool
}

func (c Client) view(s *Set) clientView {
	v := clientView{Name: shorten(c.Name, maxName), Host: address(c.Host), Verified: c.Verified}
	if strings.HasPrefix(c.Logo, "/") && !strings.HasPrefix(c.Logo, "//") {
		v.Logo = c.Logo // a path of this origin
	}
	if v.Name == "" {
		v.Name, v.Nameless = s.say("client.nameless"), true
	}
	return v
}

// viewResources returns the resources with safe text, each with a name.
func viewResources(resources []Resource) []Resource {
	views := make([]Resource, 0, len(resources))
	for _, r := range resources {
		v := Resource{URI: address(r.URI), Name: shorten(r.Name, maxName)}
		if v.Name == "" {
			v.Name = v.URI
		}
		views = append(views, v)
	}
	return views
}
