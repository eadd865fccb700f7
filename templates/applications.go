package templates

import (
	"io"
	"time"

	"gatehouse.example/templates/language"
)

// Applications is the page that lists what acts for a person: a form with buttons end-grant=ID
// and end-application=ID.
type Applications struct {
	AccountPage
	Applications []Application
	// EndAll is the URL of the page that asks whether to end everything.
	EndAll string
	// Remembered is the URL of the page that lists the applications that need not ask.
	Remembered string
	// Minutes is for how long resources that do not ask here accept what was ended.
	Minutes int
}

// Application is a client that acts for a person.
type Application struct {
	// ID is the client_id, the value of the button that ends all of the application.
	ID          string
	Client      Client
	Connections []Connection
	// Kept is what the person decided to be asked no more about.
	Kept []Kept
}

// Kept is a decision to be asked no more: for answers to a host, until a time (zero for no end).
type Kept struct {
	Host  string
	Until time.Time
}

// Connection is one grant: what an application may do, and since when.
type Connection struct {
	// ID is the value of the button that ends it.
	ID string
	// Returns is the host that the answer went to.
	Returns string
	Held    []Held
	// Since is when the person allowed it, and From from what network, if that is known. Used
	// is when it was used last, zero if never.
	Since, Used time.Time
	From        string
}

// Held is what an application may do at one resource.
type Held struct {
	Resource Resource
	// May is what it may do now, Lost the names of scopes that were allowed and do not count at
	// the moment.
	May  []May
	Lost []string
}

// May is a permission in words, with the name of its scope if it is one. Whole is the text in place
// of a description, for a resource without single permissions.
type May struct {
	Description, Name string
	Whole             language.Text
}

type applicationsView struct {
	Applications
	Groups []applicationView
}

type applicationView struct {
	ID          string // the id is not changed
	Client      clientView
	Connections []Connection
	Kept        []Kept
}

// Single reports whether there is one connection: then its button would do nearly the same as
// that of the application.
func (v applicationView) Single() bool { return len(v.Connections) == 1 }

// Applications writes the page that lists what acts for a person.
func (s *Set) Applications(w io.Writer, p Applications) error {
	p.AccountPage = p.view()
	v := applicationsView{Applications: p}
	for _, a := range p.Applications {
		v.Groups = append(v.Groups, a.view(s))
	}
	return s.render(w, "applications", s.say("applications.title"), v)
}

func (a Application) view(s *Set) applicationView {
	v := applicationView{ID: a.ID, Client: a.Client.view(s)}
	for _, c := range a.Connections {
		c.Returns, c.From = address(c.Returns), shorten(c.From, maxName)
		held := make([]Held, len(c.Held))
		for i, h := range c.Held {
			held[i] = h.view(s)
		}
		c.Held = held
		v.Connections = append(v.Connections, c)
	}
	for _, k := range a.Kept {
		v.Kept = append(v.Kept, Kept{address(k.Host), k.Until})
	}
	return v
}

func (h Held) view(s *Set) Held {
	v := Held{Resource: viewResources([]Resource{h.Resource})[0]}
	for _, m := range h.May {
		shown := Box{Name: m.Name, Description: m.Description, Whole: m.Whole}.view(s, "")
		v.May = append(v.May, May{Description: shown.Description, Name: shown.Shown})
	}
	for _, name := range h.Lost {
		v.Lost = append(v.Lost, shorten(name, 2*maxName))
	}
	return v
}

// LostNames returns the names of scopes that do not count, for a sentence.
func (h Held) LostNames() language.List {
	names := make(language.List, len(h.Lost))
	for i, name := range h.Lost {
		names[i] = language.Marked{Class: "uri", Text: name}
	}
	return names
}

// Remembered is the page that lists the applications that need not ask a person again: a form
// with buttons forget=ID.
type Remembered struct {
	AccountPage
	Applications []Application
}

type rememberedView struct {
	Remembered
	Applications []applicationView
}

// Remembered writes the page that lists the applications that need not ask again.
func (s *Set) Remembered(w io.Writer, p Remembered) error {
	p.AccountPage = p.view()
	v := rememberedView{Remembered: p}
	for _, a := range p.Applications {
		v.Applications = append(v.Applications, a.view(s))
	}
	return s.render(w, "remembered", s.say("remembered.title"), v)
}
