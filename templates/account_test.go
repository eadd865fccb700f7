package templates_test

import (
	"maps"
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
		"for up to 10 minutes", "until 4 March", "Unverified",
		`<bdi>Bank</bdi> <bdi class="uri">Bank</bdi></p>`, `not possible at the moment: <bdi class="uri">Bank</bdi>`, `href="/account/x?before=1" rel="next"`, "One entry cannot be read",
	}, nil)
	check(t, "account", render(t, pages["account"]), []string{`name="sign-out" value="t"`, `<bdi class="name">Bank</bdi> and others act for you`,
		`<dt>Bank</dt><dd><p class="line">Bank <a href="/account/password"`, `href="https://auth.example.com/registry/"`, "more than 3 browsers", "4 sign-ins failed", "(2 times)", "3 sign-ins had failed before"}, nil)
	check(t, "sessions", render(t, pages["sessions"]), []string{`name="end" value="id"`, `name="end-others" value="yes"`, "this browser", "A browser"}, nil)
	check(t, "asked", render(t, pages["asked"]), []string{`name="end-all" value="yes"`, `action="/account/x"`}, nil)
	check(t, "done", render(t, pages["done"]), nil, []string{"<form", "csrf"})
	one := pages["sessions"].(templates.Sessions)
	one.Older, one.Newest = "", ""
	check(t, "two sessions", render(t, one), []string{"end-others"}, nil)
	one.Sessions = one.Sessions[:1]
	check(t, "a single session", render(t, one), nil, []string{"end-others"})
	older, newest := one, one
	older.Older, newest.Newest = "/account/x", "/account/x"
	check(t, "a single session and older ones", render(t, older), []string{"end-others"}, nil)
	check(t, "a single session and newer ones", render(t, newest), []string{"end-others"}, nil)
	single := pages["applications"].(templates.Applications)
	single.Applications[0].Connections = single.Applications[0].Connections[:1]
	check(t, "a single connection", render(t, single), []string{`name="end-application"`}, []string{`name="end-grant"`})
	empty := emptyAccountPages()
	check(t, "no applications", render(t, empty["empty applications"]), []string{"No application acts for you."}, []string{"<form"})
	check(t, "remembered", render(t, pages["remembered"]), []string{`name="forget" value="id"`, `<bdi class="host">Bank</bdi>`}, nil)
	check(t, "nothing remembered", render(t, empty["empty remembered"]), []string{"Every application asks you each time."}, nil)
	check(t, "nothing happened", render(t, empty["empty activity"]), []string{"Nothing yet."}, nil)
}

// TestAccountPagesLeadToEachOther: every page has the way to all others.
func TestAccountPagesLeadToEachOther(t *testing.T) {
	for name, page := range accountPages("Bank") {
		check(t, name, render(t, page), []string{`href="/account"`, `href="/account/applications"`, `href="/account/sessions"`, `href="/account/activity"`}, nil)
	}
}

// TestCatalogueIsAWebPage: the link to the catalogue leads to a page of the web, or is left out.
func TestCatalogueIsAWebPage(t *testing.T) {
	for catalogue, shown := range map[string]bool{
		"https://auth.example.com/registry/": true, "http://127.0.0.1:8083/": true,
		"ftp://auth.example.com/": false, "javascript:alert(1)": false, "https:///registry/": false, "/registry/": false,
		"https://auth.example.com@example.org/": false, "https://example.org/%zz": false, "": false,
	} {
		overview := accountPages("Bank")["account"].(templates.Overview)
		overview.Catalogue = catalogue
		for _, page := range []any{overview, templates.Home{Catalogue: catalogue}} {
			if got := strings.Contains(render(t, page), `<p class="actions"><a class="plain" href="`); got != shown {
				t.Errorf("%T, %q: shown %t, want %t", page, catalogue, got, shown)
			}
		}
	}
}

// otherPages returns the pages that are not of the account, with a text in every place for one.
func otherPages(text string) map[string]any {
	said := language.Detail(text)
	client, account := templates.Client{Name: text, Host: text}, templates.Account{UserName: text, SignOut: "/logout", Token: "t"}
	provider, resources := templates.Provider{ID: "company", Name: text}, []templates.Resource{{URI: text, Name: text}}
	groups := []templates.Group{{Resource: resources[0], Boxes: []templates.Box{{Value: "a", Name: text, Description: text}, {Value: "b", Whole: said}}}}
	return map[string]any{
		"before a provider": templates.BeforeProvider{Provider: provider, Client: client, RedirectHost: text, Resources: resources},
		"connected": templates.Connected{
			Account: account, Identities: []templates.Identity{{ID: "id", Provider: text, Handle: text, Removable: true, Former: true}}, Providers: []templates.Provider{provider},
		},
		"sign-in of somebody": templates.Login{Client: client, RedirectHost: text, Resources: resources, UserName: text, Problem: said, Providers: []templates.Provider{provider}},
		"consent of somebody": templates.Consent{Client: client, RedirectHost: text, Groups: groups, UserName: text, Account: account, Problem: said},
		"closed to somebody":  templates.Closed{Client: client, RedirectHost: text, Resources: resources, UserName: text, Code: text, Account: account},
		"any error":           templates.Error{Title: said, Message: said, Code: text, Steps: []language.Text{said, said}},
		"code of somebody":    templates.Code{UserName: text, Problem: said},
		"a passkey":           templates.Passkeys{Keys: []templates.Passkey{{ID: "key-1", Name: text, Created: moment}}, Problem: said},
		"factor of somebody":  templates.SecondFactor{Size: 20, Secret: "ABCD", Problem: said},
		"a password":          templates.ChangePassword{UserName: text, Problem: said},
		"home of somebody":    templates.Home{Issuer: text, Enclosed: true, Pinned: []string{text, text}, Account: account},
		"an invitation":       templates.Invite{UserName: text, Password: true, Problem: said},
	}
}

// TestOtherPagesSayWhatThereIs: each name is beside its button.
func TestOtherPagesSayWhatThereIs(t *testing.T) {
	pages := otherPages("Bank")
	for name, want := range map[string][]string{
		"before a provider":   {`<bdi class="name">Bank</bdi> asks for access. You sign in with <bdi class="name">Bank</bdi>`, `name="provider" value="company"`},
		"connected":           {`<dt><bdi>Bank</bdi></dt><dd><p class="line"><bdi class="name">Bank</bdi></p>`, `name="disconnect" value="id"`, `name="connect" value="company">Connect <bdi>Bank</bdi>`},
		"sign-in of somebody": {`name="provider" value="company"`},
		"a passkey":           {"<bdi>Bank</bdi></h2>", `name="id" value="key-1"`, `name="name" type="text" value="Bank"`},
		"home of somebody":    {"It knows <bdi>Bank</bdi> and <bdi>Bank</bdi> without.", "You are signed in as"},
	} {
		check(t, name, render(t, pages[name]), want, nil)
	}
}

// TestPagesCleanNames: no text of a stranger becomes markup, turns the direction or is of any length.
func TestPagesCleanNames(t *testing.T) {
	evil := "\u202eA<b onclick=x>" + strings.Repeat("x", 5000)
	every := accountPages(evil)
	maps.Copy(every, otherPages(evil))
	for name, page := range every {
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
