package templates

import (
	"fmt"
	"io"
	"slices"
)

// Consent is the page on which a person allows or denies: a form with the submit
// buttons decision=allow and decision=deny, one checkbox named scope per scope, and the
// hidden inputs transaction and csrf.
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
	// Resources are what the client wants to use, Scopes what it wants to do there.
	Resources []Resource
	Scopes    []Scope
	// Offline says that the access stays until it is revoked.
	Offline bool
	// UserName is the person who is signed in.
	UserName string
	// Problem is shown above the form.
	Problem string
}

// Scope is one permission that a person can tick.
type Scope struct {
	// Name is the value of the checkbox, Description what people read.
	Name, Description string
	// Resource is the URI or the name of the resource that the scope belongs to. A
	// scope that several resources share is listed once for each of them and shown once.
	Resource string
	// Checked says that the box starts ticked.
	Checked bool
}

// consentView is Consent made safe to look at.
type consentView struct {
	Consent
	Client    clientView
	Host      string
	Resources []Resource
	Groups    []scopeGroup
	UserName  string
	Problem   string
}

// scopeGroup is the scopes that belong to the same resources.
type scopeGroup struct {
	// Titles names the resources; it is empty when there is nothing to tell apart.
	Titles []string
	Scopes []scopeView
}

type scopeView struct {
	Index             int
	Name, Description string
	Shown             string // the name as people see it; the value must stay exact
	Checked           bool
}

// Consent writes the consent page.
func (s *Set) Consent(w io.Writer, p Consent) error {
	resources := viewResources(p.Resources)
	return s.render(w, s.consent, "Allow access?", consentView{
		Consent:   p,
		Client:    p.Client.view(),
		Host:      address(p.RedirectHost),
		Resources: resources,
		Groups:    groupScopes(p, resources),
		UserName:  brief(p.UserName, maxName),
		Problem:   brief(p.Problem, maxMessage),
	})
}

// groupScopes puts the scopes of each resource together, each scope once: two boxes of
// one scope could contradict each other.
func groupScopes(p Consent, shown []Resource) []scopeGroup {
	var groups []scopeGroup
	at, done := map[string]int{}, map[string]bool{}
	for i, s := range p.Scopes {
		if done[s.Name] {
			continue
		}
		done[s.Name] = true
		owners := owners(p, s.Name)
		key := fmt.Sprint(owners)
		if _, ok := at[key]; !ok {
			at[key] = len(groups)
			groups = append(groups, scopeGroup{Titles: titles(owners, shown)})
		}
		g := &groups[at[key]]
		g.Scopes = append(g.Scopes, s.view(i))
	}
	return groups
}

// owners returns the indexes of the resources that a scope belongs to.
func owners(p Consent, scope string) []int {
	var found []int
	for i, r := range p.Resources {
		if slices.ContainsFunc(p.Scopes, func(s Scope) bool {
			return s.Name == scope && s.Resource != "" && (s.Resource == r.URI || s.Resource == r.Name)
		}) {
			found = append(found, i)
		}
	}
	return found
}

// titles names the owners of a group when there is more than one resource.
func titles(owners []int, shown []Resource) []string {
	if len(shown) < 2 {
		return nil
	}
	var names []string
	for _, i := range owners {
		names = append(names, shown[i].Name)
	}
	return names
}

func (s Scope) view(index int) scopeView {
	v := scopeView{Index: index, Name: s.Name, Checked: s.Checked}
	v.Shown, v.Description = brief(s.Name, 2*maxName), brief(s.Description, maxURI)
	if v.Description == "" {
		v.Description, v.Shown = v.Shown, ""
	}
	return v
}
