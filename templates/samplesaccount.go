package templates

import (
	"io"
	"time"

	"gatehouse.example/templates/language"
)

// sampleTime is the time on samples.
var sampleTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func sampleAccountPage() AccountPage {
	return AccountPage{
		Account: sampleAccount(), OverviewURL: "/account", ApplicationsURL: "/account/applications", SessionsURL: "/account/sessions", ActivityURL: "/account/activity",
		Action: "/account/form", CSRF: "csrf", Older: "/account?before=a", Newest: "/account", Unreadable: 2,
	}
}

func sampleEvents() []Event {
	return []Event{{What: language.Detail(hostile), At: sampleTime, From: hostile, Times: 2, Refused: 3}}
}

func sampleActing() []Application {
	held := []Held{{Resource: sampleResources()[0], May: []May{{Description: hostile, Name: hostile}}, Lost: []string{hostile}}}
	one := Connection{ID: "first", Returns: "app.example.org", Held: held, Since: sampleTime, Used: sampleTime, From: hostile}
	two := Connection{ID: "second", Since: sampleTime}
	kept := []Kept{{"app.example.org", sampleTime}, {"app.example.org", time.Time{}}}
	return []Application{{ID: "client", Client: sampleClient(), Connections: []Connection{one, two}, Kept: kept}}
}

func sampleOverview(s *Set, w io.Writer) error {
	return s.Overview(w, Overview{
		AccountPage: sampleAccountPage(), Email: hostile, Method: language.Detail(hostile), Since: sampleTime, Clients: []Client{sampleClient()}, More: true,
		Browsers: 2, MoreBrowsers: true, Ways: []Way{{language.Detail(hostile), language.Detail(hostile), "/account/password"}},
		Events: sampleEvents(), Refused: 2, Catalogue: "https://auth.example.com/registry/",
	})
}

func sampleApplications(s *Set, w io.Writer) error {
	return s.Applications(w, Applications{
		AccountPage: sampleAccountPage(), Applications: sampleActing(), EndAll: "/account/applications/end-all", Remembered: "/account/remembered", Minutes: 10,
	})
}

func sampleRemembered(s *Set, w io.Writer) error {
	return s.Remembered(w, Remembered{AccountPage: sampleAccountPage(), Applications: sampleActing()})
}

func sampleSessions(s *Set, w io.Writer) error {
	return s.Sessions(w, Sessions{AccountPage: sampleAccountPage(), Sessions: []Session{
		{ID: "this", This: true, Browser: hostile, From: hostile, Method: language.Detail(hostile), Since: sampleTime, Seen: sampleTime},
		{ID: "other", Browser: hostile, From: hostile, Method: language.Detail(hostile), Since: sampleTime},
	}})
}

func sampleActivity(s *Set, w io.Writer) error {
	return s.Activity(w, Activity{AccountPage: sampleAccountPage(), Events: sampleEvents(), Refused: 2, RefusedAt: sampleTime, RefusedFrom: hostile})
}

func sampleDone(s *Set, w io.Writer) error {
	return s.Done(w, Done{
		AccountPage: sampleAccountPage(), Title: language.Detail(hostile), Message: language.Detail(hostile), Back: "/account",
		Name: "end-all", Value: "yes", Button: language.Detail(hostile),
	})
}
