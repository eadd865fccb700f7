package authz

import (
	"context"
	"errors"
	"net/http"

	"gatehouse.example/audit"
	"gatehouse.example/internal/quietlog"
	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// showSessions handles GET /account/sessions: where the person is signed in.
func (s *Server) showSessions(w http.ResponseWriter, r *http.Request, session liveSession) error {
	before, err := cursor(r)
	if err != nil {
		return err
	}
	page, err := s.cfg.Store.RecentSessions(r.Context(), session.Subject, session.Epoch, before, listLength)
	if err != nil {
		return err
	}
	p := templates.Sessions{AccountPage: s.listPage(r, session, sessionsPath, "sessions", before, page.Next, page.Unreadable)}
	for _, one := range page.Items {
		if s.over(one) {
			continue
		}
		p.Sessions = append(p.Sessions, templates.Session{
			ID: one.ID(), This: one.ID() == session.ID(), Browser: one.Browser, From: one.From,
			Method: methodText(one), Since: one.AuthTime, Seen: one.Seen,
		})
	}
	return s.pagesFor(r, here(r)).Sessions(w, p)
}

// endListed handles POST /account/sessions: it ends one session, or all but the present one.
func (s *Server) endListed(w http.ResponseWriter, r *http.Request, session liveSession, f form) error {
	if f.get("end-others") == "yes" {
		return s.signOutElsewhere(w, r, session)
	}
	one, err := s.cfg.Store.SessionByID(r.Context(), f.get("end"))
	if errors.Is(err, storage.ErrNotFound) || err == nil && one.Subject != session.Subject {
		return notYours()
	}
	if err != nil {
		return err
	}
	if one.ID() == session.ID() {
		if err := s.endSession(w, r, session); err != nil {
			return uncertain(err)
		}
		return s.signedOut(w, r)
	}
	if err := s.cfg.Store.EndSession(r.Context(), one.ID()); err != nil {
		return uncertain(err)
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "session ended by the person", "user", session.UserName, "sub", session.Subject)
	s.happened(r.Context(), fact{kind: audit.SignedOut, person: session.Subject, shown: eventSessionEnded, about: one.Browser})
	return s.done(w, r, session, sessionsPath, language.Say("sessions.ended.title"), language.Say("sessions.ended.message"))
}

// signOutElsewhere ends all sessions of the person but the present one.
func (s *Server) signOutElsewhere(w http.ResponseWriter, r *http.Request, session liveSession) error {
	next, err := s.endOtherSessions(w, r, session, nil)
	if err != nil {
		return uncertain(err)
	}
	s.cfg.Logger.InfoContext(quietlog.Always(r.Context()), "other sessions ended by the person", "user", session.UserName, "sub", session.Subject)
	s.happened(r.Context(), fact{kind: audit.SignedOut, person: session.Subject, shown: eventSessionsEnded})
	return s.done(w, r, next, sessionsPath, language.Say("sessions.endedOthers.title"), language.Say("sessions.endedOthers.message"))
}

// removeEnded removes the sessions of a person that ended with an earlier epoch. They sign nobody
// in, and would lengthen the list.
func (s *Server) removeEnded(subject string, epoch int) func(context.Context) error {
	return func(ctx context.Context) error {
		for session, err := range s.cfg.Store.Sessions(ctx, subject) {
			if errors.Is(err, storage.ErrRecord) {
				continue
			}
			if err != nil {
				return err
			}
			if session.Epoch < epoch {
				if err := s.cfg.Store.EndSession(ctx, session.ID()); err != nil {
					return err
				}
			}
		}
		return nil
	}
}
