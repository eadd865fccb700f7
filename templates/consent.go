package templates

import (
	"fmt"
	"io"
	"slices"
)

// Consent is the page on which a person allows or denies: a form with the submit
// buttons decision=allow and decision=deny, one checkbox named scope per thing that can be
// allowed, and the hidden inputs transaction and csrf.
type Consent struct {
	// Action is where the form is posted to.
	Action string
	// Transaction and CSRF come back unchanged with the form.
	Transaction, CSRF string
	// Client is who asks and RedirectHost where the answer will go.
	Client       Client
	RedirectHost string
	// LoopbackRedirect warns that any program on this computer could receive the
	// answer (RFC 8252 section 8.3), PrivateUseRedirect that any program that claimed
	// the URI scheme could (section 8.6).
	LoopbackRedirect   bool
	PrivateUseRedirect bool
	// Groups are what the client wants to use, one group per resource.
	Groups []Group
	// Offline says that the access stays until it is revoked.
	Offline bool
	// UserName is the person who is signed in, Account how they end that.
	UserName string
	Account  Account
	// Problem is shown above the form.
	Problem string
}

// Group is a resource with what can be allowed there.
type Group struct {
	Resource Resource
	Boxes    []Box
}

// Box is one thing that a person can tick.
type Box struct {
	// Value is what the checkbox sends. Without one there is nothing to choose: the
	// description is shown alone.
	Value string
	// Name is that of a scope, Description what people read.
	Name, Description string
	// Checked says that the box starts ticked.
	Checked bool
}

// consentView is Consent made safe to look at.
type consentView struct {
	Consent
	Client    clientView
	Host      string
	Resources []Resource
	Groups    []groupView
	UserName  string
	Account   Account
	Problem   string
}

// Choosable says that there is something to tick.
func (v consentView) Choosable() bool {
	return slices.ContainsFunc(v.Groups, func(g groupView) bool {
		return slices.ContainsFunc(g.Boxes, func(b boxView) bool { return b.Value != "" })
	})
}

// Asked is how many boxes there are. The number stands beside the buttons, which are in sight
// before all boxes are.
func (v consentView) Asked() (n int) {
	for _, g := range v.Groups {
		n += len(g.Boxes)
	}
	return n
}

// Several says that a resource may be left out.
func (v consentView) Several() bool { return len(v.Groups) > 1 }

// groupView is a Group made safe to look at. Title names the resource when there is more
// than one, URI tells it from another one with the same name.
type groupView struct {
	Title, URI string
	Boxes      []boxView
}

type boxView struct {
	ID, Value, Description string // the value must stay exact
	Shown                  string // the name as people see it
	Checked                bool
}

// Consent writes the consent page.
func (s *Set) Consent(w io.Writer, p Consent) error {
	resources := make([]Resource, len(p.Groups))
	for i, g := range p.Groups {
		resources[i] = g.Resource
	}
	resources = viewResources(resources)
	return s.render(w, s.consent, "Allow access?", consentView{
		Consent:   p,
		Client:    p.Client.view(),
		Host:      address(p.RedirectHost),
		Resources: resources,
		Groups:    viewGroups(p.Groups, resources),
		UserName:  brief(p.UserName, maxName),
		Account:   p.Account.view(),
		Problem:   brief(p.Problem, maxMessage),
	})
}

// viewGroups puts what can be allowed under the resource where it can be. A scope that two
// resources share has a box under each: who allows it at one has not allowed it at the other.
func viewGroups(groups []Group, shown []Resource) []groupView {
	views := make([]groupView, len(groups))
	for i, g := range groups {
		if len(groups) > 1 {
			views[i] = titled(shown, i)
		}
		for j, b := range g.Boxes {
			views[i].Boxes = append(views[i].Boxes, b.view(fmt.Sprintf("scope-%d-%d", i, j)))
		}
	}
	return views
}

func titled(shown []Resource, i int) groupView {
	v := groupView{Title: shown[i].Name}
	for j, other := range shown {
		if j != i && other.Name == v.Title {
			v.URI = shown[i].URI
		}
	}
	return v
}

func (b Box) view(id string) boxView {
	v := boxView{ID: id, Value: b.Value, Checked: b.Checked}
	v.Shown, v.Description = brief(b.Name, 2*maxName), brief(b.Description, maxURI)
	if v.Description == "" {
		v.Description, v.Shown = v.Shown, ""
	}
	return v
}
