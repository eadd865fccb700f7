package templates

import (
	"io"
	"slices"
	"strconv"

	"gatehouse.example/templates/language"
)

// Consent is the page on which a person allows or denies access: a form with the submit
// buttons decision=allow and decision=deny, one checkbox named scope per permission, and the
// hidden inputs transaction and csrf.
type Consent struct {
	// Action is the URL that the form is posted to.
	Action string
	// Transaction and CSRF are sent back unchanged with the form.
	Transaction, CSRF string
	// Client is the client that asks for access. RedirectHost is the host of its redirect
	// URI.
	Client       Client
	RedirectHost string
	// LoopbackRedirect adds a warning that any program on this computer could receive the
	// answer (RFC 8252 section 8.3), PrivateUseRedirect one that any program that claimed the
	// URI scheme could (section 8.6).
	LoopbackRedirect   bool
	PrivateUseRedirect bool
	// Groups are the permissions that the client asks for, one group per resource.
	Groups []Group
	// Offline means that the access lasts until it is revoked.
	Offline bool
	// PreApproved means that the operator approved all of it: there is nothing to choose.
	PreApproved bool
	// Memories are the choices how long the decision is remembered, besides not at all. Without
	// any there is no choice.
	Memories []Memory
	// UserName is the name of the signed-in person. Account adds the buttons to sign out.
	UserName string
	Account  Account
	// Problem is an error message above the form.
	Problem language.Text
}

// Memory is a choice how long a decision is remembered: always, whole days, or hours.
type Memory struct {
	// Value is the value of the input remember.
	Value  string
	Always bool
	// Days is zero if the time is not whole days.
	Days, Hours int
}

// Group is a resource with its permissions.
type Group struct {
	Resource Resource
	Boxes    []Box
}

// Box is one permission with a checkbox.
type Box struct {
	// Value is the value of the checkbox. If it is empty, the description is shown without a
	// checkbox.
	Value string
	// Name is the name of a scope, Description the text that people read.
	Name, Description string
	// Whole is the text in place of a description, for a resource without single permissions.
	Whole language.Text
	// Checked means that the box is initially ticked.
	Checked bool
}

// consentView is a Consent with safe text.
type consentView struct {
	Consent
	Client        clientView
	Host          string
	Resources     []Resource
	ResourceNames any // the names of the resources, for a sentence
	Groups        []groupView
	Several       bool // there is more than one group, so that one may be left out
	Choosable     bool // there is a checkbox
	// Asked is the number of boxes. It is shown beside the buttons, which are visible before all boxes
	// are.
	Asked    int
	UserName string
	Account  Account
	Problem  language.Text
}

// choosable reports whether there is a checkbox.
func (p Consent) choosable() bool {
	return !p.PreApproved && slices.ContainsFunc(p.Groups, func(g Group) bool {
		return slices.ContainsFunc(g.Boxes, func(b Box) bool { return b.Value != "" })
	})
}

// asked returns the number of boxes.
func (p Consent) asked() (n int) {
	for _, g := range p.Groups {
		n += len(g.Boxes)
	}
	return n
}

// resourceNames returns the names of resources, for a sentence.
func resourceNames(resources []Resource) any {
	if len(resources) == 0 {
		return language.Say("consent.thisServer")
	}
	names := make(language.List, len(resources))
	for i, r := range resources {
		names[i] = language.Marked{Class: "name", Text: r.Name}
	}
	return names
}

// groupView is a Group with safe text. Title names the resource if there is more than one,
// URI distinguishes it from another one with the same name.
type groupView struct {
	Title, URI string
	Boxes      []boxView
}

type boxView struct {
	ID, Value, Description string // the value is not changed
	Shown                  string // the name as shown
	Checked                bool
}

// Consent writes the consent page.
func (s *Set) Consent(w io.Writer, p Consent) error {
	resources := make([]Resource, len(p.Groups))
	for i, g := range p.Groups {
		resources[i] = g.Resource
	}
	resources = viewResources(resources)
	return s.render(w, "consent", s.say("consent.title"), consentView{
		Consent:       p,
		Client:        p.Client.view(s),
		Host:          address(p.RedirectHost),
		Resources:     resources,
		ResourceNames: resourceNames(resources),
		Groups:        viewGroups(s, p.Groups, resources),
		Several:       len(p.Groups) > 1,
		Choosable:     p.choosable(),
		Asked:         p.asked(),
		UserName:      shorten(p.UserName, maxName),
		Account:       p.Account.view(),
		Problem:       shortText(p.Problem),
	})
}

// viewGroups returns the groups with safe text. A scope that two resources share has a box
// under each: a person can allow it at one of them only.
func viewGroups(s *Set, groups []Group, shown []Resource) []groupView {
	views := make([]groupView, len(groups))
	for i, g := range groups {
		if len(groups) > 1 {
			views[i] = titled(shown, i)
		}
		views[i].Boxes = make([]boxView, len(g.Boxes))
		for j, b := range g.Boxes {
			views[i].Boxes[j] = b.view(s, "scope-"+strconv.Itoa(i)+"-"+strconv.Itoa(j))
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

func (b Box) view(s *Set, id string) boxView {
	v := boxView{ID: id, Value: b.Value, Checked: b.Checked}
	v.Shown, v.Description = shorten(b.Name, 2*maxName), shorten(b.Description, maxURI)
	if !b.Whole.IsZero() {
		v.Description = s.reader.Language.Plain(shortText(b.Whole))
	}
	if v.Description == "" {
		v.Description, v.Shown = v.Shown, ""
	}
	return v
}
