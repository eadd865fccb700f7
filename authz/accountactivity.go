package authz

import (
	"net/http"

	"gatehouse.example/storage"
	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// showActivity handles GET /account/activity: what happened lately to the person.
func (s *Server) showActivity(w http.ResponseWriter, r *http.Request, session liveSession) error {
	happened, err := s.activity.of(r.Context(), session.Subject)
	if err != nil {
		return err
	}
	return s.pagesFor(r, here(r)).Activity(w, templates.Activity{
		AccountPage: s.accountPage(r, session, "", ""), Events: s.shownEvents(happened.Events),
		Refused: happened.Refused.Count, RefusedAt: happened.Refused.Last, RefusedFrom: happened.Refused.From,
	})
}

// eventTexts are the sentences for the kinds of events.
var eventTexts = map[string]string{
	eventPasswordChanged: "event.passwordChanged", eventPasskeyAdded: "event.passkeyAdded", eventPasskeyRemoved: "event.passkeyRemoved",
	eventFactorOn: "event.factorOn", eventFactorOff: "event.factorOff", eventRecoveryCodeUsed: "event.recoveryCode", eventRecoveryCodesRenewed: "event.recoveryCodes",
	eventProviderConnected: "event.providerConnected", eventProviderDisconnected: "event.providerDisconnected",
	eventApplicationAllowed: "event.applicationAllowed", eventApplicationUnasked: "event.applicationUnasked", eventApplicationEnded: "event.applicationEnded", eventApplicationsEnded: "event.applicationsEnded",
	eventTokenReused: "event.tokenReused", eventSessionEnded: "event.sessionEnded", eventSessionsEnded: "event.sessionsEnded",
	eventProviderEnded: "event.providerEnded", eventProviderSignedOut: "event.providerSignedOut", eventProviderLogoutEnded: "event.providerLogoutEnded",
}

func (s *Server) shownEvents(events []storage.Event) []templates.Event {
	shown := make([]templates.Event, len(events))
	for i, e := range events {
		shown[i] = templates.Event{What: s.eventText(e), At: e.At, From: e.From, Times: e.Times, Refused: e.Refused.Count}
	}
	return shown
}

// eventText returns the sentence for an event. One that a later program wrote has none.
func (s *Server) eventText(e storage.Event) language.Text {
	about := language.Marked{Class: "name", Text: e.About}
	switch e.What {
	case eventSignedIn:
		about.Text = s.titleOf(e.About)
		return signInText(e.About, about)
	case eventProviderConnected, eventProviderDisconnected, eventProviderEnded, eventProviderSignedOut, eventProviderLogoutEnded:
		about.Text = s.titleOf(e.About)
	}
	if id, known := eventTexts[e.What]; known {
		return language.Say(id, "about", about)
	}
	return language.Say("event.unknown", "about", e.What)
}

// signInText returns the sentence for a sign-in by a method, or at a provider.
func signInText(by string, provider language.Marked) language.Text {
	switch by {
	case methodPassword:
		return language.Say("event.password")
	case methodPasskey:
		return language.Say("event.passkey")
	}
	return language.Say("event.provider", "about", provider)
}
