package templates_test

import (
	"strings"
	"testing"
	"time"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

var moment = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// accountPages returns each page of a person's account with a text in every place for one.
func accountPages(text string) map[string]any {
	every := templates.AccountPage{
		Account: templates.Account{UserName: text, SignOut: "/logout", Token: "t"}, OverviewURL: "/account", ApplicationsURL: "/account/applications",
		SessionsURL: "/account/sessions", ActivityURL: "/account/activity", Action: "/account/x", CSRF: "c", Older: "/account/x?before=1", Newest: "/account/x", Unreadable: 1,
	}
	said := language.Detail(text)
	client := templates.Client{Name: text, Host: text}
	events := []templates.Event{{What: said, At: moment, From: text, Times: 2, Refused: 3}}
	kept := []templates.Kept{{Host: text, Until: moment}, {Host: text}}
	applications := []templates.Application{{ID: "id", Client: client, Kept: kept, Connections: []templates.Connection{
		{ID: "id", Returns: text, Since: moment, Used: moment, From: text, Held: []templates.Held{
			{Resource: templates.Resource{URI: text, Name: text}, May: []templates.May{{Description: text, Name: text}}, Lost: []string{text}},
		}},
		{ID: "id", Since: moment, Held: []templates.Held{{Resource: templates.Resource{URI: text}}}},
	}}}
	return map[string]any{
		"account": templates.Overview{
			AccountPage: every, Email: text, Method: said, Since: moment, Clients: []templates.Client{client, client}, More: true, Browsers: 3, MoreBrowsers: true,
			Ways: []templates.Way{{Title: said, State: said, URL: "/account/password"}}, Events: events, Refused: 4, Catalogue: "https://auth.example.com/registry/",
		},
		"applications": templates.Applications{AccountPage: every, Applications: applications, EndAll: "/account/end", Remembered: "/account/remembered", Minutes: 10},
		"remembered":   templates.Remembered{AccountPage: every, Applications: applications},
		"sessions": templates.Sessions{AccountPage: every, Sessions: []templates.Session{
			{ID: "id", This: true, Browser: text, From: text, Method: said, Since: moment, Seen: moment}, {ID: "id", Method: said, Since: moment},
		}},
		"activity": templates.Activity{AccountPage: every, Events: events, Refused: 2, RefusedAt: moment, RefusedFrom: text},
		"asked":    templates.Done{AccountPage: every, Title: said, Message: said, Back: "/account", Name: "end-all", Value: "yes", Button: said},
		"done":     templates.Done{AccountPage: every, Title: said, Message: said, Back: "/account"},
	}
}

// emptyAccountPages returns the pages of somebody who has nothing.
func emptyAccountPages() map[string]any {
	return map[string]any{
		"empty account": templates.Overview{}, "empty applications": templates.Applications{}, "empty remembered": templates.Remembered{},
		"empty sessions": templates.Sessions{}, "empty activity": templates.Activity{}, "empty done": templates.Done{Title: language.Detail("Done")},
	}
}

// TestAccountPagesSayWhatThereIs looks for what a person needs to decide.
func TestAccountPagesSayWhatThereIs(t *testing.T) {
	pages := accountPages("Bank")
	check(t, "applications", render(t, pages["applications"]), []string{
		`name="end-grant" value="id"`, `name="end-application" value="id"`, `<input type="hidden" name="csrf" value="c">`, `<time datetime="2026-03-04T05:06:07Z">`,
		"for up to 10 minutes", "not possible at the moment", "until 4 March", "Unverified", `href="/account/x?before=1" rel="next"`, "One entry cannot be read",
	}, nil)
	check(t, "account", render(t, pages["account"]), []string{`name="sign-out" value="t"`, "and others act for you", "more than 3 browsers", "4 sign-ins failed", "(2 times)", "3 sign-ins had failed before"}, nil)
	check(t, "sessions", render(t, pages["sessions"]), []string{`name="end" value="id"`, `name="end-others" value="yes"`, "this browser", "A browser"}, nil)
	check(t, "asked", render(t, pages["asked"]), []string{`name="end-all" value="yes"`, `action="/account/x"`}, nil)
	check(t, "done", render(t, pages["done"]), nil, []string{"<form", "csrf"})
	single := pages["applications"].(templates.Applications)
	single.Applications[0].Connections = single.Applications[0].Connections[:1]
	check(t, "a single connection", render(t, single), []string{`name="end-application"`}, []string{`name="end-grant"`})
	empty := emptyAccountPages()
	check(t, "no applications", render(t, empty["empty applications"]), []string{"No application acts for you."}, []string{"<form"})
	check(t, "nothing remembered", render(t, empty["empty remembered"]), []string{"Every application asks you each time."}, nil)
	check(t, "nothing happened", render(t, empty["empty activity"]), []string{"Nothing yet."}, nil)
}

// TestAccountPagesLeadToEachOther: every page has the way to all others.
func TestAccountPagesLeadToEachOther(t *testing.T) {
	for name, page := range accountPages("Bank") {
		check(t, name, render(t, page), []string{`href="/account"`, `href="/account/applications"`, `href="/account/sessions"`, `href="/account/activity"`}, nil)
	}
}

// TestAccountPagesCleanNames: no text of a stranger becomes markup, turns the direction or is of
// any length.
func TestAccountPagesCleanNames(t *testing.T) {
	evil := "\u202eA<b onclick=x>" + strings.Repeat("x", 5000)
	for name, page := range accountPages(evil) {
		got := render(t, page)
		if strings.Contains(got, "\u202e") || strings.Contains(got, "<b onclick") {
			t.Errorf("%s: a name is shown as it is", name)
		}
		_, body, _ := strings.Cut(got, "<main>")
		for _, line := range strings.Split(body, "\n") {
			if text := text(line); len(text) > 3500 {
				t.Errorf("%s: a line of %d characters", name, len(text))
			}
		}
	}
}
