package authz

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"time"

	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// The pages on which a person sees and ends what acts for them. All need a session; whoever has
// none signs in and comes back.
const (
	accountPath      = "/account"
	applicationsPath = "/account/applications"
	endAllPath       = "/account/applications/end-all"
	rememberedPath   = "/account/remembered"
	sessionsPath     = "/account/sessions"
	activityPath     = "/account/activity"
)

const (
	listLength     = 50 // entries of a page of a list
	overviewLength = 5  // entries of each list on the overview
)

// accountHandler answers a request of a signed-in person.
type accountHandler func(w http.ResponseWriter, r *http.Request, session liveSession) error

// ofPerson returns a handler that runs h for whoever is signed in. Others are sent to sign in and
// come back to path; their forms are not acted on, and cost no access to the store.
func (s *Server) ofPerson(path string, h accountHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		session, ok, err := s.signedIn(w, r, path, 0)
		if err != nil || !ok {
			return err
		}
		return h(w, r, session)
	}
}

// accountForm returns a handler for a form of a person's page. It refuses a form that was not made
// for this browser, session and purpose.
func (s *Server) accountForm(path, purpose string, filter formFilter, h func(w http.ResponseWriter, r *http.Request, session liveSession, f form) error) handler {
	return s.ofPerson(path, func(w http.ResponseWriter, r *http.Request, session liveSession) error {
		f, err := filter.body(w, r)
		if err != nil {
			return err
		}
		if s.checkCSRF(r, storage.Transaction{}, purpose, session, f.get("csrf")) != nil {
			e := foreignForm()
			e.steps = []language.Text{language.Say("error.notYours.look")}
			return e
		}
		return h(w, r, session, f)
	})
}

// accountPage returns what the pages of a person have in common. Action and purpose are those of
// the page's form, empty for none.
func (s *Server) accountPage(r *http.Request, session liveSession, action, purpose string) templates.AccountPage {
	p := templates.AccountPage{
		Account: s.account(r, session), OverviewURL: s.path(accountPath), ApplicationsURL: s.path(applicationsPath),
		SessionsURL: s.path(sessionsPath), ActivityURL: s.path(activityPath),
	}
	if purpose != "" {
		p.Action, p.CSRF = s.path(action), s.csrf(r, storage.Transaction{}, purpose, session)
	}
	return p
}

// listPage is accountPage for a page of a list.
func (s *Server) listPage(r *http.Request, session liveSession, path, purpose, before, next string, unreadable int) templates.AccountPage {
	p := s.accountPage(r, session, path, purpose)
	p.Unreadable = unreadable
	if before != "" {
		p.Newest = s.path(path)
	}
	if next != "" {
		p.Older = s.path(path) + "?before=" + url.QueryEscape(base64.RawURLEncoding.EncodeToString([]byte(next)))
	}
	return p
}

// cursor returns the place in a list from which a page goes on. It only ever leads to another
// place in a list of the same person.
func cursor(r *http.Request) (string, error) {
	f, err := listForm.parse(r.URL.RawQuery)
	if err != nil {
		return "", malformed(err.Error())
	}
	before, err := base64.RawURLEncoding.DecodeString(f.get("before"))
	if err != nil || f.problem() != "" {
		return "", malformed("the parameter before is not one of this server")
	}
	return string(before), nil
}

// showAccount handles GET /account: an overview with the way to everything else.
func (s *Server) showAccount(w http.ResponseWriter, r *http.Request, session liveSession) error {
	grants, err := s.cfg.Store.RecentGrants(r.Context(), session.Subject, "", listLength)
	if err != nil {
		return err
	}
	sessions, err := s.cfg.Store.RecentSessions(r.Context(), session.Subject, session.Epoch, "", listLength)
	if err != nil {
		return err
	}
	happened, err := s.activity.of(r.Context(), session.Subject)
	if err != nil {
		return err
	}
	p := templates.Overview{
		AccountPage: s.accountPage(r, session, "", ""), Email: session.person.Email, Method: methodText(session.Session), Since: session.AuthTime,
		Browsers: len(sessions.Items), MoreBrowsers: sessions.Next != "", Ways: s.ways(session.person),
		Events: s.shownEvents(happened.Events[:min(len(happened.Events), 3)]), Refused: happened.Refused.Count, Catalogue: s.cfg.Catalogue,
	}
	p.Unreadable = grants.Unreadable + sessions.Unreadable
	groups := byClient(grants.Items)
	p.More = grants.Next != "" || len(groups) > overviewLength
	for _, grants := range groups[:min(len(groups), overviewLength)] {
		client, err := s.clientOf(r.Context(), grants[0])
		if err != nil {
			return err
		}
		p.Clients = append(p.Clients, client)
	}
	return s.pagesFor(r, here(r)).Overview(w, p)
}

// ways returns the ways to sign in, with the pages on which a person changes them.
func (s *Server) ways(person storage.User) []templates.Way {
	password, factor := language.Say("way.passwordNone"), language.Say("way.secondFactorOff")
	if person.Password != "" {
		password = language.Say("way.passwordSet")
	}
	if person.SecondFactor != nil {
		factor = language.Say("way.secondFactorOn")
	}
	passkeys, others := language.Say("way.none"), language.Say("way.none")
	if n := len(person.Passkeys); n > 0 {
		passkeys = language.Say("way.passkeysCount", "count", n)
	}
	var list language.List
	for _, i := range person.Identities {
		if p := s.providers.byID[i.Provider]; p != nil { // with one that is not configured nobody signs in
			list = append(list, p.Title())
		}
	}
	if len(list) > 0 {
		others = language.Say("way.providersSome", "accounts", list)
	}
	var ways []templates.Way
	add := func(there bool, title, path string, state language.Text) {
		if there {
			ways = append(ways, templates.Way{Title: language.Say(title), State: state, URL: s.path(path)})
		}
	}
	here := !ofProvider(person.Name) // people of a provider have nothing of their own here
	add(here && !s.cfg.NoPasswords, "way.password", passwordPath, password)
	add(here && s.party != nil, "way.passkeys", passkeysPath, passkeys)
	add(here && !s.cfg.NoPasswords, "way.secondFactor", secondFactorPath, factor)
	add(len(s.providers.ordered) > 0 || len(person.Identities) > 0, "way.providers", providersPath, others)
	return ways
}

// methodText says how a person signed in. Sessions from before there were several ways began with
// a password.
func methodText(session storage.Session) language.Text {
	switch {
	case session.Provider != "":
		return language.Say("method.provider", "provider", session.Provider)
	case session.Method == methodPasskey:
		return language.Say("method.passkey")
	}
	return language.Say("method.password")
}

// notYours is the answer to a form about what the person does not have: what never was, what has
// ended, and what another person has are the same.
func notYours() *displayedError {
	return &displayedError{
		status: http.StatusNotFound, code: codeNotFound,
		title: language.Say("error.notYours.title"), message: language.Say("error.notYours.message"),
		steps: []language.Text{language.Say("error.notYours.look")},
	}
}

// uncertain returns the page for a change that the store did not confirm: it may have happened.
// Other errors are returned as they are.
func uncertain(err error) error {
	if !errors.Is(err, storage.ErrUnavailable) {
		return err
	}
	return &displayedError{
		status: http.StatusServiceUnavailable, code: codeUnavailable, cause: err,
		title: language.Say("error.uncertain.title"), message: language.Say("error.uncertain.message"),
		steps: []language.Text{language.Say("error.endPart.again"), language.Say("step.laterTellOperators")},
	}
}

// minutes returns for how many minutes at most an access token outlives its grant at resources
// that do not ask.
func (s *Server) minutes() int { return int((s.cfg.AccessTokenTTL + time.Minute - 1) / time.Minute) }
