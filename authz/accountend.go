package authz

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"gatehouse.example/audit"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// endTime is how long one request goes on ending grants. With more than fit into it the page says
// that some are left.
const endTime = 10 * time.Second

// endedByPerson is the reason in the records of grants that people end.
const endedByPerson = "ended by the person"

// askEndAll handles GET /account/applications/end-all: it asks before everything is ended.
func (s *Server) askEndAll(w http.ResponseWriter, r *http.Request, session liveSession) error {
	return s.pagesFor(r, here(r)).Done(w, templates.Done{
		AccountPage: s.accountPage(r, session, endAllPath, "end all"),
		Title:       language.Say("applications.endAll.title"), Message: language.Say("applications.endAll.message"),
		Back: s.path(applicationsPath), Name: "end-all", Value: "yes", Button: language.Say("applications.endAll.button"),
	})
}

// endAll handles POST /account/applications/end-all: it ends everything that acts for the person.
func (s *Server) endAll(w http.ResponseWriter, r *http.Request, session liveSession, f form) error {
	if f.get("end-all") != "yes" {
		return invalidRequest("the form does not say what to end")
	}
	forget := func() error { return s.cfg.Store.ForgetConsents(r.Context(), session.Subject) }
	if err := forgetting(forget, func() error { return s.endGrants(r, session, "", "") }); err != nil {
		return err
	}
	return s.done(w, r, session, applicationsPath, language.Say("applications.endedAll.title"), language.Say("applications.endedAll.message", "count", s.minutes()))
}

// endApplications handles POST /account/applications: it ends one grant, or all of one client
// together with what the person decided to be asked no more about. Repeating it changes nothing.
func (s *Server) endApplications(w http.ResponseWriter, r *http.Request, session liveSession, f form) error {
	var err error
	switch id, client := f.get("end-grant"), f.get("end-application"); {
	case id != "":
		err = s.endOneGrant(r, session, id)
	case client != "":
		err = s.endApplication(r, session, client)
	default:
		err = invalidRequest("the form does not say what to end")
	}
	if err != nil {
		return err
	}
	return s.done(w, r, session, applicationsPath, language.Say("applications.ended.title"), language.Say("applications.ended.message", "count", s.minutes()))
}

// endOneGrant ends a grant of the person. One of another person is like one that does not exist.
func (s *Server) endOneGrant(r *http.Request, session liveSession, id string) error {
	g, err := s.cfg.Store.Grant(r.Context(), id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && g.Subject != session.Subject {
		return notYours()
	}
	if err != nil {
		return err
	}
	if err := s.cfg.Store.Revoke(r.Context(), g.ID, endedByPerson); err != nil {
		return uncertain(err)
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "grant ended by the person", "sub", session.Subject, "client", g.ClientID, "grant", g.ID)
	if g.State != storage.GrantRevoked {
		ended := ofGrant(audit.GrantRevoked, g)
		ended.shown, ended.about = eventApplicationEnded, cmp.Or(g.ClientName, hostOfClient(s.clients.Known(g.ClientID)))
		s.happened(r.Context(), ended)
	}
	return nil
}

// forgetting ends grants. What was remembered about them is forgotten first, so that nothing new begins in
// place of what ends, and once more afterwards: a decision that is remembered meanwhile loses its grant.
func forgetting(forget, end func() error) error {
	if err := forget(); err != nil {
		return uncertain(err)
	}
	if err := end(); err != nil {
		return err
	}
	return uncertain(forget())
}

// endApplication ends all grants of a client.
func (s *Server) endApplication(r *http.Request, session liveSession, clientID string) error {
	name, err := s.nameAmong(r.Context(), session, clientID)
	if err != nil {
		return err
	}
	forget := func() error { return s.cfg.Store.DeleteConsent(r.Context(), session.Subject, clientID) }
	return forgetting(forget, func() error { return s.endGrants(r, session, clientID, name) })
}

// nameAmong returns the name of a client for the list of what happened.
func (s *Server) nameAmong(ctx context.Context, session liveSession, clientID string) (string, error) {
	grants, err := s.cfg.Store.RecentGrants(ctx, session.Subject, "", listLength)
	if err != nil {
		return "", err
	}
	for _, g := range grants.Items {
		if g.ClientID == clientID && g.ClientName != "" {
			return g.ClientName, nil
		}
	}
	return hostOfClient(s.clients.Known(clientID)), nil
}

// howInPart is how grants of a person ended of which some are left.
const howInPart = "in-part"

// endGrants ends the person's grants of a client, or all. If some are left, the error says how
// many have ended.
func (s *Server) endGrants(r *http.Request, session liveSession, clientID, name string) error {
	ctx, cancel := context.WithTimeout(r.Context(), endTime)
	defer cancel()
	ended, err := s.cfg.Store.EndGrants(ctx, session.Subject, clientID, endedByPerson)
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "grants ended by the person", "sub", session.Subject, "client", clientID, "ended", ended, "error", err)
	of := fact{kind: audit.GrantRevoked, person: session.Subject, client: clientID, shown: eventApplicationEnded, about: name}
	if clientID == "" {
		of.shown = eventApplicationsEnded
		if err != nil { // the person's list would say that all have ended
			of.shown, of.how = "", howInPart
		}
	}
	if ended > 0 || of.shown == eventApplicationsEnded {
		s.happened(r.Context(), of)
	}
	if err == nil {
		return nil
	}
	message := language.Say("error.endPart.message", "count", ended)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		message = language.Say("error.endPart.late", "count", ended)
	}
	return &displayedError{
		status: http.StatusServiceUnavailable, code: codeUnavailable, cause: err,
		title: language.Say("error.endPart.title"), message: message,
		steps: []language.Text{language.Say("error.endPart.again"), language.Say("step.laterTellOperators")},
	}
}

// forget handles POST /account/remembered: an application has to ask again.
func (s *Server) forget(w http.ResponseWriter, r *http.Request, session liveSession, f form) error {
	if f.get("forget") == "" {
		return invalidRequest("the form does not say what to forget")
	}
	if err := s.cfg.Store.DeleteConsent(r.Context(), session.Subject, f.get("forget")); err != nil {
		return uncertain(err)
	}
	s.happened(r.Context(), fact{kind: audit.ConsentForgotten, person: session.Subject, client: f.get("forget")})
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "remembered consent forgotten", "sub", session.Subject, "client", f.get("forget"))
	return s.done(w, r, session, rememberedPath, language.Say("remembered.forgotten.title"), language.Say("remembered.forgotten.message"))
}

// done writes the page that says what was done. It is the answer to the form itself, not a page
// with an address: no link can claim that something was ended.
func (s *Server) done(w http.ResponseWriter, r *http.Request, session liveSession, back string, title, message language.Text) error {
	return s.pagesFor(r, "").Done(w, templates.Done{
		AccountPage: s.accountPage(r, session, "", ""), Title: title, Message: message, Back: s.path(back),
	})
}
