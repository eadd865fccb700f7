package templates

import (
	"io"
	"net/url"
	"time"

	"gatehouse.example/templates/language"
)

// AccountPage is what all pages of a person's account have in common.
type AccountPage struct {
	// Account is the person, with the button to sign out.
	Account Account
	// OverviewURL, ApplicationsURL, SessionsURL and ActivityURL lead to the other pages.
	OverviewURL, ApplicationsURL, SessionsURL, ActivityURL string
	// Action is the URL that the page's form is posted to, CSRF its hidden input csrf.
	Action, CSRF string
	// Older is the URL of the page that follows in a list, and Newest that of the first page;
	// empty for none. Unreadable is how many entries of the page cannot be read.
	Older, Newest string
	Unreadable    int
}

func (p AccountPage) view() AccountPage {
	p.Account = p.Account.view()
	return p
}

// Overview is the first page of a person's account.
type Overview struct {
	AccountPage
	// Email is the person's address, empty for none. Method is how the person signed in, at
	// Since.
	Email  string
	Method language.Text
	Since  time.Time
	// Clients are some applications that act for the person; More says that there are others.
	Clients []Client
	More    bool
	// Browsers is with how many browsers the person is signed in, up to some number;
	// MoreBrowsers says that there are others.
	Browsers     int
	MoreBrowsers bool
	// Ways are the ways to sign in.
	Ways []Way
	// Events are the latest, Refused is how many sign-ins failed since the last one.
	Events  []Event
	Refused int
	// Catalogue is the URL of the pages that list servers, empty for none.
	Catalogue string
}

// Way is a way to sign in: its name, what there is of it, and the URL of its page.
type Way struct {
	Title, State language.Text
	URL          string
}

// Event is something that happened to a person.
type Event struct {
	What language.Text
	At   time.Time
	// From is the network of the browser, empty if it is unknown.
	From string
	// Times is how often it happened, if more than once. Refused is how many sign-ins failed
	// before it.
	Times, Refused int
}

type overviewView struct {
	Overview
	Clients []clientView
}

// Names returns the names of the applications, for a sentence.
func (v overviewView) Names() language.List {
	names := make(language.List, len(v.Clients))
	for i, c := range v.Clients {
		names[i] = language.Marked{Class: "name", Text: c.Name}
	}
	return names
}

// Overview writes the first page of a person's account.
func (s *Set) Overview(w io.Writer, p Overview) error {
	p.AccountPage = p.view()
	p.Email = shorten(p.Email, maxUser)
	p.Method = shortText(p.Method)
	if u, err := url.Parse(p.Catalogue); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		p.Catalogue = ""
	}
	v := overviewView{Overview: p}
	v.Events = viewEvents(p.Events)
	for _, c := range p.Clients {
		v.Clients = append(v.Clients, c.view(s))
	}
	v.Ways = nil
	for _, way := range p.Ways {
		v.Ways = append(v.Ways, Way{shortText(way.Title), shortText(way.State), way.URL})
	}
	return s.render(w, "account", s.say("account.title"), v)
}

func viewEvents(events []Event) []Event {
	views := make([]Event, len(events))
	for i, e := range events {
		e.What, e.From = shortText(e.What), shorten(e.From, maxName)
		views[i] = e
	}
	return views
}

// Activity is the page that lists what happened lately to a person.
type Activity struct {
	AccountPage
	// Events are the latest, the newest first.
	Events []Event
	// Refused is how many sign-ins failed since the last one that did not, RefusedAt the time
	// of the last of them and RefusedFrom its network.
	Refused     int
	RefusedAt   time.Time
	RefusedFrom string
}

// Activity writes the page that lists what happened lately.
func (s *Set) Activity(w io.Writer, p Activity) error {
	p.AccountPage = p.view()
	p.Events, p.RefusedFrom = viewEvents(p.Events), shorten(p.RefusedFrom, maxName)
	return s.render(w, "activity", s.say("activity.title"), p)
}

// Sessions is the page that lists where a person is signed in: a form with buttons end=ID, and
// end-others=yes.
type Sessions struct {
	AccountPage
	Sessions []Session
}

// Session is one browser in which a person is signed in.
type Session struct {
	ID string
	// This marks the browser that asks.
	This bool
	// Browser describes the browser, From is its network; both may be empty.
	Browser, From string
	// Method is how the person signed in, at Since. Seen is the last use, zero if it is
	// unknown.
	Method      language.Text
	Since, Seen time.Time
}

// Others reports whether there are other sessions than the present one.
func (p Sessions) Others() bool {
	for _, s := range p.Sessions {
		if !s.This {
			return true
		}
	}
	return p.Older != "" || p.Newest != ""
}

// Sessions writes the page that lists where a person is signed in.
func (s *Set) Sessions(w io.Writer, p Sessions) error {
	p.AccountPage = p.view()
	shown := make([]Session, len(p.Sessions))
	for i, session := range p.Sessions {
		session.Browser, session.From = shorten(session.Browser, maxName), shorten(session.From, maxName)
		session.Method = shortText(session.Method)
		shown[i] = session
	}
	p.Sessions = shown
	return s.render(w, "sessions", s.say("sessions.title"), p)
}

// Done is a page that says what was done to a person's account, or asks whether to do it.
type Done struct {
	AccountPage
	// Title and Message are what was done, or what would be done.
	Title, Message language.Text
	// Back is the URL that the page leads back to.
	Back string
	// Name, Value and Button are the button that does it, empty if it was done.
	Name, Value string
	Button      language.Text
}

// Done writes a page that says what was done, or asks whether to do it.
func (s *Set) Done(w io.Writer, p Done) error {
	p.AccountPage = p.view()
	p.Title, p.Message, p.Button = shortText(p.Title), shortText(p.Message), shortText(p.Button)
	return s.render(w, "done", s.reader.Language.Plain(p.Title), p)
}
